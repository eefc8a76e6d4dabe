"""Attention that never stores the weights: a cuDNN kernel, or blocks on a CPU.

The runtime has the same function for T5 (`t5x.examples.t5.fused_attention`). Upstream
T5X does not, so these networks have their own.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from jaxaug.models.layers import on_cpu

# Argument `implementation` of `jax.nn.dot_product_attention`.
_IMPLEMENTATION: Literal["xla", "cudnn"] = "cudnn"


def possible(query: Any, key: Any) -> bool:
    """Returns whether fused attention supports these arrays on this device.

    A GPU needs 16-bit dtypes, sizes that are multiples of 8, and dim <= 128.

    Args:
        query: [batch, queries, heads, dim].
        key: [batch, keys, kv_heads, dim].
    """
    if on_cpu.is_there():
        return on_cpu.attention.possible(query, key)
    sizes = (query.shape[1], key.shape[1], query.shape[3])
    return (
        jax.default_backend() == "gpu"
        and query.dtype in (jnp.bfloat16, jnp.float16)
        and (query.dtype, query.shape[0]) == (key.dtype, key.shape[0])
        and query.shape[3] <= 128
        and all(size % 8 == 0 for size in sizes)
    )


def attend(
    query: Float[Array, "batch queries heads dim"],
    key: Float[Array, "batch keys kv_heads dim"],
    value: Float[Array, "batch keys kv_heads dim"],
    mask: Shaped[Array, "#batch 1 #queries keys"] | None,
    *,
    scale: float,
) -> Float[Array, "batch queries heads dim"]:
    """Returns `layers.dot_product_attention` without dropout; see there."""
    if on_cpu.is_there():
        return on_cpu.attention.attend(query, key, value, None, mask, scale=scale)
    return jax.nn.dot_product_attention(
        query,
        key,
        value,
        mask=None if mask is None else mask > 0,
        scale=scale,
        implementation=_IMPLEMENTATION,
    )
