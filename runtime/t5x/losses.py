"""Cross entropy with label smoothing and z-loss, its normalization, and its parts."""

import enum
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x.errors import UserError
from t5x.on_cpu import features as cpu
from t5x.on_cpu import products
from t5x.output_product import OutputProduct

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


# Bytes of the float32 logits of a part on each device; smaller parts only cost time. An
# accelerator needs larger products to be busy, and has more memory.
BYTES, ACCELERATOR_BYTES = 1 << 26, 1 << 29


class ChunkedLoss(NamedTuple):
    """The results of `compute_weighted_cross_entropy`, and correct predictions.

    `correct` may be False at positions without weight, where it is not computed.
    """

    loss: Float[Array, ""]
    z_loss: Float[Array, ""]
    weight_sum: Float[Array, ""]
    correct: Bool[Array, "batch length"]


def positions_of_chunk(batch: int, length: int, vocab: int) -> int:
    """Returns how many positions per row fit into the limit of float32 logits."""
    limit = BYTES if jax.default_backend() == "cpu" else ACCELERATOR_BYTES
    of_position = 4 * batch * vocab / jax.device_count()
    return min(max(int(limit / of_position), 1), length)


def chunked_cross_entropy(
    product: OutputProduct,
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"] | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    loss_normalizing_factor: float | Float[Array, ""] | None = None,
    chunk: int | None = None,
) -> ChunkedLoss:
    """Computes `compute_weighted_cross_entropy` from the factors of the logits.

    Args:
        weights: weights of the positions; on a CPU, zero weights get no gradient.
        chunk: positions of each row per part; None uses `positions_of_chunk`.
    """
    shape = batch, length = targets.shape
    if chunk is None:
        vocab = product.matrix.shape[0 if product.by_row else 1]
        chunk = positions_of_chunk(batch, length, vocab)
    if weights is None:
        weights = jnp.ones(shape, jnp.float32)
    weights = weights.astype(jnp.float32)
    weight_sum = jnp.sum(weights)
    order = None
    if cpu.is_used() and jax.device_count() == 1:
        chunk *= batch
        order = jnp.argsort(weights.reshape(-1) == 0, stable=True)
        product, targets, weights = _as_one_row(product, targets, weights, order)
    number = math.ceil(targets.shape[1] / chunk)
    # All parts have the same size; padded positions have no weight.
    chunk = math.ceil(targets.shape[1] / number)
    pad = functools.partial(_pad, surplus=number * chunk - targets.shape[1])
    padded = product.replace(hidden=pad(product.hidden))
    options = _Options(float(label_smoothing), float(z_loss), chunk, order is not None)
    loss, total_z_loss, correct = _summed(padded, pad(targets), pad(weights), options)
    if loss_normalizing_factor is not None:
        loss = loss / loss_normalizing_factor
        total_z_loss = total_z_loss / loss_normalizing_factor
    correct = correct[:, : targets.shape[1]]
    if order is not None:
        correct = jnp.zeros_like(correct).at[0, order].set(correct[0]).reshape(shape)
    return ChunkedLoss(loss, total_z_loss, weight_sum, correct)


class _Options(NamedTuple):
    """Static options of the loss; `counted_first` skips parts without any weight."""

    label_smoothing: float
    z_loss: float
    chunk: int
    counted_first: bool


def _as_one_row(
    product: OutputProduct,
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"],
    order: Int[Array, " positions"],
) -> tuple[OutputProduct, Int[Array, "1 positions"], Float[Array, "1 positions"]]:
    """Joins all rows into one, in the given order; only for a single device."""

    def joined(x: Array) -> Array:
        return jnp.asarray(x).reshape(-1, *x.shape[2:])[order][None]

    hidden = joined(product.hidden)
    return product.replace(hidden=hidden), joined(targets), joined(weights)


def _pad(x: Array, surplus: int) -> Array:
    if not surplus:
        return x
    return jnp.pad(x, ((0, 0), (0, surplus)) + ((0, 0),) * (x.ndim - 2))


def _rows(x: Array) -> Array:
    """Reshapes [batch, chunk, ...] to [batch * chunk, ...].

    Gradients of products over one axis need no transposed copies.
    """
    return x.reshape(-1, x.shape[-1])


class _Part(NamedTuple):
    """Loss and gradient of the logits of some positions."""

    loss: Float[Array, "batch chunk"]
    z_loss: Float[Array, "batch chunk"]
    correct: Bool[Array, "batch chunk"]
    d_logits: Float[Array, "batch chunk vocab"]


