"""Attention that never stores the weights: kernels on a GPU, or blocks on a CPU.

With T5's biases it uses the project's own kernels, which look the bias up by distance;
otherwise a cuDNN kernel. `benchmarks/NOTES.md` has the speedups.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from t5x.examples.t5.position_bias import ByDistance
from t5x.on_cpu import attention as in_blocks
from t5x.on_cpu import features as cpu
from t5x.on_gpu import attention as in_kernels

# Implementation of `jax.nn.dot_product_attention`.
_IMPLEMENTATION: Literal["xla", "cudnn"] = "cudnn"
_DTYPES = (jnp.bfloat16, jnp.float16)
_MOST_DIM, _MULTIPLE = 128, 8


def possible(query: Any, key: Any, bias: Any = None) -> bool:
    """Returns whether an implementation supports these arguments of `attend`."""
    if cpu.is_used():
        return in_blocks.possible(query, key, bias)
    sizes = (query.shape[1], key.shape[1], query.shape[3])
    return (
        jax.default_backend() == "gpu"
        and query.dtype in _DTYPES
        and query.dtype == key.dtype
        and query.shape[0] == key.shape[0]
        and sizes[2] <= _MOST_DIM
        and not any(size % _MULTIPLE for size in sizes)
    )


def by_distance(length: int, dim: int, dtype: Any) -> bool:
    """Returns whether biases of self-attention are best given by distance."""
    heads = jax.ShapeDtypeStruct((1, length, 1, dim), dtype)
    return in_kernels.possible(heads, heads)


def attend(
    query: Float[Array, "batch queries heads dim"],
    key: Float[Array, "batch keys kv_heads dim"],
    value: Float[Array, "batch keys kv_heads dim"],
    bias: Float[Array, "#batch #heads queries keys"] | ByDistance | None = None,
    mask: Shaped[Array, "#batch 1 #queries keys"] | None = None,
    *,
    scale: float,
) -> Float[Array, "batch queries heads dim"]:
    """Computes attention without dropout; see `t5x.on_cpu.attention.attend`."""
    if in_kernels.possible(query, key):
        if isinstance(bias, ByDistance):
            return in_kernels.attend(query, key, value, bias.vector, mask, scale=scale)
        if bias is None and mask is not None:
            return in_kernels.attend(query, key, value, None, mask, scale=scale)
    if isinstance(bias, ByDistance):
        bias = bias.of_pairs()
    if cpu.is_used():
        return in_blocks.attend(query, key, value, bias, mask, scale=scale)
    return jax.nn.dot_product_attention(
        query,
        key,
        value,
        bias=None if bias is None else bias.astype(query.dtype),
        mask=None if mask is None else mask > 0,
        scale=scale,
        implementation=_IMPLEMENTATION,
    )
