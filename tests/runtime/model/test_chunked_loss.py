"""The loss in parts equals the loss of all logits: values, gradients, and metrics."""

import functools

import jax
import jax.numpy as jnp
import model_kit
import numpy as np
import pytest
from t5x import losses, output_product
from t5x.examples.t5 import network
from t5x.output_product import OutputProduct

from tests.support import grids

RNG = np.random.default_rng(0)
BATCH, LENGTH, EMB, VOCAB = 2, 7, 5, 11
HIDDEN = RNG.standard_normal((BATCH, LENGTH, EMB)).astype(np.float32)
MATRIX = RNG.standard_normal((EMB, VOCAB)).astype(np.float32)
TARGETS = RNG.integers(0, VOCAB, (BATCH, LENGTH))
WEIGHTS = RNG.random((BATCH, LENGTH)).astype(np.float32)


def close(actual, expected):
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-6),
        actual,
        expected,
    )


@pytest.mark.parametrize("chunk", grids.first(1, [3, 1, 7]))
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(
    ("label_smoothing", "z_loss", "factor"), [(0.0, 0.0, None), (0.1, 1e-2, 2.5)]
)
def test_equals_the_loss_of_all_logits(chunk, by_row, label_smoothing, z_loss, factor):
    """Padding to a multiple of the part size changes nothing."""
    options = (label_smoothing, z_loss, factor)

    def whole(hidden, matrix, weights):
        return losses.compute_weighted_cross_entropy(
            hidden @ matrix, jnp.asarray(TARGETS), weights, *options
        )

    def parts(hidden, matrix, weights):
        product = OutputProduct(hidden, matrix.T if by_row else matrix, by_row)
        return losses.chunked_cross_entropy(
            product, jnp.asarray(TARGETS), weights, *options, chunk=chunk
        )

    arguments = (HIDDEN, MATRIX, WEIGHTS)
    result = jax.jit(parts)(*arguments)
    close(tuple(result[:3]), tuple(whole(*arguments)))
    np.testing.assert_array_equal(
        result.correct, np.argmax(HIDDEN @ MATRIX, -1) == TARGETS
    )
    # A factor of 3 shows that the outer gradient is passed on.
    first = lambda function: lambda *xs: 3 * function(*xs)[0]
    close(
        jax.jit(jax.grad(first(parts), (0, 1, 2)))(*arguments),
        jax.grad(first(whole), (0, 1, 2))(*arguments),
    )


def test_parts_without_a_weight_are_left_out():
    """If NaN positions were computed, 0 * NaN would spoil the sum."""
    weights = np.zeros((BATCH, LENGTH), np.float32)
    weights[0, 3], weights[1, 5], weights[1, 0] = 1.0, 2.0, 0.5
    hidden = np.where(weights[..., None] > 0, HIDDEN, np.nan)

    def loss(hidden, matrix):
        result = losses.chunked_cross_entropy(
            OutputProduct(hidden, matrix), jnp.asarray(TARGETS), weights, chunk=1
        )
        return result.loss, (result.correct, result.weight_sum)

    def counted(hidden, matrix):
        # The fourth position fills the second part, which has as many positions as
        # rows.
        rows, places = np.array([0, 1, 1, 0]), np.array([3, 5, 0, 0])
        logits = hidden[rows, places] @ matrix
        return losses.compute_weighted_cross_entropy(
            logits[None], TARGETS[rows, places][None], weights[rows, places][None]
        )[0]

    hidden[0, 0] = HIDDEN[0, 0]
    compute = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
    (value, (correct, weight_sum)), (of_hidden, of_matrix) = compute(hidden, MATRIX)
    expected, gradients = jax.value_and_grad(counted, (0, 1))(HIDDEN, MATRIX)
    close((value, of_hidden, of_matrix), (expected, *gradients))
    assert weight_sum == 3.5
    best = np.argmax(HIDDEN @ MATRIX, -1) == TARGETS
    np.testing.assert_array_equal(correct[weights > 0], best[weights > 0])


def test_the_first_of_equal_tokens_is_the_best():
    product = OutputProduct(jnp.zeros((1, 2, EMB)), jnp.asarray(MATRIX))
    result = losses.chunked_cross_entropy(product, jnp.array([[0, 3]]))
    assert result.correct.tolist() == [[True, False]]


