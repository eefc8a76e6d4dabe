"""Attention in blocks of queries and keys that fit into the cache of a core.

Plain products write logits and weights [batch, heads, queries, keys] to memory, and
read them again for each operation of the softmax. Here they exist for one block at a
time, as in FlashAttention (Dao et al. 2022, algorithms 1 and 4), and the backward pass
recomputes them. Blocks in which no query sees a key are skipped: blocks beyond the
diagonal of a causal mask, outside a window, or between examples of a packed row.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from t5x.on_cpu import features
from t5x.on_cpu.attention_passes import Inputs, attend_blocks

# Maximum queries and keys of a block, and maximum bytes of its float32 logits.
_BLOCK, _BYTES = 128, 1 << 20
_LEAST_QUERIES = 32
# Minimum number of (query, key) pairs; below it plain products are as fast. The minimum
# is higher for float32 with a bias, because each row adds to the bias gradient. It is
# higher still with several cores, which plain products use better than sequential
# blocks.
_LEAST_PAIRS, _LEAST_BIASED, _LEAST_BIASED_MANY_CORES = 1 << 15, 1 << 17, 1 << 19


class _Sizes(NamedTuple):
    """Numbers of queries and keys of a block."""

    queries: int
    keys: int


def possible(query: Any, key: Any, bias: Any = None) -> bool:
    """Returns whether blocks support arguments of `attend` and are faster."""
    # Rows are computed in sequence, so rows on several devices would have to move.
    return (
        features.is_used()
        and jax.device_count() == 1
        and query.dtype in (jnp.float32, jnp.bfloat16)
        and (query.dtype, query.shape[0]) == (key.dtype, key.shape[0])
        and query.shape[1] * key.shape[1] >= _least_pairs(query, bias)
        and min(query.shape[1], key.shape[1]) >= _LEAST_QUERIES
        and (bias is None or bias.shape[0] == 1)
    )


def _least_pairs(query: Any, bias: Any) -> int:
    if bias is None or query.dtype != jnp.float32:
        return _LEAST_PAIRS
    return _LEAST_BIASED if features.cores() == 1 else _LEAST_BIASED_MANY_CORES


def attend(
    query: Float[Array, "batch queries heads dim"],
    key: Float[Array, "batch keys kv_heads dim"],
    value: Float[Array, "batch keys kv_heads dim"],
    bias: Float[Array, "1 heads #queries keys"] | None = None,
    mask: Shaped[Array, "#batch 1 #queries keys"] | None = None,
    *,
    scale: float,
) -> Float[Array, "batch queries heads dim"]:
    """Computes attention without dropout; logits and softmax are float32.

    A query that sees no key gets zeros.

    Args:
        query: [batch, queries, heads, dim]; heads is a multiple of kv_heads.
        key: [batch, keys, kv_heads, dim], in the dtype of the queries.
        value: same shape and dtype as `key`.
        bias: added to the scaled logits.
        mask: 0 hides a key.
        scale: factor of the logits.
    """
    batch, queries, heads, dim = query.shape
    keys, kv_heads = key.shape[1:3]
    sizes = _sizes(heads, queries, keys)
    query = _blocks(query, sizes.queries)
    query = query.reshape(*query.shape[:3], kv_heads, heads // kv_heads, dim)
    key, value = _blocks(key, sizes.keys), _blocks(value, sizes.keys)
    rest = (-queries % sizes.queries, -keys % sizes.keys)
    if bias is not None:
        full = jnp.broadcast_to(bias[0], (heads, queries, keys)).astype(jnp.float32)
        bias = _bias_blocks(_padded(full, rest), sizes, kv_heads)
    if mask is None and rest[1]:
        mask = jnp.ones((1, 1, 1, keys), jnp.bool_)
    visible = None
    pairs = (batch, query.shape[1])
    first, end = jnp.zeros(pairs, jnp.int32), jnp.full(pairs, key.shape[1], jnp.int32)
    if mask is not None:
        # Without the barrier XLA would constant-fold the bounds of a static mask, very
        # slowly.
        mask = lax.optimization_barrier(mask)
        seen = jnp.broadcast_to(mask[:, 0] > 0, (batch, queries, keys))
        visible = _mask_blocks(_padded(seen, rest), sizes)
        first, end = _bounds(visible)
    inputs = Inputs(query, key, value, bias, visible, first, end)
    blocks = attend_blocks(inputs, scale)
    return blocks.reshape(batch, -1, heads, dim)[:, :queries]


def _sizes(heads: int, queries: int, keys: int) -> _Sizes:
    def block(length: int) -> int:
        # Blocks have equal sizes and consist of whole vectors.
        return 16 * math.ceil(length / math.ceil(length / _BLOCK) / 16)

    sizes = _Sizes(block(queries), block(keys))
    while 4 * heads * math.prod(sizes) > _BYTES and sizes.queries >= 2 * _LEAST_QUERIES:
        sizes = sizes._replace(queries=sizes.queries // 2)
    return sizes


def _blocks(
    x: Float[Array, "batch length heads dim"], size: int
) -> Float[Array, "batch blocks {size} heads dim"]:
    rest = -x.shape[1] % size
    if rest:
        x = jnp.pad(x, ((0, 0), (0, rest), (0, 0), (0, 0)))
    return x.reshape(x.shape[0], -1, size, *x.shape[2:])


def _padded(x: Shaped[Array, "_ queries keys"], rest: tuple[int, int]) -> Array:
    return jnp.pad(x, ((0, 0), (0, rest[0]), (0, rest[1]))) if any(rest) else x


def _bias_blocks(
    bias: Float[Array, "heads queries keys"], sizes: _Sizes, kv_heads: int
) -> Array:
    heads, queries, keys = bias.shape
    blocks = bias.reshape(
        kv_heads,
        heads // kv_heads,
        queries // sizes.queries,
        sizes.queries,
        keys // sizes.keys,
        sizes.keys,
    )
    return blocks.transpose(2, 4, 0, 5, 1, 3)


def _mask_blocks(mask: Bool[Array, "batch queries keys"], sizes: _Sizes) -> Array:
    batch, queries, keys = mask.shape
    blocks = mask.reshape(
        batch, queries // sizes.queries, sizes.queries, keys // sizes.keys, sizes.keys
    )
    return blocks.transpose(0, 1, 3, 4, 2)


def _bounds(
    visible: Bool[Array, "batch query_blocks key_blocks keys queries"],
) -> tuple[Int[Array, "batch query_blocks"], Int[Array, "batch query_blocks"]]:
    any_visible = jnp.any(visible, axis=(3, 4))
    number = visible.shape[2]
    blocks = jnp.arange(number, dtype=jnp.int32)
    first = jnp.min(jnp.where(any_visible, blocks, number), axis=-1)
    return first, jnp.max(jnp.where(any_visible, blocks + 1, 0), axis=-1)
