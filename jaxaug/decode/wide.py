"""One decoder step for more beams than the decoder has rows.

The `tokens_to_logits` of T5X holds the encoded inputs repeated `num_decodes` times, so
it takes batch * num_decodes rows. A wider beam is divided into several such sets of
rows. They are computed together by `jax.vmap`, as an additional axis of every array.
"""

from typing import Any

import jax
from jax import lax
from jaxtyping import Array, Float, Int
from t5x.decoding import (
    DecodingState,
    cache_map,
    flatten_beam_dim,
    unflatten_beam_dim,
)

from jaxaug.decode.sample import TokensToLogits


def step(
    tokens_to_logits: TokensToLogits,
    index: Int[Array, ""],
    tokens: Int[Array, "batch beams length"],
    cache: Any,
    *,
    rows: int,
    offset: int,
    prefilled: bool,
) -> tuple[Float[Array, "batch beams vocab"], Any]:
    """Returns the logits of all beams, and the cache after the step.

    Args:
        tokens_to_logits: one decoder step on batch * rows sequences.
        index: column of the tokens to feed.
        tokens: tokens of the beams; `beams` is a multiple of `rows`.
        cache: nested arrays that lead with [batch, beams] after `offset` axes.
        rows: number of rows per input that `tokens_to_logits` takes.
        offset: number of leading axes of the cache.
        prefilled: whether the cache has an index for each row.
    """
    batch, beams, _ = tokens.shape

    def one_set(tokens: Array, cache: Any) -> tuple[Array, Any]:
        flat = flatten_beam_dim(tokens)
        logits, cache = tokens_to_logits(
            DecodingState(
                cur_index=index,
                sequences=flat,
                cur_token=lax.dynamic_slice_in_dim(flat, index, 1, axis=1),
                cache=cache_map(
                    lambda x: flatten_beam_dim(x, offset), cache, prefilled
                ),
            )
        )
        unflat = cache_map(
            lambda x: unflatten_beam_dim(x, batch, rows, offset), cache, prefilled
        )
        return unflatten_beam_dim(logits, batch, rows), unflat

    if beams == rows:
        return one_set(tokens, cache)
    sets = beams // rows

    def apart(x: Array) -> Array:
        at = offset + 1
        return x.reshape(*x.shape[:at], sets, rows, *x.shape[at + 1 :])

    def together(x: Array) -> Array:
        at = offset + 1
        return x.reshape(*x.shape[:at], beams, *x.shape[at + 2 :])

    # What all rows share, such as the index of the cache, has no such axis.
    shared = jax.tree.map(lambda _: False, cache)
    has_axis = jax.tree.leaves(cache_map(lambda _: True, shared, prefilled))
    leaves, structure = jax.tree.flatten(cache_map(apart, cache, prefilled))
    axes = [offset + 1 if has else None for has in has_axis]

    def of_leaves(tokens: Array, leaves: list[Array]) -> tuple[Array, list[Array]]:
        logits, cache = one_set(tokens, jax.tree.unflatten(structure, leaves))
        return logits, jax.tree.leaves(cache)

    logits, leaves = jax.vmap(of_leaves, in_axes=(1, axes), out_axes=(1, axes))(
        tokens.reshape(batch, sets, rows, -1), leaves
    )
    logits = logits.reshape(batch, beams, -1)
    cache = jax.tree.unflatten(structure, leaves)
    return logits, cache_map(together, cache, prefilled)
