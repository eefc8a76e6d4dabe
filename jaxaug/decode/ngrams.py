"""Sets of n-grams as bit masks; a bit is the rank of an n-gram among all given ones."""

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, UInt32

from jaxaug.decode.ground_set import GroundSet

_WORD = 32


def pack(bits: Bool[Array, "*lead n"]) -> UInt32[Array, "*lead words"]:
    """Packs booleans into 32-bit words: entry i becomes bit i % 32 of word i // 32."""
    missing = -bits.shape[-1] % _WORD
    bits = jnp.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    words = bits.reshape(*bits.shape[:-1], -1, _WORD)
    place = jnp.uint32(1) << jnp.arange(_WORD, dtype=jnp.uint32)
    return jnp.sum(jnp.where(words, place, jnp.uint32(0)), axis=-1, dtype=jnp.uint32)


def count(masks: UInt32[Array, "*lead words"]) -> Int[Array, "*lead"]:
    """Returns the number of set bits of each mask."""
    return jnp.sum(lax.population_count(masks).astype(jnp.int32), axis=-1)


def union(
    masks: UInt32[Array, "orders n words"], members: Bool[Array, " n"]
) -> UInt32[Array, "orders words"]:
    """Returns the union of the sets of the candidates where `members` is true."""
    taken = jnp.where(members[:, None], masks, jnp.uint32(0))
    return lax.reduce(taken, jnp.uint32(0), lax.bitwise_or, (1,))


def masks(
    rows: Sequence[tuple[Int[Array, "r length"], Int[Array, " r"]]], orders: int
) -> UInt32[Array, "orders rows words"]:
    """Returns the sets of n-grams, n = 1..orders, of the rows of several padded arrays.

    One sort of all positions by their next `orders` tokens brings equal n-grams of
    every order next to each other; the rank of an n-gram is its bit. With p positions
    this takes p log p comparisons and rows * p / 8 bytes for each order.

    Args:
        rows: pairs (tokens [r, length], numbers of tokens [r]); lengths may differ.

    Returns:
        Masks [orders, all rows in order, words]; equal n-grams have equal bits.
    """
    keys, owners, first = [], [], 0
    for tokens, lengths in rows:
        height, width = tokens.shape
        left = lengths[:, None] - jnp.arange(width)
        padded = jnp.pad(tokens, ((0, 0), (0, orders - 1)))
        keys.append(
            [
                jnp.where(left > n, padded[:, n : n + width], -1).ravel()
                for n in range(orders)
            ]
        )
        owner = jnp.broadcast_to(first + jnp.arange(height)[:, None], left.shape)
        owners.append(owner.ravel())
        first += height
    columns = [
        jnp.concatenate(parts).astype(jnp.int32) for parts in zip(*keys, strict=True)
    ]
    *columns, owner = lax.sort(
        (*columns, jnp.concatenate(owners).astype(jnp.int32)), num_keys=orders
    )

    found = []
    is_new = jnp.zeros(owner.shape, bool)
    for column in columns:
        is_new = is_new.at[1:].set(is_new[1:] | (column[1:] != column[:-1]))
        rank = jnp.cumsum(is_new)
        # Beyond the end of a row there is no n-gram: its bit falls out of the array.
        row = jnp.where(column >= 0, owner, first)
        bits = jnp.zeros((first, owner.size), bool)
        found.append(pack(bits.at[row, rank].set(True, mode="drop")))
    return jnp.stack(found)


def ground_masks(
    ground: GroundSet,
    source: Int[Array, " source_length"],
    source_length: Int[Array, ""],
    orders: int,
) -> tuple[UInt32[Array, "orders n words"], UInt32[Array, "orders words"]]:
    """Returns the n-gram sets of candidates and source, with the same bits."""
    tails, tail_lengths = ground.tails(orders)
    found = masks(
        [
            (ground.prefixes, ground.prefix_lengths),
            (tails, tail_lengths),
            (source[None], jnp.asarray(source_length)[None]),
        ],
        orders,
    )
    groups = ground.prefixes.shape[0]
    return found[:, ground.group] | found[:, groups:-1], found[:, -1]
