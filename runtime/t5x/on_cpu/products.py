"""Matrix products of 16-bit numbers, summed in float32.

On a CPU, XLA has kernels for bfloat16 that give float32, and none that give bfloat16: it
would turn both factors into float32 and compute with these. The transpose of a product
that gives float32 has one factor in float32, and goes the same way. So products are
written here with their gradients, each of two 16-bit factors, and rounded afterwards;
the gradient of a kernel in float32 is not rounded at all (`benchmarks/NOTES.md`).
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from t5x.on_cpu import features

# Rows up to which a table is the left factor of `with_rows`, as in decoding steps.
_FEW = 128


def are_narrow(dtype: Any) -> bool:
    """Whether products of this type are written out by this module."""
    return features.is_used() and jnp.dtype(dtype) == jnp.bfloat16


def contract(
    inputs: Float[Array, "..."],
    kernel: Float[Array, "..."],
    axes: int = 1,
    dtype: Any = jnp.float32,
    result: Any = None,
) -> Float[Array, "..."]:
    """Contracts the last axes of the inputs with the first ones of the kernel.

    As a product of two matrices: XLA copies both factors of a gradient that sums over
    several axes, batch and length, into another order; over one axis it copies neither.

    Args:
        inputs: [..., contracted axes].
        kernel: [contracted axes, ...], in any type; its gradient is of that type, and is
            not rounded before.
        axes: how many are contracted.
        dtype: of the factors.
        result: of the outcome; None means `dtype`.
    """
    size = math.prod(kernel.shape[:axes])
    product = _product(inputs, kernel.reshape(size, -1), 0, dtype, result or dtype)
    return product.reshape(inputs.shape[: inputs.ndim - axes] + kernel.shape[axes:])


def with_rows(
    inputs: Float[Array, "... size"],
    table: Float[Array, "rows size"],
    dtype: Any = jnp.float32,
    result: Any = None,
) -> Float[Array, "... rows"]:
    """Inner products of the inputs with every row of a table; see `contract`.

    XLA's kernels want the rows of the left factor and the columns of the right one. As
    the right factor, the table would be transposed in every decoding step, which takes
    longer than the product. Few inputs are transposed instead.
    """
    rows = inputs.reshape(-1, inputs.shape[-1])
    if are_narrow(dtype) or len(rows) > _FEW:
        product = _product(rows, table, 1, dtype, result or dtype)
    else:
        # Without the barriers XLA undoes both transposes.
        columns = lax.optimization_barrier(jnp.asarray(rows, dtype).T)
        columns = lax.dot(
            jnp.asarray(table, dtype), columns, preferred_element_type=result or dtype
        )
        product = lax.optimization_barrier(columns).T
    return product.reshape(*inputs.shape[:-1], -1)


def dot(
    a: Float[Array, "..."], b: Float[Array, "..."], axis_a: int, axis_b: int
) -> Float[Array, "m n"]:
    """Float32 product of two matrices over one axis of each; it has no fast gradient."""
    if are_narrow(a.dtype) and features.has_tiles():
        if axis_a == 0:
            a, axis_a = _turned(a), 1
        # XLA would turn the transpose of a product into the product of two transposes,
        # after it chose a kernel that does not take them, and then has none at all.
        return lax.optimization_barrier(_sum(a, b, axis_a, axis_b))
    return _sum(a, b, axis_a, axis_b)


def _sum(a: Array, b: Array, axis_a: int, axis_b: int) -> Float[Array, "m n"]:
    return lax.dot_general(
        a, b, (((axis_a,), (axis_b,)), ((), ())), preferred_element_type=jnp.float32
    )


def _product(
    inputs: Array, matrix: Array, axis: int, dtype: Any, result: Any
) -> Float[Array, "rows width"]:
    rows = jnp.asarray(inputs, dtype).reshape(-1, matrix.shape[axis])
    if are_narrow(dtype):
        return _narrow(rows, matrix, axis, jnp.dtype(result))
    return lax.dot_general(
        rows,
        jnp.asarray(matrix, dtype),
        (((1,), (axis,)), ((), ())),
        preferred_element_type=result,
    )


def _turned(x: Float[Array, "m n"]) -> Float[Array, "n m"]:
    """The transpose, laid out in memory.

    The kernels want the rows of the left factor as rows. XLA would take the transpose
    for a product that reads columns, and then leave the kernels; through a barrier and
    a shape of its own it cannot see that.
    """
    turned = x.T
    return lax.optimization_barrier(turned[None]).reshape(turned.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _narrow(
    rows: Float[Array, "rows size"],
    matrix: Float[Array, "..."],
    axis: int,
    result: Any,
) -> Float[Array, "rows width"]:
    return dot(rows, matrix.astype(rows.dtype), 1, axis).astype(result)


def _narrow_forward(rows, matrix, axis, result):
    # Not through `_narrow`: a policy of rematerialisation has to see the product.
    outputs = dot(rows, matrix.astype(rows.dtype), 1, axis).astype(result)
    return outputs, (rows, matrix)


def _narrow_backward(axis, result, residuals, gradient):
    rows, matrix = residuals
    gradient = gradient.astype(rows.dtype)
    of_rows = dot(gradient, matrix.astype(rows.dtype), 1, 1 - axis)
    # The left factor has to be turned: the one that is less to copy.
    (count, size), width = rows.shape, gradient.shape[1]
    left, right = (rows, gradient) if axis == 0 else (gradient, rows)
    if count * right.shape[1] + size * width < count * left.shape[1]:
        of_matrix = dot(right, left, 0, 0).T
    else:
        of_matrix = dot(left, right, 0, 0)
    return of_rows.astype(rows.dtype), of_matrix.astype(matrix.dtype)


_narrow.defvjp(_narrow_forward, _narrow_backward)
