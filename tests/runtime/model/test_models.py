"""Models: losses, metrics, scores, and initial variables of tiny networks."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from model_kit import (
    BATCH,
    LM_BATCH,
    LM_PARAMS,
    T5_PARAMS,
    VOCABULARY,
    language_model,
    t5_model,
)
from t5x import decoding, losses, models

from tests.support import grids


class ScriptedModule(nn.Module):
    """Replaces a network; gives the same logits for any parameters."""

    logits: tuple

    @nn.compact
    def __call__(self, *args, enable_dropout, rngs=None, **kwargs):
        self.sow("intermediates", "seen", jnp.float32(enable_dropout))
        return jnp.asarray(self.logits, jnp.float32)


def scripted_model(batch, correct=None, **kwargs):
    """Returns a model whose logits are 2 at one token of each position, else 0."""
    choice = batch["decoder_target_tokens"] if correct is None else correct
    logits = 2 * np.eye(20)[choice]
    module = ScriptedModule(tuple(map(tuple, (map(tuple, row) for row in logits))))
    return models.EncoderDecoderModel(module, VOCABULARY, VOCABULARY, None, **kwargs)


# Log of the softmax normalizer of one logit 2 and nineteen 0, and the two losses.
LOG_Z = float(np.log(np.exp(2) + 19))
RIGHT, WRONG = LOG_Z - 2, LOG_Z


def test_loss_is_the_weighted_sum():
    choice = BATCH["decoder_target_tokens"].copy()
    choice[1, 2] = 19
    model = scripted_model(BATCH, choice, z_loss=0.1)
    loss, metrics = model.loss_fn({}, BATCH, None)
    expected = 7 * RIGHT + WRONG
    z_loss = 8 * 0.1 * LOG_Z**2
    assert float(loss) == pytest.approx(expected + z_loss, rel=1e-5)
    values = {
        name: float(metric.compute())
        for name, metric in metrics.items()
        if not name.startswith("timing")
    }
    assert values == pytest.approx(
        {
            "accuracy": 7 / 8,
            "loss": expected + z_loss,
            "z_loss": z_loss,
            "cross_ent_loss": expected,
            "loss_per_nonpadding_target_token": (expected + z_loss) / 8,
            "loss_per_all_target_tokens": (expected + z_loss) / 10,
            "z_loss_per_all_target_tokens": z_loss / 10,
            "cross_ent_loss_per_all_target_tokens": expected / 10,
            "non_padding_fraction/loss_weights": 0.8,
            "effective_batch_size/encoder_input_tokens": 2,
            "effective_batch_size/decoder_target_tokens": 2,
            "non_padding_fraction/encoder_input_tokens": 10 / 12,
            "non_padding_fraction/decoder_target_tokens": 0.8,
            "non_padding_fraction/overall": 18 / 22,
        },
        rel=1e-5,
    )
    timed = {name for name in metrics if name.startswith("timing/")}
    assert timed == {
        "timing/seconds", "timing/seqs", "timing/steps_per_second",
        "timing/seqs_per_second", "timing/seqs_per_second_per_core",
        "timing/target_tokens_per_second", "timing/target_tokens_per_second_per_core",
    }  # fmt: skip
    assert metrics["timing/seqs"].compute() == 2
    rate = metrics["timing/target_tokens_per_second"].replace_duration(4.0)
    assert rate.compute() == 2.5


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (4.0, 8 * RIGHT / 4),
        ("NUM_REAL_TARGET_TOKENS", RIGHT),
        (losses.SpecialLossNormalizingFactor.NUM_TOTAL_TARGET_TOKENS, 0.8 * RIGHT),
        ("AVERAGE_PER_SEQUENCE", RIGHT),
    ],
)
def test_loss_normalizing_factor(factor, expected):
    model = scripted_model(BATCH, loss_normalizing_factor=factor)
    loss, _ = model.eval_fn({}, BATCH)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_metrics_of_packed_rows():
    packed = {
        **BATCH,
        "encoder_segment_ids": np.array([[1, 1, 2, 2, 0, 0], [1, 1, 1, 2, 3, 3]]),
        "decoder_segment_ids": np.array([[1, 2, 2, 0, 0], [1, 1, 2, 3, 3]]),
    }
    _, metrics = scripted_model(BATCH).loss_fn({}, packed, None)
    assert metrics["effective_batch_size/encoder"].compute() == 5
    assert metrics["effective_batch_size/decoder"].compute() == 5
    assert float(metrics["non_padding_fraction/encoder"].compute()) == pytest.approx(
        10 / 12
    )
    assert "effective_batch_size/decoder_target_tokens" not in metrics


def test_count_packed_examples():
    ids = [[1, 1, 3, 3, 0, 0], [2, 2, 2, 2, 2, 2], [2, 7, 7, 7, 7, 0], [0] * 6]
    assert models.count_packed_examples(jnp.array(ids)) == 5
    assert models.count_packed_examples(jnp.array(ids) != 0) == 3


def test_compute_metrics():
    logits = 2 * np.eye(20)[BATCH["decoder_target_tokens"]]
    targets, weights = BATCH["decoder_target_tokens"], BATCH["decoder_loss_weights"]
    extra = models.compute_base_metrics(logits, targets, weights, jnp.float32(3))
    made = models.compute_metrics(
        logits, targets, weights, 3.0, weights.sum(), {"extra": extra["loss"]}
    )
    assert {name: float(metric.compute()) for name, metric in made.items()} == {
        "loss": 3, "accuracy": 8, "weight_sum": 8, "num_examples": 2, "num_tokens": 10,
        "extra": 3,
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"\(2, 5, 20\).*\(2, 5, 20\)"):
        models.compute_weighted_accuracy(logits, logits)


def test_score_batch_sums_weighted_log_likelihoods():
    choice = BATCH["decoder_target_tokens"].copy()
    choice[1, 2] = 19
    model = scripted_model(BATCH, choice, z_loss=1.0, label_smoothing=0.5)
    scores = model.score_batch({}, BATCH)
    expected = [-3 * RIGHT, -4 * RIGHT - WRONG]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    scores, intermediates = model.score_batch({}, BATCH, return_intermediates=True)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert intermediates["seen"][0] == 0
    decoder = intermediates["decoder"]
    assert all(isinstance(v, tuple) and len(v) == 1 for v in decoder.values())
    np.testing.assert_array_equal(
        decoder["target_tokens"][0], BATCH["decoder_target_tokens"]
    )
    np.testing.assert_array_equal(
        decoder["loss_weights"][0], BATCH["decoder_loss_weights"]
    )
    np.testing.assert_allclose(decoder["token_scores"][0].sum(-1), expected, rtol=1e-5)


@pytest.mark.parametrize("rng", [None, jax.random.key(0)])
def test_dropout_is_on_only_with_an_rng(rng):
    _, variables = scripted_model(BATCH)._compute_logits(
        {}, BATCH, rng, mutable=["intermediates"]
    )
    assert variables["intermediates"]["seen"] == (float(rng is not None),)


# Initial variables, classes, imports.


def test_initial_variables_follow_shapes_and_types():
    model = t5_model()
    shapes = {name: value.shape for name, value in BATCH.items()}
    shapes |= {
        f"{side}_{kind}": shapes[f"{side}_input_tokens"]
        for side in ("encoder", "decoder")
        for kind in ("segment_ids", "positions")
    }
    seen = {}

    class Spy:
        def init(self, rng, *args, **kwargs):
            seen.update(args=args, kwargs=kwargs)
            return {"params": {}}

    model.module = Spy()
    model.get_initial_variables(
        jax.random.key(0), shapes, {"encoder_input_tokens": jnp.int32}
    )
    assert [(a.shape, a.dtype.name) for a in seen["args"]] == [
        ((2, 6), "int32"),
        ((2, 5), "float32"),
        ((2, 5), "float32"),
    ]
    assert seen["kwargs"]["decoder_segment_ids"].shape == (2, 5)
    assert seen["kwargs"]["decoder_segment_ids"].dtype == jnp.int32
    assert seen["kwargs"]["enable_dropout"] is False
    model.get_initial_variables(
        jax.random.key(0),
        {"encoder_input_tokens": (2, 6), "decoder_input_tokens": (2, 5)},
    )
    assert seen["kwargs"]["encoder_positions"] is None


def test_feature_converters_are_imported_when_asked_for():
    code = (
        "import sys\n"
        "from t5x import models, decoding, losses, metrics\n"
        "from t5x.examples.t5 import network\n"
        "from t5x.examples.scalable_t5 import network\n"
        "assert not {'seqio', 'tensorflow'} & set(sys.modules)\n"
        "import types\n"
        "seqio = types.ModuleType('seqio')\n"
        "seqio.EncDecFeatureConverter = 'encdec'\n"
        "seqio.DecoderFeatureConverter = 'decoder'\n"
        "sys.modules['seqio'] = seqio\n"
        "assert models.EncoderDecoderModel.FEATURE_CONVERTER_CLS == 'encdec'\n"
        "assert models.DecoderOnlyModel.FEATURE_CONVERTER_CLS == 'decoder'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_feature_converter_of_an_instance():
    class Converter:
        pass

    assert t5_model(feature_converter_cls=Converter).FEATURE_CONVERTER_CLS is Converter
    assert (
        language_model(feature_converter_cls=Converter).FEATURE_CONVERTER_CLS
        is Converter
    )


def test_vocabularies_and_decode_function_are_readable():
    other = dataclasses.replace
    model = models.EncoderDecoderModel(None, VOCABULARY, other, None)
    assert models.get_input_vocabulary(model) is VOCABULARY
    assert models.get_output_vocabulary(model) is other
    assert model.decode_fn is decoding.beam_search
    assert language_model().decode_fn is decoding.temperature_sample


@pytest.mark.parametrize("kind", grids.first(1, ["decoder-only", "encoder-decoder"]))
def test_rematerialisation_changes_no_gradient(kind):
    """The backward pass recomputes the same values."""
    make, params, batch = {
        "encoder-decoder": (t5_model, T5_PARAMS(), BATCH),
        "decoder-only": (language_model, LM_PARAMS(), LM_BATCH),
    }[kind]

    def gradient_of(policy):
        model = make()
        config = model.module.config.replace(remat_policy=policy)
        model.module = type(model.module)(config)
        return jax.grad(lambda p: model.loss_fn(p, batch, jax.random.key(1))[0])

    for policy, expected in (("none", False), ("full", True)):
        text = str(jax.make_jaxpr(gradient_of(policy))(params))
        assert ("remat" in text or "checkpoint" in text) == expected
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        jax.jit(gradient_of("full"))(params),
        jax.jit(gradient_of("none"))(params),
    )


def test_a_nan_logit_is_not_a_hit():
    logits = jnp.array([[[0.0, jnp.nan, 2.0], [0.0, 3.0, 2.0]]])
    targets = jnp.array([[1, 1]])
    assert float(models.compute_weighted_accuracy(logits, targets)) == 1
    metrics = models.compute_base_metrics(logits, targets, None, jnp.float32(0.0))
    assert float(metrics["accuracy"].compute()) == 0.5
