"""Kernels of attention whose bias depends on the distance from a query to a key.

Written in Pallas for its Triton compiler, after FlashAttention-2 (Dao 2023): a program has
a block of queries and visits blocks of keys, or the other way round. Pairs that are further
apart than the radius of the bias share one number on either side, so that only blocks near
the diagonal read a tile of it. Most blocks are visible as a whole: they are visited in
loops of their own, which know nothing of masks. Weights are powers of two.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

LOG2_E = math.log2(math.e)
# Of a hidden pair, and of the largest logit of a row before any is seen: so far apart that
# a row which sees no key has weights of zero.
_HIDDEN, _LEAST = -1e30, -1e20
# Blocks that may have hidden pairs; those without that are near the diagonal, and others.
_MASKED, _NEAR, _FAR = "masked", "near", "far"


class Blocks(NamedTuple):
    """How a kernel is compiled.

    Attributes:
        queries: of a block, a power of two.
        keys: of a block, a power of two.
        warps: of a program.
        stages: of loading ahead.
    """

    queries: int
    keys: int
    warps: int
    stages: int


class Tiles(NamedTuple):
    """A bias by distance, times log2(e).

    Attributes:
        near: [offsets, positions of the block, positions visited], of the pairs of blocks
            whose pairs do not all share a number: see `near_offsets`.
        far: [2], of keys long before the queries, and long after them.
    """

    near: Any
    far: Any


class Refs(NamedTuple):
    """What all kernels read.

    Attributes:
        query: [queries, dim].
        key: [keys, dim].
        value: [keys, dim].
        bias: `Tiles`; None for none.
        hidden: [positions of the block, positions visited], 1 hides a pair; None for none.
        bounds: [4], of the other side the first block with a visible pair, the end of
            these, and the first block and the end of some without a hidden one.
    """

    query: Any
    key: Any
    value: Any
    bias: Any = None
    hidden: Any = None
    bounds: Any = None


class OfQueries(NamedTuple):
    """What the backward pass knows of queries.

    Attributes:
        gradient: [queries, dim], of the output.
        lse: [queries], log2 of the sum of the weights.
        delta: [queries], products of outputs and their gradients.
    """

    gradient: Any
    lse: Any
    delta: Any


class Setting(NamedTuple):
    """What is known when a kernel is compiled.

    Attributes:
        scale: of the logits, times log2(e).
        sizes: of blocks.
        radius: of the bias.
    """

    scale: float
    sizes: Blocks
    radius: int


def near_offsets(sizes: Blocks, radius: int) -> tuple[int, int]:
    """The first and the last offset of a block of keys from one of queries, in units of
    the smaller size, for which some keys are nearer than the radius."""
    unit = min(sizes.queries, sizes.keys)
    return -((radius + sizes.keys - 2) // unit), (radius + sizes.queries - 2) // unit


def _offset(query_block: Any, key_block: Any, sizes: Blocks) -> Any:
    """See `near_offsets`."""
    unit = min(sizes.queries, sizes.keys)
    return key_block * (sizes.keys // unit) - query_block * (sizes.queries // unit)


def _logits(
    refs: Refs,
    products: Float[Array, "a b"],
    kind: str,
    offset: Any,
    visited: Any,
    setting: Setting,
) -> Float[Array, "a b"]:
    """Adds bias and mask of a block, whose positions are `visited`."""
    logits, shape = products * setting.scale, products.shape
    if refs.bias is not None:
        first, last = near_offsets(setting.sizes, setting.radius)
        tile = jnp.clip(offset - first, 0, last - first)
        is_near = (offset >= first) & (offset <= last)
        far = jnp.where(offset < 0, refs.bias.far[0], refs.bias.far[1])
        if kind == _NEAR:
            logits += refs.bias.near[tile].astype(jnp.float32)
        elif kind == _FAR:
            logits += far
        else:
            logits += jnp.where(is_near, 0.0, far)
            logits += _part(refs.bias.near.at[tile], is_near, shape)
    if kind != _MASKED:
        return logits
    return jnp.where(refs.hidden[:, visited] != 0, _HIDDEN, logits)


def _part(ref: Any, wanted: Any, shape: tuple[int, ...]) -> Array:
    """What is loaded if it is wanted, or zeros, which cost no traffic.

    A branch would be in the way of loading ahead, and its layout in that of the weights.
    """
    return triton.load(ref, mask=jnp.broadcast_to(wanted, shape), other=0)


def _visit_all(
    refs: Refs,
    blocks: int,
    near: tuple[Any, Any],
    visit: Callable[[str], Callable[..., Any]],
    carry: Any,
) -> Any:
    """Visits those of the blocks that have a visible pair.

    Args:
        refs: with the bounds.
        blocks: number of them.
        near: the first and the end of those near the diagonal.
        visit: makes the body of a loop over blocks of a kind.
        carry: of the loops.
    """
    whole: tuple[Any, Any] = (jnp.int32(0), jnp.int32(blocks))
    if refs.hidden is not None:
        first, end = refs.bounds[0], refs.bounds[1]
        whole = (refs.bounds[2], refs.bounds[3])
        masked = (
            (first, jnp.minimum(whole[0], end)),
            (jnp.maximum(whole[1], first), end),
        )
        carry = _over(*masked, visit(_MASKED), carry)
    if refs.bias is None:
        return lax.fori_loop(*whole, visit(_FAR), carry)
    lower = jnp.clip(near[0], *whole)
    upper = jnp.clip(near[1], lower, whole[1])
    carry = lax.fori_loop(lower, upper, visit(_NEAR), carry)
    return _over((whole[0], lower), (upper, whole[1]), visit(_FAR), carry)


def _over(
    before: tuple[Any, Any],
    after: tuple[Any, Any],
    body: Callable[..., Any],
    carry: Any,
) -> Any:
    """A loop over two ranges."""
    many, more = (jnp.maximum(end - first, 0) for first, end in (before, after))

    def shifted(i: Any, carry: Any) -> Any:
        return body(jnp.where(i < many, before[0] + i, after[0] + i - many), carry)

    return lax.fori_loop(jnp.int32(0), many + more, shifted, carry)


def _near_blocks(
    block: Any, size: int, other: int, first: int, last: int
) -> tuple[Any, Any]:
    """The first and the end of the visited blocks that are `near_offsets` from a block."""
    unit = min(size, other)
    place, step = block * (size // unit), other // unit
    lower = lax.div(jnp.maximum(place + first + step - 1, 0), step)
    return lower, lax.div(place + last, step) + 1


def forward(refs: Refs, out_ref: Any, lse_ref: Any, *, setting: Setting) -> None:
    """Output [queries, dim] of a block of queries, and log2 of the sums of its weights."""
    sizes = setting.sizes
    block = pl.program_id(0)
    query = refs.query[...]

    def visit(kind: str) -> Callable[..., Any]:
        def body(number, carry):
            attended, most, total = carry
            keys = pl.ds(number * sizes.keys, sizes.keys)
            products = triton.dot(query, refs.key[keys, :].T)
            offset = _offset(block, number, sizes)
            logits = _logits(refs, products, kind, offset, keys, setting)
            higher = jnp.maximum(most, jnp.max(logits, axis=1))
            weights = jnp.exp2(logits - higher[:, None])
            kept = jnp.exp2(most - higher)
            value = refs.value[keys, :]
            attended = attended * kept[:, None]
            attended += triton.dot(weights.astype(value.dtype), value)
            return attended, higher, total * kept + jnp.sum(weights, axis=1)

        return body

    carry = (
        jnp.zeros(query.shape, jnp.float32),
        jnp.full(sizes.queries, _LEAST, jnp.float32),
        jnp.zeros(sizes.queries, jnp.float32),
    )
    blocks = refs.key.shape[0] // sizes.keys
    near = _near_blocks(block, *sizes[:2], *near_offsets(sizes, setting.radius))
    attended, most, total = _visit_all(refs, blocks, near, visit, carry)
    total_or_one = jnp.where(total > 0, total, 1.0)
    out_ref[...] = (attended / total_or_one[:, None]).astype(out_ref.dtype)
    lse_ref[...] = jnp.where(total > 0, most + jnp.log2(total_or_one), -_HIDDEN)


def of_queries(
    refs: Refs,
    known: OfQueries,
    out_ref: Any,
    far_ref: Any = None,
    *,
    setting: Setting,
) -> None:
    """Gradient of a block of queries.

    With a bias also the sums [2, queries] of the gradients of the logits of keys in blocks
    before those near the diagonal, and after them.
    """
    sizes = setting.sizes
    first, last = near_offsets(sizes, setting.radius)
    block = pl.program_id(0)
    query = refs.query[...]
    gradient, lse, delta = (ref[...] for ref in known)

    def visit(kind: str) -> Callable[..., Any]:
        def body(number, carry):
            out, before, after = carry
            keys = pl.ds(number * sizes.keys, sizes.keys)
            key = refs.key[keys, :]
            products = triton.dot(query, key.T)
            offset = _offset(block, number, sizes)
            logits = _logits(refs, products, kind, offset, keys, setting)
            weights = jnp.exp2(logits - lse[:, None])
            of_weights = triton.dot(gradient, refs.value[keys, :].T)
            of_logits = weights * (of_weights - delta[:, None])
            out += triton.dot(of_logits.astype(key.dtype), key)
            if refs.bias is not None and kind != _NEAR:
                total = jnp.sum(of_logits, axis=1)
                before += jnp.where(offset < first, total, 0.0)
                after += jnp.where(offset > last, total, 0.0)
            return out, before, after

        return body

    nothing = jnp.zeros(sizes.queries, jnp.float32)
    carry = (jnp.zeros(query.shape, jnp.float32), nothing, nothing)
    blocks = refs.key.shape[0] // sizes.keys
    near = _near_blocks(block, *sizes[:2], first, last)
    out, before, after = _visit_all(refs, blocks, near, visit, carry)
    out_ref[...] = (out * (setting.scale / LOG2_E)).astype(out_ref.dtype)
    if far_ref is not None:
        far_ref[0, :] = before
        far_ref[1, :] = after


def of_keys(
    refs: Refs, known: OfQueries, key_ref: Any, value_ref: Any, *, setting: Setting
) -> None:
    """Gradients of a block of keys and its values; logits and mask are [keys, queries]."""
    sizes = setting.sizes
    block = pl.program_id(0)
    key, value = refs.key[...], refs.value[...]

    def visit(kind: str) -> Callable[..., Any]:
        def body(number, carry):
            of_key, of_value = carry
            queries = pl.ds(number * sizes.queries, sizes.queries)
            query, gradient = refs.query[queries, :], known.gradient[queries, :]
            products = triton.dot(key, query.T)
            offset = _offset(number, block, sizes)
            logits = _logits(refs, products, kind, offset, queries, setting)
            weights = jnp.exp2(logits - known.lse[queries][None, :])
            of_value += triton.dot(weights.astype(gradient.dtype), gradient)
            of_weights = triton.dot(value, gradient.T)
            of_logits = weights * (of_weights - known.delta[queries][None, :])
            of_key += triton.dot(of_logits.astype(query.dtype), query)
            return of_key, of_value

        return body

    nothing = jnp.zeros(key.shape, jnp.float32)
    blocks = refs.query.shape[0] // sizes.queries
    first, last = near_offsets(sizes, setting.radius)
    # Offsets are those of keys from queries.
    near = _near_blocks(block, sizes.keys, sizes.queries, -last, -first)
    of_key, of_value = _visit_all(refs, blocks, near, visit, (nothing, nothing))
    key_ref[...] = (of_key * (setting.scale / LOG2_E)).astype(key_ref.dtype)
    value_ref[...] = of_value.astype(value_ref.dtype)


def of_near_logits(
    refs: Refs, known: OfQueries, out_ref: Any, *, setting: Setting, blocks: int
) -> None:
    """Gradients of the logits of a block of pairs near the diagonal, summed over rows.

    Args:
        refs: with an axis of rows before the others, but for the bias, and of this pair of
            blocks alone.
        known: with an axis of rows before the others.
        out_ref: [queries, keys].
        setting: as of the other kernels.
        blocks: of keys, in all.
    """
    bias = refs.bias.near[...]
    rows = jnp.int32(refs.query.shape[0])
    first_offset, _ = near_offsets(setting.sizes, setting.radius)
    keys = pl.program_id(0) + pl.program_id(1) + first_offset

    def ahead(row):
        """What Triton loads late, as no product depends on it."""
        hidden = None
        if refs.hidden is not None:
            hidden = refs.hidden[row if refs.hidden.shape[0] > 1 else jnp.int32(0)]
        return known.lse[row], known.delta[row], hidden

    def body(row, carry):
        total, (lse, delta, hidden) = carry
        following = ahead(jnp.minimum(row + 1, rows - 1))
        logits = triton.dot(refs.query[row], refs.key[row].T) * setting.scale + bias
        if hidden is not None:
            logits = jnp.where(hidden != 0, _HIDDEN, logits)
        weights = jnp.exp2(logits - lse[:, None])
        of_weights = triton.dot(known.gradient[row], refs.value[row].T)
        return total + weights * (of_weights - delta[:, None]), following

    first = jnp.int32(0)
    end = jnp.where((keys >= 0) & (keys < blocks), rows, first)
    carry = (jnp.zeros(out_ref.shape, jnp.float32), ahead(first))
    out_ref[...], _ = lax.fori_loop(first, end, body, carry)
