"""Cross entropy from the factors of the logits, computed in parts.

The float32 logits [batch, length, vocab] of a large vocabulary are often the largest
array of a training step. The step holds several arrays of this size: softmax, gradient,
and smoothed targets. Here they exist for only a few positions of each row at a time.
The gradients of both factors are computed in the same pass, so no product is computed
twice. On a CPU no logits are computed for positions without weight, such as the inputs
of a decoder-only model.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x import losses
from t5x.on_cpu import features as cpu
from t5x.on_cpu import products
from t5x.output_product import OutputProduct

# Bytes of the float32 logits of a part on each device; smaller parts only cost time. An
# accelerator needs larger products to be busy, and has more memory.
BYTES, ACCELERATOR_BYTES = 1 << 26, 1 << 29


class ChunkedLoss(NamedTuple):
    """The results of `losses.compute_weighted_cross_entropy`, and correct predictions.

    Attributes:
        loss: the loss, including the z-loss.
        z_loss: the part of the loss that is z-loss; no gradient flows through it.
        weight_sum: sum of the weights.
        correct: whether the best token of a position is its target. It may be False at
            positions without weight, where it is not computed.
    """

    loss: Float[Array, ""]
    z_loss: Float[Array, ""]
    weight_sum: Float[Array, ""]
    correct: Bool[Array, "batch length"]


def positions_of_chunk(batch: int, length: int, vocab: int) -> int:
    """Returns how many positions per row fit into `BYTES` of float32 logits per device.

    On an accelerator the limit is `ACCELERATOR_BYTES`.
    """
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
    """Computes `losses.compute_weighted_cross_entropy` from the factors of the logits.

    Args:
        product: factors of the logits.
        targets: token ids.
        weights: weights of the positions; None means 1 everywhere. On a CPU, zero
            weights get no gradient.
        label_smoothing: probability shared by all tokens except the target.
        z_loss: coefficient of the z-loss.
        loss_normalizing_factor: divides the loss and the z-loss.
        chunk: positions of each row per part; None uses `positions_of_chunk`.

    Returns:
        The loss, its parts, and the correct predictions.
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
    """Static options of the loss.

    Attributes:
        label_smoothing: see `chunked_cross_entropy`.
        z_loss: likewise.
        chunk: positions of each row per part.
        counted_first: whether positions with a weight come first, so that parts without
            any weight are skipped.
    """

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
    soft, entropy = losses.smoothed_targets(logits, targets, label_smoothing)
    (loss, total_z_loss), log_z = losses.cross_entropy_terms(logits, soft, z_loss)
    d_logits = losses.gradient_of_logits(logits, soft, z_loss, log_z)
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
