"""Losses, compared with a numpy reference; gradients, compared with autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import losses
from t5x.errors import UserError

RNG = np.random.default_rng(0)
LOGITS = (3 * RNG.standard_normal((2, 5, 7))).astype(np.float32)
TARGETS = RNG.integers(0, 7, (2, 5))
WEIGHTS = RNG.random((2, 5)).astype(np.float32)


def reference(logits, targets, label_smoothing, z_loss):
    """Returns the loss and z-loss of every position, in float64."""
    logits = logits.astype(np.float64)
    loss, z_losses = np.zeros(targets.shape), np.zeros(targets.shape)
    for index in np.ndindex(targets.shape):
        row, target = logits[index], targets[index]
        log_z = np.log(np.exp(row).sum())
        others = label_smoothing / (len(row) - 1)
        q = np.full(len(row), others)
        q[target] = 1 - label_smoothing
        entropy = -sum(p * np.log(p) for p in q if p > 0)
        z_losses[index] = z_loss * log_z**2
        loss[index] = -(q * (row - log_z)).sum() + z_losses[index] - entropy
    return loss, z_losses


@pytest.mark.parametrize("factor", [None, 2.5])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_weighted_cross_entropy(label_smoothing, z_loss, weights, factor):
    loss, total_z_loss, weight_sum = losses.compute_weighted_cross_entropy(
        jnp.asarray(LOGITS), jnp.asarray(TARGETS), weights, label_smoothing, z_loss,
        factor,
    )  # fmt: skip
    expected, expected_z = reference(LOGITS, TARGETS, label_smoothing, z_loss)
    scale = (1 if weights is None else weights) / (factor or 1)
    np.testing.assert_allclose(loss, (expected * scale).sum(), rtol=1e-5)
    np.testing.assert_allclose(total_z_loss, (expected_z * scale).sum(), rtol=1e-5)
    assert weight_sum == pytest.approx(10 if weights is None else weights.sum())


@pytest.mark.parametrize("label_smoothing", [0.1, jnp.float32(0.1)])
def test_forbidden_tokens_share_no_smoothing(label_smoothing):
    """Loss and gradient equal those without the token, here id 0."""
    forbidden = np.pad(LOGITS, ((0, 0), (0, 0), (1, 0)), constant_values=-1e10)

    @jax.value_and_grad
    def loss(logits, targets):
        function = losses.compute_weighted_cross_entropy
        return function(logits, targets, WEIGHTS, label_smoothing, 1e-2)[0]

    expected, expected_gradient = loss(jnp.asarray(LOGITS), jnp.asarray(TARGETS))
    found, gradient = loss(jnp.asarray(forbidden), jnp.asarray(TARGETS + 1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(gradient[..., 0], 0)
    np.testing.assert_allclose(gradient[..., 1:], expected_gradient, atol=1e-6)


def test_large_logits_stay_finite():
    logits = jnp.array([[[1e4, -1e4, 0.0]]])
    function = losses.compute_weighted_cross_entropy
    loss, _, _ = function(logits, jnp.array([[1]]))
    assert loss == pytest.approx(2e4)
    gradient = jax.grad(lambda x: function(x, jnp.array([[1]]))[0])(logits)
    np.testing.assert_allclose(gradient[0, 0], [1, -1, 0], atol=1e-6)


def test_shape_mismatch_names_both_shapes():
    with pytest.raises(ValueError, match=r"\(2, 5, 7\).*\(2, 5, 1\)"):
        losses.compute_weighted_cross_entropy(
            jnp.asarray(LOGITS), jnp.asarray(TARGETS)[..., None]
        )


@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_gradient_equals_autodiff(label_smoothing, z_loss):
    one_hot = np.eye(7, dtype=np.float32)[TARGETS]
    targets = one_hot * (1 - label_smoothing) + (1 - one_hot) * label_smoothing / 6

    def plain(logits, targets):
        log_z = jax.nn.logsumexp(logits, axis=-1)
        picked = jnp.sum(targets * (logits - log_z[..., None]), axis=-1)
        return jnp.sum(WEIGHTS * (z_loss * log_z**2 - picked))

    def ours(logits, targets):
        return jnp.sum(
            WEIGHTS * losses.cross_entropy_with_logits(logits, targets, z_loss)[0]
        )

    for argument in (0, 1):
        expected = jax.grad(plain, argument)(LOGITS, targets)
        np.testing.assert_allclose(
            jax.grad(ours, argument)(LOGITS, targets), expected, atol=2e-6
        )
    assert np.abs(jax.grad(ours)(LOGITS, targets)).max() > 0.1


def test_gradient_has_the_dtype_of_the_logits_and_none_for_the_reported_z_loss():
    one_hot = jnp.eye(7)[TARGETS]
    low = jnp.asarray(LOGITS, jnp.bfloat16)
    gradient = jax.grad(
        lambda x: losses.cross_entropy_with_logits(x, one_hot, 1e-2)[0].sum()
    )(low)
    assert gradient.dtype == jnp.bfloat16
    reported = jax.grad(
        lambda x: losses.cross_entropy_with_logits(x, one_hot, 1e-2)[1].sum()
    )(LOGITS)
    assert not reported.any()


BATCH = {
    "decoder_target_tokens": jnp.array([[3, 4, 5, 0], [6, 0, 0, 0]]),
    "decoder_loss_weights": jnp.array([[1.0, 0.5, 0.5, 0], [1.0, 0, 0, 0]]),
}


@pytest.mark.parametrize("factor", [None, 3, 2.5])
def test_constant_factors_pass_through(factor):
    got, weights = losses.get_loss_normalizing_factor_and_weights(factor, BATCH)
    assert got is factor
    assert weights is BATCH["decoder_loss_weights"]


@pytest.mark.parametrize(
    ("name", "factor", "expected"),
    [
        ("NUM_REAL_TARGET_TOKENS", 3.0, BATCH["decoder_loss_weights"]),
        ("num_total_target_tokens", 8, BATCH["decoder_loss_weights"]),
        ("AVERAGE_PER_SEQUENCE", 2.0, [[0.5, 0.25, 0.25, 0], [1, 0, 0, 0]]),
    ],
)
def test_special_factors(name, factor, expected):
    for spelled in (name, losses.SpecialLossNormalizingFactor[name.upper()]):
        got, weights = losses.get_loss_normalizing_factor_and_weights(spelled, BATCH)
        assert float(got) == factor
        np.testing.assert_allclose(weights, expected)


def test_weights_default_to_the_tokens_and_empty_rows_count_nothing():
    batch = {"decoder_target_tokens": jnp.array([[3, 4, 0], [0, 0, 0]])}
    factor, weights = losses.get_loss_normalizing_factor_and_weights(
        "AVERAGE_PER_SEQUENCE", batch
    )
    assert weights.tolist() == [[0.5, 0.5, 0], [0, 0, 0]]
    assert factor == 1


@pytest.mark.parametrize("name", list(losses.SpecialLossNormalizingFactor))
def test_a_batch_without_target_tokens_contributes_nothing(name):
    batch = {"decoder_target_tokens": jnp.zeros((2, 3), jnp.int32)}

    def loss(logits, weights):
        full = batch | ({} if weights is None else {"decoder_loss_weights": weights})
        factor, weights = losses.get_loss_normalizing_factor_and_weights(name, full)
        return losses.compute_weighted_cross_entropy(
            logits, batch["decoder_target_tokens"], weights, label_smoothing=0.1,
            z_loss=1e-2, loss_normalizing_factor=factor,
        )[0]  # fmt: skip

    for weights in (None, jnp.zeros((2, 3))):
        value, gradient = jax.value_and_grad(loss)(jnp.ones((2, 3, 5)), weights)
        assert float(value) == 0.0
        np.testing.assert_array_equal(gradient, np.zeros((2, 3, 5)))


def test_average_per_sequence_of_packed_rows():
    batch = {
        "decoder_target_tokens": jnp.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]),
        "decoder_segment_ids": jnp.array([[1, 1, 2, 2, 2, 0], [1, 2, 2, 3, 3, 3]]),
        "decoder_positions": jnp.array([[0, 1, 0, 1, 2, 0], [0, 0, 1, 0, 1, 2]]),
        "decoder_loss_weights": jnp.array(
            [[1.0, 3, 0, 1, 1, 0], [2.0, 0, 0, 0.5, 0.5, 1]]
        ),
    }
    factor, weights = losses.get_loss_normalizing_factor_and_weights(
        "AVERAGE_PER_SEQUENCE", batch
    )
    expected = [[0.25, 0.75, 0, 0.5, 0.5, 0], [1, 0, 0, 0.25, 0.25, 0.5]]
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    # Five sequences; one of them has no weight.
    assert float(factor) == pytest.approx(4)


def test_unknown_factor_is_named_with_the_choices():
    with pytest.raises(UserError, match="'AVG'.*None, a number.*AVERAGE_PER_SEQUENCE"):
        losses.get_loss_normalizing_factor_and_weights("AVG", BATCH)
