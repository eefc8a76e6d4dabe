"""Softmax and a gradient that sums over rows, in a form that XLA runs fast on a CPU.

XLA reduces the last axis number by number, in windows of 32, but adds slices of that
axis as vectors. It may recompute a sum over rows inside each consumer, one number at a
time, but computes a product only once (`benchmarks/NOTES.md`).

On other backends and for small arrays these are JAX's own functions. They have no
forward-mode derivatives.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from t5x.on_cpu import features

# Number of elements below which JAX's own functions are as fast and compile faster.
_LEAST = 1 << 16
# Candidate slice widths, of which the first that divides the axis is used, and the
# maximum number of slices.
_WIDTHS, _SLICES = (32, 24, 40, 16), 32


def _is_long(shape: tuple[int, ...], dtype: Any) -> bool:
    # Slices of an axis that is sharded over devices would have to move.
    return (
        features.is_used()
        and jax.device_count() == 1
        and dtype == jnp.float32
        and math.prod(shape) >= _LEAST
    )


def softmax(x: Float[Array, "*rows size"]) -> Float[Array, "*rows size"]:
    """Computes `jax.nn.softmax` over the last axis; large float32 arrays in slices."""
    return _softmax(x) if _is_long(x.shape, x.dtype) else jax.nn.softmax(x)


@jax.custom_vjp
def _softmax(x: Float[Array, "*rows size"]) -> Float[Array, "*rows size"]:
    powers = jnp.exp(x - _reduced(x, jnp.maximum, jnp.max))
    return powers / _sum(powers)


def _softmax_forward(x):
    weights = _softmax(x)
    return weights, weights


def _softmax_backward(weights, gradient):
    return ((gradient - _sum(gradient * weights)) * weights,)


_softmax.defvjp(_softmax_forward, _softmax_backward)


def _sum(x: Float[Array, "*rows size"]) -> Float[Array, "*rows 1"]:
    return _reduced(x, jnp.add, jnp.sum)


def _reduced(
    x: Float[Array, "*rows size"],
    of_two: Callable[[Array, Array], Array],
    of_axis: Callable[..., Array],
) -> Float[Array, "*rows 1"]:
    size = x.shape[-1]
    if size <= max(_WIDTHS):
        return of_axis(x, axis=-1, keepdims=True)
    width = next((w for w in _WIDTHS if size % w == 0), _WIDTHS[0])
    width = max(width, size // _SLICES)
    starts = range(0, size - width + 1, width)
    slices = (lax.slice_in_dim(x, i, i + width, axis=-1) for i in starts)
    whole = _reduced(functools.reduce(of_two, slices), of_two, of_axis)
    rest = lax.slice_in_dim(x, len(starts) * width, size, axis=-1)
    if not rest.shape[-1]:
        return whole
    return of_two(whole, _reduced(rest, of_two, of_axis))


def add_to_rows(
    rows: Float[Array, "rows ..."], shared: Float[Array, "1 ..."]
) -> Float[Array, "rows ..."]:
    """Adds the same array to every row. Other axes of size 1 are broadcast in both."""
    total = rows + shared
    if shared.shape[0] != 1 or not _is_long(total.shape, total.dtype):
        return total
    return _add_to_rows(jnp.broadcast_to(rows, total.shape), shared)


@jax.custom_vjp
def _add_to_rows(
    rows: Float[Array, "rows ..."], shared: Float[Array, "1 ..."]
) -> Float[Array, "rows ..."]:
    return rows + shared


def _add_forward(rows, shared):
    return rows + shared, None


def _add_backward(_, gradient):
    ones = jnp.ones((1, gradient.shape[0]), gradient.dtype)
    return gradient, jnp.tensordot(ones, gradient, 1)


_add_to_rows.defvjp(_add_forward, _add_backward)
