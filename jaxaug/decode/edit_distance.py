"""Edit distances between token sequences, by a bit-parallel dynamic program.

All costs are 1. A column of the dynamic program is stored as the bits of its vertical
differences, 32 rows per word (Myers 1999; in blocks of words as in Hyyro 2003). A token
of the text costs about 20 word operations for each 32 tokens of the pattern. The last
columns of two prefixes give the distances of their extensions by one token.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxaug.decode.ground_set import GroundSet

_WORD = 32


def last_columns(
    patterns: Int[Array, "p length"],
    texts: Int[Array, "q text_length"],
    text_lengths: Int[Array, " q"],
    steps: int | Int[Array, ""] | None = None,
) -> Int[Array, "q p length_1"]:
    """Returns the edit distances of every text to every prefix of every pattern.

    Args:
        patterns: tokens, padded in any way; padding does not change the distances to
            the prefixes before it.
        steps: upper bound of the text lengths, which bounds the loop; None means
            `text_length`.

    Returns:
        [q, p, length + 1], where [i, j, l] is the distance of text i to the first l
        tokens of pattern j.
    """
    pairs = (texts.shape[0], patterns.shape[0])
    length = patterns.shape[1]
    words = max(1, -(-length // _WORD))
    padded = jnp.pad(patterns, ((0, 0), (0, words * _WORD - length)))
    padded = padded.T.reshape(words, _WORD, 1, pairs[1])
    place = jnp.uint32(1) << jnp.arange(_WORD, dtype=jnp.uint32)
    one, top = jnp.uint32(1), jnp.uint32(_WORD - 1)

    def step(j, state):
        token = lax.dynamic_index_in_dim(texts, j, axis=1, keepdims=False)
        equal = jnp.where(
            padded == token[:, None], place[:, None, None], jnp.uint32(0)
        ).sum(axis=1, dtype=jnp.uint32)
        alive = (j < text_lengths)[:, None]
        # Row 0 grows by one with every token of the text.
        up_in, down_in = one, jnp.uint32(0)
        new = []
        for word, (plus, minus) in enumerate(state):
            match = equal[word]
            vertical = match | minus
            match = match | down_in
            zero = (((match & plus) + plus) ^ plus) | match
            up, down = minus | ~(zero | plus), plus & zero
            up_out, down_out = up >> top, down >> top
            up, down = (up << one) | up_in, (down << one) | down_in
            up_in, down_in = up_out, down_out
            new.append(
                (
                    jnp.where(alive, down | ~(vertical | up), plus),
                    jnp.where(alive, up & vertical, minus),
                )
            )
        return tuple(new)

    full, empty = jnp.full(pairs, 0xFFFFFFFF, jnp.uint32), jnp.zeros(pairs, jnp.uint32)
    bound = texts.shape[1] if steps is None else steps
    state = lax.fori_loop(0, bound, step, ((full, empty),) * words)
    shifts = jnp.arange(_WORD, dtype=jnp.uint32)
    differences = [
        ((plus[..., None] >> shifts) & one).astype(jnp.int32)
        - ((minus[..., None] >> shifts) & one).astype(jnp.int32)
        for plus, minus in state
    ]
    start = jnp.broadcast_to(text_lengths[:, None, None], (*pairs, 1))
    columns = jnp.concatenate([start, *differences], axis=-1)[..., : length + 1]
    return jnp.cumsum(columns, axis=-1)


def pairwise(
    ground: GroundSet, steps: int | Int[Array, ""] | None = None
) -> Int[Array, "n n"]:
    """Returns the edit distances between all candidates."""
    prefixes, lengths, group = ground.prefixes, ground.prefix_lengths, ground.group
    ends = last_columns(prefixes, prefixes, lengths, steps)
    between = jnp.take_along_axis(ends, lengths[None, :, None], axis=2)[..., 0]

    # One more token of a text gives a next column. Its entry i is the least over j <= i
    # of enter[j] + i - j: take the known column at j, then insert i - j tokens.
    ends = ends[group]
    differs = ground.token[:, None, None] != prefixes
    enter = jnp.minimum(ends[..., 1:] + 1, ends[..., :-1] + differs)
    enter = jnp.concatenate([ends[..., :1] + 1, enter], axis=-1)
    row = jnp.arange(enter.shape[-1])
    reached = jnp.where(
        row <= lengths[:, None], enter + lengths[:, None] - row, 2 * enter.shape[-1]
    )
    # [n, groups]: candidates to prefixes.
    outer = jnp.where(ground.extended[:, None], reached.min(axis=-1), between[group])

    to_parent = outer[:, group]
    both = between[group][:, group] + (ground.token[:, None] != ground.token)
    both = jnp.minimum(both, 1 + jnp.minimum(to_parent, to_parent.T))
    return jnp.where(
        ground.extended,
        jnp.where(ground.extended[:, None], both, to_parent.T),
        to_parent,
    )


def dissimilarity(
    ground: GroundSet, steps: int | Int[Array, ""] | None = None
) -> Float[Array, "n n"]:
    """Returns edit(x, y) / (|x| + |y|) of all candidates, in [0, 1].

    The dissimilarity of two empty sequences is 0.
    """
    total = ground.lengths[:, None] + ground.lengths
    return pairwise(ground, steps) / jnp.maximum(total, 1)
