"""Attention kernels whose bias depends on the distance from a query to a key.

They are written in Pallas for its Triton compiler, after FlashAttention-2 (Dao 2023): a
program owns a block of queries and visits blocks of keys, or the other way round. Pairs
further apart than the radius of the bias share one value on either side, so only blocks
near the diagonal read a bias tile. Most blocks are fully visible and are visited in
separate loops without masks. Weights are powers of two.
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
# Logit of a hidden pair, and initial maximum of a row. They are far enough apart that a
# row that sees no key has zero weights.
_HIDDEN, _LEAST = -1e30, -1e20
# Kinds of blocks: with hidden pairs, fully visible near the diagonal, and fully visible
# elsewhere.
_MASKED, _NEAR, _FAR = "masked", "near", "far"


class Blocks(NamedTuple):
    """Block sizes (powers of two), warps, and load stages of a kernel."""

    queries: int
    keys: int
    warps: int
    stages: int


class Tiles(NamedTuple):
    """A bias by distance, times log2(e).

    Attributes:
        near: [offsets, positions of the block, positions visited], for block pairs
            whose pairs do not all share a value: see `near_offsets`.
        far: [2], values for keys far before the queries, and far after them.
    """

    near: Any
    far: Any


class Refs(NamedTuple):
    """Inputs of all kernels.

    Attributes:
        query: [queries, dim].
        key: [keys, dim].
        value: [keys, dim].
        bias: `Tiles`, or None.
        hidden: [positions of the block, positions visited], 1 hides a pair; or None.
        bounds: [4], block indices on the visited side: first and end of the blocks with
            a visible pair, then first and end of a range of fully visible blocks.
    """

    query: Any
    key: Any
    value: Any
    bias: Any = None
    hidden: Any = None
    bounds: Any = None


class OfQueries(NamedTuple):
    """Values per query for the backward pass.

    The gradient [queries, dim] of the output, log2 of the sum of the weights, and the
    products of outputs and their gradients.
    """

    gradient: Any
    lse: Any
    delta: Any


class Setting(NamedTuple):
    """Static settings: the factor of logits times log2(e), block sizes, bias radius."""

    scale: float
    sizes: Blocks
    radius: int


def near_offsets(sizes: Blocks, radius: int) -> tuple[int, int]:
    """Returns the first and last offset of key blocks near a query block.

    Offsets count units of the smaller block size. A key block is near if some of its
    keys are closer than the radius.
    """
    unit = min(sizes.queries, sizes.keys)
    return -((radius + sizes.keys - 2) // unit), (radius + sizes.queries - 2) // unit


def _offset(query_block: Any, key_block: Any, sizes: Blocks) -> Any:
    """Returns the offset of a key block from a query block; see `near_offsets`."""
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
    """Adds bias and mask to the logits of a block with the positions `visited`."""
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
    """Loads a reference if it is wanted; otherwise returns zeros without memory
    traffic.

    A branch would prevent prefetching and conflict with the layout of the weights.
    """
    return triton.load(ref, mask=jnp.broadcast_to(wanted, shape), other=0)


def _visit_all(
    refs: Refs,
    blocks: int,
    near: tuple[Any, Any],
    visit: Callable[[str], Callable[..., Any]],
    carry: Any,
) -> Any:
    """Visits the blocks that have a visible pair; returns the final carry of the loops.

    `near` are the first and end of the blocks near the diagonal. `visit` returns the
    loop body for a kind of block.
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
    """Runs a loop over two ranges."""
    many, more = (jnp.maximum(end - first, 0) for first, end in (before, after))

    def shifted(i: Any, carry: Any) -> Any:
        return body(jnp.where(i < many, before[0] + i, after[0] + i - many), carry)

    return lax.fori_loop(jnp.int32(0), many + more, shifted, carry)


def _near_blocks(
    block: Any, size: int, other: int, first: int, last: int
) -> tuple[Any, Any]:
    """Returns first and end of the visited blocks within `near_offsets` of a block."""
    unit = min(size, other)
    place, step = block * (size // unit), other // unit
    lower = lax.div(jnp.maximum(place + first + step - 1, 0), step)
    return lower, lax.div(place + last, step) + 1


def forward(refs: Refs, out_ref: Any, lse_ref: Any, *, setting: Setting) -> None:
    """Writes the output [queries, dim] of a query block, and log2 of weight sums."""
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
    refs: Refs, known: OfQueries, out_ref: Any, far_ref: Any = None, *, setting: Setting
) -> None:
    """Writes the gradient of a block of queries.

    With a bias it also writes the sums [2, queries] of the gradients of the logits of
    keys in blocks before the near ones, and after them.
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
    """Writes gradients of a block of keys and values; logits are [keys, queries]."""
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
    # Offsets count from queries to keys.
    near = _near_blocks(block, sizes.keys, sizes.queries, -last, -first)
    of_key, of_value = _visit_all(refs, blocks, near, visit, (nothing, nothing))
    key_ref[...] = (of_key * (setting.scale / LOG2_E)).astype(key_ref.dtype)
    value_ref[...] = of_value.astype(value_ref.dtype)


def of_near_logits(
    refs: Refs, known: OfQueries, out_ref: Any, *, setting: Setting, blocks: int
) -> None:
    """Writes the logit gradients of a block pair near the diagonal, summed over rows.

    All inputs except the bias have a leading row axis.
    """
    bias = refs.bias.near[...]
    rows = jnp.int32(refs.query.shape[0])
    first_offset, _ = near_offsets(setting.sizes, setting.radius)
    keys = pl.program_id(0) + pl.program_id(1) + first_offset

    def ahead(row):
        """Loads early: Triton would load late, because no product depends on it."""
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
