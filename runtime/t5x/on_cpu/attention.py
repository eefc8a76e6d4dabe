"""Attention in blocks of queries and keys that fit into the cache of a core.

Plain products write logits and weights [batch, heads, queries, keys] to memory, and
read them again for each operation of the softmax. Here they exist for one block at a
time, as in FlashAttention (Dao et al. 2022, algorithms 1 and 4), and the backward pass
recomputes them. Blocks in which no query sees a key are skipped: blocks beyond the
diagonal of a causal mask, outside a window, or between examples of a packed row.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from t5x.on_cpu import features

# Logit of hidden keys; it is finite, as in the plain products.
_HIDDEN = -1e30

Queries = Float[Array, "batch query_blocks queries kv_heads group dim"]
LogSums = Float[Array, "batch query_blocks kv_heads group queries"]


class Inputs(NamedTuple):
    """Arrays by block; unneeded ones are None.

    `bias` is the same for all rows. A block of queries sees the key blocks from `first`
    to before `end`.
    """

    query: Queries
    key: Float[Array, "batch key_blocks keys kv_heads dim"]
    value: Float[Array, "batch key_blocks keys kv_heads dim"]
    bias: Float[Array, "query_blocks key_blocks kv_heads keys group queries"] | None
    visible: Bool[Array, "batch query_blocks key_blocks keys queries"] | None
    first: Int[Array, "batch query_blocks"]
    end: Int[Array, "batch query_blocks"]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def attend_blocks(inputs: Inputs, scale: float) -> Queries:
    """Computes the attention of every block of queries."""
    return _forward(inputs, scale)[0]


def _attend_forward(inputs, scale):
    attended, log_sums = _forward(inputs, scale)
    return attended, (inputs, attended, log_sums)


def _attend_backward(scale, residuals, gradient):
    inputs, attended, log_sums = residuals
    gradient = gradient.astype(inputs.query.dtype)
    of_inputs = _backward(inputs, attended, log_sums, gradient, scale)
    return (inputs._replace(visible=None, first=None, end=None, **of_inputs),)


attend_blocks.defvjp(_attend_forward, _attend_backward)


# Compiled code is shared anyway; jit makes all layers of a network trace this once.
@functools.partial(jax.jit, static_argnums=1)
def _forward(inputs: Inputs, scale: float) -> tuple[Queries, LogSums]:
    """Returns the attention output, and the log of the softmax sums."""
    _, _, size, kv_heads, group, dim = inputs.query.shape
    shape = (kv_heads, inputs.key.shape[2], group, size)
    dtype = inputs.query.dtype

    def of_row(row: Inputs) -> Any:
        keys = row.key.transpose(0, 2, 1, 3)
        values = row.value.transpose(0, 2, 3, 1)

        def of_queries(block: Any) -> Any:
            query, bias, visible, first, end = block
            turned = lax.optimization_barrier(_as_columns(query))

            def of_keys(number: Any, carry: Any) -> Any:
                top, total, summed = carry
                key, value, bias_, visible_ = _at((keys, values, bias, visible), number)
                logits = _logits(key, turned, bias_, visible_, shape, scale)
                higher = jnp.maximum(top, jnp.max(logits, axis=1))
                weights = jnp.exp(logits - higher[:, None])
                shrunk = jnp.exp(top - higher)
                total = total * shrunk + jnp.sum(weights, axis=1)
                weights = weights.astype(dtype).reshape(kv_heads, shape[1], -1)
                summed = summed * shrunk.reshape(kv_heads, 1, -1)
                return higher, total, summed + _dot(value, weights)

            start = (
                jnp.full((kv_heads, group, size), 2 * _HIDDEN, jnp.float32),
                jnp.zeros((kv_heads, group, size), jnp.float32),
                jnp.zeros((kv_heads, dim, group * size), jnp.float32),
            )
            top, total, summed = lax.fori_loop(first, end, of_keys, start)
            sees = top > _HIDDEN / 2
            part = jnp.where(sees, 1 / total, 0).reshape(kv_heads, 1, -1)
            log_sum = jnp.where(sees, top + jnp.log(total), -_HIDDEN)
            return _from_columns((summed * part).astype(dtype), group), log_sum

        blocks = (row.query, inputs.bias, row.visible, row.first, row.end)
        return lax.map(of_queries, blocks)

    return lax.map(of_row, inputs._replace(bias=None))


class _Block(NamedTuple):
    """A block of queries in the backward pass, arranged for its products.

    `common` is the term that the softmax subtracts from all gradients of a query's
    logits.
    """

    number: Int[Array, ""]
    rows: Float[Array, "kv_heads columns dim"]
    columns: Float[Array, "kv_heads dim columns"]
    gradient_rows: Float[Array, "kv_heads columns dim"]
    gradient_columns: Float[Array, "kv_heads dim columns"]
    log_sum: Float[Array, "kv_heads group queries"]
    common: Float[Array, "kv_heads group queries"]
    bias: Float[Array, "key_blocks kv_heads keys group queries"] | None
    visible: Bool[Array, "key_blocks keys queries"] | None


class _Keys(NamedTuple):
    """Key blocks of a row, arranged for the products of the backward pass."""

    keys: Float[Array, "key_blocks kv_heads keys dim"]
    turned: Float[Array, "key_blocks kv_heads dim keys"]
    values: Float[Array, "key_blocks kv_heads keys dim"]


class _Sums(NamedTuple):
    """Gradients that all query blocks add to; unscaled, except for values."""

    key: Float[Array, "key_blocks kv_heads keys dim"]
    value: Float[Array, "key_blocks kv_heads keys dim"]
    bias: Float[Array, "query_blocks key_blocks kv_heads keys group queries"] | None


@functools.partial(jax.jit, static_argnums=4)
def _backward(
    inputs: Inputs,
    attended: Queries,
    log_sums: LogSums,
    gradient: Queries,
    scale: float,
) -> dict[str, Any]:
    """Returns the gradients of queries, keys, values, and bias."""
    group, dtype = inputs.query.shape[4], inputs.query.dtype

    def of_row(of_bias: Any, row: Any) -> Any:
        row, attended, log_sums, gradient = row
        blocks = _Keys(
            row.key.transpose(0, 2, 1, 3),
            row.key.transpose(0, 2, 3, 1),
            row.value.transpose(0, 2, 1, 3),
        )

        def of_queries(sums: _Sums, parts: Any) -> Any:
            *arrays, first, end = parts
            block = _block(*arrays)
            of_keys = functools.partial(_of_keys, block, blocks, scale)
            start = (sums, jnp.zeros(block.columns.shape, jnp.float32))
            sums, of_columns = lax.fori_loop(first, end, of_keys, start)
            return sums, _from_columns((scale * of_columns).astype(dtype), group)

        zeros = jnp.zeros(blocks.keys.shape, jnp.float32)
        parts = (
            jnp.arange(row.query.shape[0]),
            row.query,
            attended,
            log_sums,
            gradient,
            inputs.bias,
            row.visible,
            row.first,
            row.end,
        )
        start = _Sums(zeros, zeros, of_bias)
        sums, of_query = lax.scan(of_queries, start, parts)
        of_key = (scale * sums.key).astype(dtype).transpose(0, 2, 1, 3)
        of_value = sums.value.astype(dtype).transpose(0, 2, 1, 3)
        return sums.bias, (of_query, of_key, of_value)

    start = None if inputs.bias is None else jnp.zeros_like(inputs.bias)
    rows = (inputs._replace(bias=None), attended, log_sums, gradient)
    of_bias, (of_query, of_key, of_value) = lax.scan(of_row, start, rows)
    return {"query": of_query, "key": of_key, "value": of_value, "bias": of_bias}


def _block(
    number: Any,
    query: Float[Array, "queries kv_heads group dim"],
    attended: Float[Array, "queries kv_heads group dim"],
    log_sum: Float[Array, "kv_heads group queries"],
    gradient: Float[Array, "queries kv_heads group dim"],
    bias: Array | None,
    visible: Array | None,
) -> _Block:
    common = jnp.sum(
        gradient.astype(jnp.float32) * attended.astype(jnp.float32), axis=-1
    )
    block = _Block(
        number,
        _as_rows(query),
        _as_columns(query),
        _as_rows(gradient),
        _as_columns(gradient),
        log_sum,
        common.transpose(1, 2, 0),
        None,
        None,
    )
    # The barrier computes this once instead of for each block of keys.
    block = lax.optimization_barrier(block)
    return block._replace(bias=bias, visible=visible)


def _of_keys(
    block: _Block, blocks: _Keys, scale: float, number: Any, carry: Any
) -> tuple[_Sums, Float[Array, "kv_heads dim columns"]]:
    """Adds the contribution of a block of keys to the gradients."""
    sums, of_columns = carry
    key, turned, value = _at(blocks, number)
    bias, visible = _at((block.bias, block.visible), number)
    kv_heads, group, size = block.common.shape
    shape = (kv_heads, key.shape[1], group, size)
    logits = _logits(key, block.columns, bias, visible, shape, scale)
    weights = jnp.exp(logits - block.log_sum[:, None])
    of_weights = _dot(value, block.gradient_columns).reshape(shape)
    of_logits = weights * (of_weights - block.common[:, None])
    of_bias = sums.bias
    if of_bias is not None:
        of_bias = _added(of_bias, of_logits, (block.number, number))
    matrix = (kv_heads, key.shape[1], group * size)
    of_logits = of_logits.astype(key.dtype).reshape(matrix)
    weights = weights.astype(key.dtype).reshape(matrix)
    of_key = _added(sums.key, _dot(of_logits, block.rows), (number,))
    of_value = _added(sums.value, _dot(weights, block.gradient_rows), (number,))
    return _Sums(of_key, of_value, of_bias), of_columns + _dot(turned, of_logits)


def _logits(
    key: Float[Array, "kv_heads keys dim"],
    columns: Float[Array, "kv_heads dim columns"],
    bias: Float[Array, "kv_heads keys group queries"] | None,
    visible: Bool[Array, "keys queries"] | None,
    shape: tuple[int, ...],
    scale: float,
) -> Float[Array, "kv_heads keys group queries"]:
    logits = scale * _dot(key, columns).reshape(shape)
    if bias is not None:
        logits = logits + bias
    if visible is not None:
        logits = jnp.where(visible[None, :, None], logits, _HIDDEN)
    return logits


def _dot(
    a: Float[Array, "heads m size"], b: Float[Array, "heads size n"]
) -> Float[Array, "heads m n"]:
    return lax.dot_general(
        a, b, (((2,), (1,)), ((0,), (0,))), preferred_element_type=jnp.float32
    )


def _at(x: Any, index: Any) -> Any:
    return jax.tree.map(
        lambda leaf: lax.dynamic_index_in_dim(leaf, index, 0, keepdims=False), x
    )


def _added(sums: Array, part: Array, index: tuple[Any, ...]) -> Array:
    """Adds a part to `sums` in place, at an index of its first axes."""
    start = (*index, *(0 for _ in part.shape))
    size = (*(1 for _ in index), *part.shape)
    old = lax.dynamic_slice(sums, start, size)
    return lax.dynamic_update_slice(sums, old + part.reshape(size), start)


def _as_rows(
    x: Float[Array, "queries kv_heads group dim"],
) -> Float[Array, "kv_heads columns dim"]:
    size, kv_heads, group, dim = x.shape
    return x.transpose(1, 2, 0, 3).reshape(kv_heads, group * size, dim)


def _as_columns(
    x: Float[Array, "queries kv_heads group dim"],
) -> Float[Array, "kv_heads dim columns"]:
    size, kv_heads, group, dim = x.shape
    return x.transpose(1, 3, 2, 0).reshape(kv_heads, dim, group * size)


def _from_columns(
    x: Float[Array, "kv_heads dim columns"], group: int
) -> Float[Array, "queries kv_heads group dim"]:
    return x.reshape(*x.shape[:2], group, -1).transpose(3, 0, 2, 1)


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
