"""Matrix products of 16-bit numbers, summed in float32.

On a CPU, XLA has bfloat16 kernels with float32 results, but none with bfloat16 results:
it would convert both factors to float32. The transpose of a product with a float32
result has a float32 factor and suffers the same conversion. Here products and their
gradients are written with two 16-bit factors each and rounded afterwards. The gradient
of a float32 kernel is not rounded at all (`benchmarks/NOTES.md`).
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
    """Returns whether this module computes products of this type itself."""
    return features.is_used() and jnp.dtype(dtype) == jnp.bfloat16


def contract(
    inputs: Float[Array, "..."],
    kernel: Float[Array, "..."],
    axes: int = 1,
    dtype: Any = jnp.float32,
    result: Any = None,
) -> Float[Array, "..."]:
    """Contracts the last axes of the inputs with the first ones of the kernel.

    It is computed as a product of two matrices. XLA transposes both factors of a
    gradient that sums over several axes (batch and length), but neither if it sums over
    one axis.

    Args:
        kernel: [contracted axes, ...], in any dtype. Its gradient has that dtype and is
            not rounded before.
        dtype: dtype of the factors.
        result: dtype of the result; None means `dtype`.
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
    """Returns the inner products of the inputs with every table row; see `contract`.

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
    """Returns a float32 product of matrices over one axis; its gradient is slow."""
    if are_narrow(a.dtype) and features.has_bfloat16():
        if axis_a == 0:
            a, axis_a = _turned(a), 1
        # Without the barrier XLA would rewrite the transpose of a product into a
        # product of transposes after choosing a kernel that does not support them, and
        # fall back to none.
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
    """Returns the transpose, laid out in memory.

    The kernels need the left factor in row order. XLA would otherwise replace the
    transpose with a product that reads columns, which the kernels do not support. The
    barrier and the extra axis hide the transpose from XLA.
    """
    turned = x.T
    return lax.optimization_barrier(turned[None]).reshape(turned.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _narrow(
    rows: Float[Array, "rows size"], matrix: Float[Array, "..."], axis: int, result: Any
) -> Float[Array, "rows width"]:
    return dot(rows, matrix.astype(rows.dtype), 1, axis).astype(result)


def _narrow_forward(rows, matrix, axis, result):
    # `_narrow` is not called here, because a rematerialization policy must see the
    # product.
    outputs = dot(rows, matrix.astype(rows.dtype), 1, axis).astype(result)
    return outputs, (rows, matrix)


def _narrow_backward(axis, result, residuals, gradient):
    rows, matrix = residuals
    gradient = gradient.astype(rows.dtype)
    of_rows = dot(gradient, matrix.astype(rows.dtype), 1, 1 - axis)
    # The left factor must be transposed, so the one that is cheaper to copy is chosen.
    (count, size), width = rows.shape, gradient.shape[1]
    left, right = (rows, gradient) if axis == 0 else (gradient, rows)
    if count * right.shape[1] + size * width < count * left.shape[1]:
        of_matrix = dot(right, left, 0, 0).T
    else:
        of_matrix = dot(left, right, 0, 0)
    return of_rows.astype(rows.dtype), of_matrix.astype(matrix.dtype)


_narrow.defvjp(_narrow_forward, _narrow_backward)
