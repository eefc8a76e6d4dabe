"""Attention that never stores the weights: one kernel of cuDNN, or blocks on a CPU.

The runtime has the same for T5 (`t5x.examples.t5.fused_attention`); upstream's T5X has it
not, so that these networks bring their own.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from jaxaug.models.layers import on_cpu

# Of `jax.nn.dot_product_attention`.
_IMPLEMENTATION: Literal["xla", "cudnn"] = "cudnn"


def possible(query: Any, key: Any) -> bool:
    """Whether there is a way: on a GPU, for 16 bits and sizes that divide by 8.

    Args:
        query: [batch, queries, heads, dim], on a GPU with a dim of at most 128.
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
    """See `layers.dot_product_attention`; without dropout."""
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
