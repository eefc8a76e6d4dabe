"""The divergence between wordings, compared with NumPy and scipy's definition of KL."""

import itertools
import types

import jax
import numpy as np
import pytest
from scipy import special, stats
from t5x import models
from t5x.examples.decoder_only import network as decoder_network
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.models.consistency import consistent, from_mean, symmetric
from tests.support import grids

WORDS = types.SimpleNamespace(eos_id=1, vocab_size=20)
SIZES = {
    "vocab_size": 20, "emb_dim": 8, "num_heads": 2, "head_dim": 4, "mlp_dim": 16,
    "mlp_activations": ("gelu", "linear"), "dropout_rate": 0.0,
}  # fmt: skip
TARGETS = [[3, 4, 1], [3, 4, 1], [5, 1, 0], [6, 1, 0]]
INPUTS = [[7, 8, 1, 0], [9, 9, 9, 1], [2, 1, 0, 0], [4, 4, 1, 0]]
RNG = np.random.default_rng(0)


def shifted(tokens):
    return np.pad(tokens[:, :-1], ((0, 0), (1, 0)))


def encoder_decoder():
    module = network.Transformer(
        network.T5Config(num_encoder_layers=1, num_decoder_layers=1, **SIZES)
    )
    targets = np.array(TARGETS)
    batch = {
        "encoder_input_tokens": np.array(INPUTS),
        "decoder_input_tokens": shifted(targets),
        "decoder_target_tokens": targets,
        "decoder_loss_weights": np.float32(targets > 0),
    }
    return models.EncoderDecoderModel(module, WORDS, WORDS, None), batch


def decoder_only():
    module = decoder_network.DecoderWrapper(
        decoder_network.TransformerConfig(num_layers=1, **SIZES)
    )
    rows = [
        [n for n in (*left, *right) if n]
        for left, right in zip(INPUTS, TARGETS, strict=True)
    ]
    tokens = np.array([row + [0] * (7 - len(row)) for row in rows])
    starts = np.sum(np.array(INPUTS) > 0, axis=1, keepdims=True)
    weights = np.float32((np.arange(7) >= starts) & (tokens > 0))
    batch = {
        "decoder_target_tokens": tokens,
        "decoder_input_tokens": shifted(tokens),
        "decoder_loss_weights": weights,
    }
    return models.DecoderOnlyModel(module, WORDS, None), batch


def parameters(model, batch):
    shapes = {name: value.shape for name, value in batch.items()}
    found = jax.eval_shape(
        lambda: model.get_initial_variables(jax.random.key(0), shapes)
    )
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda x: np.float32(0.5 * rng.standard_normal(x.shape)), found["params"]
    )


@pytest.mark.parametrize("make", grids.first(1, [encoder_decoder, decoder_only]))
def test_loss_of_a_step(make):
    model, batch = make()
    params = parameters(model, batch)
    key = jax.random.key(0)
    plain, _ = jax.jit(model.loss_fn)(params, batch, key)
    changed = consistent(model, weight=0.5)
    loss, metrics = jax.jit(changed.loss_fn)(params, batch, key)

    # Rows 0 and 1 have the same answer. Rows 2 and 3 share only the end.
    logits = np.asarray(jax.jit(model._compute_logits)(params, batch))
    answers = [
        special.softmax(row[weights > 0], axis=-1)
        for row, weights in zip(logits, batch["decoder_loss_weights"], strict=True)
    ]
    expected = sum(
        stats.entropy(one, other)
        for a, b, position in ((0, 1, 0), (0, 1, 1), (0, 1, 2), (2, 3, 1))
        for one, other in itertools.permutations(
            (answers[a][position], answers[b][position])
        )
    )
    assert expected > 0.1
    np.testing.assert_allclose(loss - plain, 0.5 * expected, rtol=1e-4)
    told = metrics["consistency_loss"].compute()
    np.testing.assert_allclose(told, 0.5 * expected, rtol=1e-4)
    # Evaluation batches hold no pairs.
    evaluated, metrics = jax.jit(changed.eval_fn)(params, batch)
    np.testing.assert_allclose(evaluated, plain, rtol=1e-6)
    assert "consistency_loss" not in metrics


def test_three_wordings():
    logits = RNG.standard_normal((1, 3, 2, 5))
    log_probs = special.log_softmax(logits, axis=-1)
    probs = np.exp(log_probs[0])
    for position in range(2):
        rows = probs[:, position]
        pairs = itertools.permutations(rows, 2)
        found = symmetric(log_probs)[0, position]
        np.testing.assert_allclose(
            found, sum(stats.entropy(*pair) for pair in pairs) / 2, rtol=1e-5
        )
        mean = rows.mean(0)
        np.testing.assert_allclose(
            from_mean(log_probs)[0, position],
            sum(stats.entropy(mean, row) for row in rows),
            rtol=1e-5,
        )


def test_no_gradient_through_the_mean():
    logits = RNG.standard_normal((1, 2, 1, 5))
    gradient = jax.grad(lambda x: from_mean(jax.nn.log_softmax(x)).sum())(logits)
    probs = special.softmax(logits, axis=-1)
    expected = probs - probs.mean(1, keepdims=True)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_refused():
    model, batch = encoder_decoder()
    params = parameters(model, batch)
    with pytest.raises(UserError, match="4 rows of a step for 3 wordings: BATCH_SIZE"):
        consistent(model, wordings=3).loss_fn(params, batch, jax.random.key(0))
    with pytest.raises(UserError, match="weight=-1"):
        consistent(model, weight=-1)
    with pytest.raises(UserError, match="term"):
        consistent(model, term="mse")
