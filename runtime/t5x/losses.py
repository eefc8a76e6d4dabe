"""Cross entropy with label smoothing and z-loss, and its normalization."""

import enum
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from t5x.errors import UserError

# Logits at or below this value mark tokens that are never targets; T5X masks with
# -1e10.
_FORBIDDEN = -1.0e9


def cross_entropy_terms(
    logits: Float[Array, "*batch vocab"],
    targets: Float[Array, "*batch vocab"],
    z_loss: float | Array,
) -> tuple[
    tuple[Float[Array, "*batch"], Float[Array, "*batch"]], Float[Array, "*batch"]
]:
    """Returns ((loss with z-loss, z-loss), log(Z)) of `cross_entropy_with_logits`."""
    log_z = jax.scipy.special.logsumexp(logits, axis=-1)
    loss = -jnp.sum(targets * (logits - log_z[..., None]), axis=-1)
    total_z_loss = z_loss * lax.square(log_z)
    return (loss + total_z_loss, total_z_loss), log_z


@jax.custom_vjp
def cross_entropy_with_logits(
    logits: Float[Array, "*batch vocab"],
    targets: Float[Array, "*batch vocab"],
    z_loss: float | Float[Array, ""],
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """Computes cross entropy plus `z_loss` * log(Z)^2, where Z is the sum of
    exp(logits).

    The z-loss (Mesh TensorFlow; Chowdhery et al. 2022, section 5) keeps logits from
    drifting away from log probabilities. The custom gradient stores only the logits and
    log(Z), and is exact for targets that sum to 1. The second result is only for
    reporting: no gradient flows through it.

    Args:
        logits: unnormalized log probabilities.
        targets: one-hot or smoothed target distribution.
        z_loss: coefficient, which has no gradient.

    Returns:
        The loss, z-loss included, and the z-loss alone.
    """
    return cross_entropy_terms(logits, targets, z_loss)[0]


def _cross_entropy_forward(logits, targets, z_loss):
    result, log_z = cross_entropy_terms(logits, targets, z_loss)
    return result, (logits, targets, z_loss, log_z)


def gradient_of_logits(
    logits: Float[Array, "*batch vocab"],
    targets: Float[Array, "*batch vocab"],
    z_loss: float | Array,
    log_z: Float[Array, "*batch"],
) -> Float[Array, "*batch vocab"]:
    """Returns the derivative of the loss by the logits, for targets that sum to 1."""
    log_z = log_z[..., None]
    return (1 + 2 * z_loss * log_z) * jnp.exp(logits - log_z) - targets


def _cross_entropy_backward(residuals, cotangents):
    logits, targets, z_loss, log_z = residuals
    g = cotangents[0][..., None]
    d_logits = gradient_of_logits(logits, targets, z_loss, log_z)
    return (
        (g * d_logits).astype(logits.dtype),
        (-g * (logits - log_z[..., None])).astype(targets.dtype),
        jnp.zeros_like(z_loss),
    )


cross_entropy_with_logits.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def compute_weighted_cross_entropy(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"] | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    loss_normalizing_factor: float | Float[Array, ""] | None = None,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Computes the summed (not mean) cross entropy of a batch.

    Args:
        logits: logits of every position.
        targets: token ids.
        weights: weights of the positions; None means 1 everywhere.
        label_smoothing: probability shared by all tokens except the target (Szegedy et
            al. 2016). The entropy of the smoothed target, the minimum loss, is
            subtracted. Tokens that the model forbids, with a logit of -1e9 or less, get
            no share.
        z_loss: see `cross_entropy_with_logits`.
        loss_normalizing_factor: divides the loss and the z-loss.

    Returns:
        Loss (z-loss included), z-loss, and the sum of the weights.

    Raises:
        ValueError: the shapes do not match.
    """
    if logits.ndim != targets.ndim + 1:
        raise ValueError(
            f"logits of shape {logits.shape} need targets with one axis less, but "
            f"targets have shape {targets.shape}"
        )
    soft_targets, entropy = smoothed_targets(logits, targets, label_smoothing)
    loss, total_z_loss = cross_entropy_with_logits(logits, soft_targets, z_loss)
    loss = loss - entropy
    weight_sum = jnp.asarray(targets.size, jnp.float32)
    if weights is not None:
        loss = loss * weights
        total_z_loss = total_z_loss * weights
        weight_sum = jnp.sum(weights)
    if loss_normalizing_factor is not None:
        loss = loss / loss_normalizing_factor
        total_z_loss = total_z_loss / loss_normalizing_factor
    return jnp.sum(loss), jnp.sum(total_z_loss), weight_sum


def smoothed_targets(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    label_smoothing: float,
) -> tuple[Float[Array, "batch length vocab"], Float[Array, "*batch_length"]]:
    """Returns the target distribution and its entropy."""
    vocab_size = logits.shape[-1]
    is_target = targets[..., None] == jnp.arange(vocab_size)
    if isinstance(label_smoothing, int | float) and label_smoothing == 0:
        return is_target.astype(jnp.float32), jnp.zeros((), jnp.float32)
    possible = logits > _FORBIDDEN
    counts = jnp.sum(possible, axis=-1)
    confidence = 1.0 - label_smoothing

    def entropy(n: int | Array, others: float | Array) -> Array:
        # The 1e-20 turns 0 * log(0) into 0.
        return -(
            confidence * jnp.log(confidence + 1e-20)
            + (n - 1) * others * jnp.log(others + 1e-20)
        )

    # If all tokens are possible, the results are equal to Python floats.
    share = label_smoothing / max(vocab_size - 1, 1)
    shares = label_smoothing / jnp.maximum(counts - 1, 1)
    is_all = counts == vocab_size
    others = jnp.where(is_all, share, shares)[..., None]
    soft_targets = jnp.where(is_target, confidence, jnp.where(possible, others, 0.0))
    return soft_targets.astype(jnp.float32), jnp.where(
        is_all, entropy(vocab_size, share), entropy(counts, shares)
    )


@enum.unique
class SpecialLossNormalizingFactor(enum.Enum):
    """Loss normalizing factors that depend on the batch.

    NUM_REAL_TARGET_TOKENS: sum of the loss weights.

    NUM_TOTAL_TARGET_TOKENS: number of positions, padding included.

    AVERAGE_PER_SEQUENCE: mean over the sequences of the mean over a sequence's tokens.

    The factor of a batch (or microbatch) without any weight is 1, so that it
    contributes 0 instead of 0 / 0.
    """

    NUM_REAL_TARGET_TOKENS = 1
    NUM_TOTAL_TARGET_TOKENS = 2
    AVERAGE_PER_SEQUENCE = 3


def special_factor(x: Any) -> SpecialLossNormalizingFactor | None:
    """Returns the batch-dependent factor, or None if `x` is a number or None.

    gin cannot write enums, so a name (case-insensitive) stands for its factor.

    Raises:
        UserError: no factor has this name.
    """
    if isinstance(x, str):
        names = SpecialLossNormalizingFactor.__members__
        if x.upper() not in names:
            raise UserError(
                f"LOSS_NORMALIZING_FACTOR = {x!r}: use None, a number, or one of "
                f"{', '.join(names)}"
            )
        x = names[x.upper()]
    return x if isinstance(x, SpecialLossNormalizingFactor) else None


def _sum_over_segment(
    positions: Int[Array, "batch length"],
    segment_ids: Int[Array, "batch length"],
    weights: Float[Array, "batch length"],
) -> Float[Array, "batch length"]:
    """Returns the weight sum of the packed sequence at each position; 0 at padding.

    A sequence starts where the position is 0 or the segment id changes; padding
    (segment 0) comes last.
    """
    changes = jnp.diff(segment_ids, axis=-1, prepend=segment_ids[:, :1]) != 0
    starts = (positions == 0) | changes
    # Padding positions are 0 too: each one becomes a sequence without weight.
    sequence = jnp.cumsum(starts, axis=-1)
    weights = jnp.where(segment_ids != 0, weights, 0.0)
    length = weights.shape[-1]

    def sums_of_row(sequence, weights):
        sums = jax.ops.segment_sum(weights, sequence, num_segments=length + 1)
        return sums[sequence]

    return jax.vmap(sums_of_row)(sequence, weights)


def get_loss_normalizing_factor_and_weights(
    loss_normalizing_factor: float | str | SpecialLossNormalizingFactor | None,
    batch: Mapping[str, Array],
) -> tuple[float | Float[Array, ""] | None, Float[Array, "batch length"] | None]:
    """Converts a special factor to a number, and returns the weights that belong to it.

    Args:
        loss_normalizing_factor: None and numbers are returned unchanged, with the
            batch's `decoder_loss_weights`.
        batch: `decoder_target_tokens`, optionally `decoder_loss_weights` (default: 1 at
            every non-padding token), and for packed rows `decoder_segment_ids` and
            `decoder_positions`.
    """
    weights = batch.get("decoder_loss_weights")
    factor = special_factor(loss_normalizing_factor)
    if factor is None:
        return loss_normalizing_factor, weights  # type: ignore[return-value]
    targets = batch["decoder_target_tokens"]
    if weights is None:
        weights = jnp.asarray(targets > 0, jnp.float32)
    if factor is SpecialLossNormalizingFactor.NUM_TOTAL_TARGET_TOKENS:
        return max(targets.size, 1), weights
    if factor is SpecialLossNormalizingFactor.AVERAGE_PER_SEQUENCE:
        if "decoder_segment_ids" in batch:
            totals = _sum_over_segment(
                batch["decoder_positions"], batch["decoder_segment_ids"], weights
            )
        else:
            totals = jnp.sum(weights, axis=-1, keepdims=True)
        weights = jnp.where(totals != 0, weights / jnp.where(totals != 0, totals, 1), 0)
    total = jnp.sum(weights)
    return jnp.where(total != 0, total, 1), weights