def test_no_array_has_all_logits():
    """The program holds logits of one position of each row, never of all."""
    length, vocab = 64, 1000

    def loss(hidden, matrix):
        product = OutputProduct(hidden, matrix)
        targets = jnp.zeros((BATCH, length), jnp.int32)
        return losses.chunked_cross_entropy(product, targets, chunk=1).loss

    shapes = (
        jax.ShapeDtypeStruct((BATCH, length, EMB), jnp.float32),
        jax.ShapeDtypeStruct((EMB, vocab), jnp.float32),
    )
    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(*shapes).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * BATCH * length * vocab


def run(model, params, batch):
    """Returns the loss, values of the metrics, and gradients."""
    function = jax.value_and_grad(model.loss_fn, has_aux=True)
    (loss, metrics), gradients = jax.jit(lambda p: function(p, batch, None))(params)
    values = {
        name: metric.compute()
        for name, metric in metrics.items()
        if not name.startswith("timing/")
    }
    return loss, values, gradients


@pytest.mark.parametrize(
    ("make_model", "params", "batch"),
    [
        (model_kit.t5_model, model_kit.T5_PARAMS, model_kit.BATCH),
        (model_kit.language_model, model_kit.LM_PARAMS, model_kit.LM_BATCH),
    ],
    ids=["encoder-decoder", "decoder-only"],
)
def test_models_have_the_same_loss_metrics_and_gradients(
    make_model, params, batch, monkeypatch
):
    options = {
        "z_loss": 1e-3,
        "label_smoothing": 0.1,
        "loss_normalizing_factor": "NUM_REAL_TARGET_TOKENS",
    }
    whole = run(make_model(loss_chunk=0, **options), params(), batch)
    seen = spy(monkeypatch)
    parts = run(make_model(loss_chunk=2, **options), params(), batch)
    assert seen == [2]
    close(parts, whole)


def test_tied_embeddings_get_both_gradients(monkeypatch):
    config = model_kit.T5_CONFIG.replace(logits_via_embedding=True)
    params = {k: v for k, v in model_kit.T5_PARAMS().items()}
    params["decoder"] = {
        k: v for k, v in params["decoder"].items() if k != "logits_dense"
    }

    def result(chunk):
        model = model_kit.t5_model(loss_chunk=chunk)
        model.module = network.Transformer(config)
        return run(model, params, model_kit.BATCH)

    whole = result(0)
    seen = spy(monkeypatch)
    close(result(2), whole)
    assert seen == [2]


def spy(monkeypatch):
    """Returns a list that collects the part size of each loss in parts."""
    seen = []
    function = losses.chunked_cross_entropy

    def noting(*args, **kwargs):
        seen.append(kwargs["chunk"])
        return function(*args, **kwargs)

    monkeypatch.setattr(losses, "chunked_cross_entropy", noting)
    return seen


@pytest.mark.parametrize(("size", "expected"), [(1 << 26, []), (1, [None])])
def test_size_decides_by_default(size, expected, monkeypatch):
    monkeypatch.setattr(losses, "BYTES", size)
    seen = spy(monkeypatch)
    jax.eval_shape(
        lambda p: model_kit.t5_model().loss_fn(p, model_kit.BATCH, None)[0],
        model_kit.T5_PARAMS(),
    )
    assert seen == expected


class Colder(network.Transformer):
    """Changes the logits after the product."""

    def decode(self, *args, **kwargs):
        return super().decode(*args, **kwargs) / 2


def test_logits_that_are_changed_after_the_product_count(monkeypatch):
    """A user-defined network or model around ours trains on its changed logits."""
    seen = spy(monkeypatch)

    def of_network(chunk):
        model = model_kit.t5_model(loss_chunk=chunk)
        model.module = Colder(model_kit.T5_CONFIG)
        return model

    def of_model(chunk):
        model = model_kit.t5_model(loss_chunk=chunk)

        class Changed(type(model)):
            def _compute_logits(self, *args, **kwargs):
                return super()._compute_logits(*args, **kwargs) / 2

        model.__class__ = Changed
        return model

    params = model_kit.T5_PARAMS()
    plain = run(model_kit.t5_model(loss_chunk=0), params, model_kit.BATCH)
    for make in (of_network, of_model):
        loss, _, gradients = run(make(2), params, model_kit.BATCH)
        expected = run(make(0), params, model_kit.BATCH)
        assert loss == expected[0] != plain[0]
        close(gradients, expected[2])
    assert not seen


def test_parameters_have_no_collection_of_factors():
    variables = jax.eval_shape(
        functools.partial(
            model_kit.t5_model().get_initial_variables,
            input_shapes={
                "encoder_input_tokens": (2, 6),
                "decoder_input_tokens": (2, 5),
            },
        ),
        jax.random.key(0),
    )
    assert output_product.COLLECTION not in variables