def _part(product: OutputProduct, targets: Array, options: _Options) -> _Part:
    label_smoothing, z_loss = options[:2]
    rows, by_row = _rows(product.hidden), product.by_row
    logits = products.dot(rows, product.matrix, 1, 1 if by_row else 0)
    logits = logits.reshape(*targets.shape, -1)
    targets = targets - product.offset
    soft, entropy = smoothed_targets(logits, targets, label_smoothing)
    (loss, total_z_loss), log_z = cross_entropy_terms(logits, soft, z_loss)
    d_logits = gradient_of_logits(logits, soft, z_loss, log_z)
    # Finds the first of the best tokens, like argmax, with plain reductions: XLA's
    # argmax runs on a single CPU thread.
    is_best = logits == jnp.max(logits, axis=-1, keepdims=True)
    tokens = jnp.arange(logits.shape[-1], dtype=jnp.int32)
    best = jnp.min(jnp.where(is_best, tokens, logits.shape[-1]), axis=-1)
    return _Part(loss - entropy, total_z_loss, best == targets, d_logits)


def _slices(number: Any, chunk: int, *arrays: Array) -> tuple[Array, ...]:
    return tuple(
        lax.dynamic_slice_in_dim(x, number * chunk, chunk, axis=1) for x in arrays
    )


def _unsliced(parts: Array) -> Array:
    """Joins parts: [number, batch, chunk, ...] -> [batch, length, ...]."""
    moved = jnp.moveaxis(parts, 0, 1)
    return moved.reshape(moved.shape[0], -1, *moved.shape[3:])


def _over_parts(
    body: Callable[[Any, Any], tuple[Any, Any]],
    start: Any,
    weights: Float[Array, "batch length"],
    options: _Options,
) -> tuple[Any, Any]:
    """Runs `lax.scan` of `body` over the numbers of the parts that have weights.

    The results of skipped parts are zeros.
    """
    number = weights.shape[1] // options.chunk
    if not options.counted_first:
        return lax.scan(body, start, jnp.arange(number))
    count = jnp.sum(weights != 0, dtype=jnp.int32)
    shapes = jax.eval_shape(body, start, 0)[1]
    stacked = jax.tree.map(lambda x: jnp.zeros((number, *x.shape), x.dtype), shapes)

    def step(number: Any, carry: Any) -> Any:
        inner, stacked = carry
        inner, results = body(inner, number)
        put = functools.partial(lax.dynamic_update_index_in_dim, index=number, axis=0)
        return inner, jax.tree.map(put, stacked, results)

    parts = -(-count // options.chunk)
    return lax.fori_loop(0, parts, step, (start, stacked))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _summed(
    product: OutputProduct,
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"],
    options: _Options,
) -> tuple[Float[Array, ""], Float[Array, ""], Bool[Array, "batch length"]]:
    def body(carry: None, number: Any) -> Any:
        hidden, ids, scale = _slices(
            number, options.chunk, product.hidden, targets, weights
        )
        part = _part(product.replace(hidden=hidden), ids, options)
        sums = jnp.sum(part.loss * scale), jnp.sum(part.z_loss * scale)
        return carry, (*sums, part.correct)

    _, (loss, z_loss, correct) = _over_parts(body, None, weights, options)
    return jnp.sum(loss), jnp.sum(z_loss), _unsliced(correct)


def _summed_forward(product, targets, weights, options):
    matrix, by_row = product.matrix, product.by_row

    def body(d_matrix: Array, number: Any) -> Any:
        hidden, ids, scale = _slices(
            number, options.chunk, product.hidden, targets, weights
        )
        part = _part(product.replace(hidden=hidden), ids, options)
        d_logits = _rows((part.d_logits * scale[..., None]).astype(hidden.dtype))
        d_hidden = products.dot(d_logits, matrix, 1, 0 if by_row else 1)
        d_hidden = d_hidden.reshape(hidden.shape).astype(hidden.dtype)
        rows = _rows(hidden)
        factors = (d_logits, rows) if by_row else (rows, d_logits)
        d_matrix = d_matrix + products.dot(*factors, 0, 0)
        sums = jnp.sum(part.loss * scale), jnp.sum(part.z_loss * scale)
        return d_matrix, (*sums, part.correct, d_hidden, part.loss)

    start = jnp.zeros(matrix.shape, jnp.float32)
    d_matrix, (loss, z_loss, correct, d_hidden, of_weights) = _over_parts(
        body, start, weights, options
    )
    gradient = product.replace(
        hidden=_unsliced(d_hidden), matrix=d_matrix.astype(matrix.dtype)
    )
    result = jnp.sum(loss), jnp.sum(z_loss), _unsliced(correct)
    return result, (gradient, _unsliced(of_weights))


def _summed_backward(options, residuals, cotangents):
    gradient, of_weights = residuals
    g = cotangents[0]
    scaled = jax.tree.map(lambda x: (g * x).astype(x.dtype), gradient)
    return scaled, None, g * of_weights


_summed.defvjp(_summed_forward, _summed_backward)
