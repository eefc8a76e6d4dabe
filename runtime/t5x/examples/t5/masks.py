"""Attention masks: 1 if a query may see a key, shape [batch, 1, queries, keys].

Sequences without a batch axis give masks without one.
"""

from collections.abc import Callable
from typing import Any, overload

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from t5x.on_cpu.reductions import add_to_rows

Mask = Float[Array, "batch 1 queries keys"]


def make_attention_mask(
    query_input: Shaped[Array, "*batch queries"],
    key_input: Shaped[Array, "*batch keys"],
    pairwise_fn: Callable[[Array, Array], Array] = jnp.multiply,
    extra_batch_dims: int = 0,
    dtype: Any = jnp.float32,
) -> Mask:
    """Returns the mask of `pairwise_fn(query, key)` for all pairs, with a head axis."""
    pairs = pairwise_fn(query_input[..., :, None], key_input[..., None, :])
    heads = jnp.expand_dims(pairs, -3)
    return jnp.expand_dims(heads, range(extra_batch_dims)).astype(dtype)


def make_causal_mask(
    x: Shaped[Array, "*batch length"],
    extra_batch_dims: int = 0,
    dtype: Any = jnp.float32,
) -> Mask:
    """Returns a mask in which each position sees itself and all earlier ones."""
    positions = jnp.broadcast_to(jnp.arange(x.shape[-1]), x.shape)
    return make_attention_mask(
        positions, positions, jnp.greater_equal, extra_batch_dims, dtype
    )


def make_padding_mask(
    queries: Shaped[Array, "*batch queries"],
    keys: Shaped[Array, "*batch keys"],
    query_segments: Shaped[Array, "*batch queries"] | None = None,
    key_segments: Shaped[Array, "*batch keys"] | None = None,
    dtype: Any = jnp.float32,
) -> Mask:
    """Returns the mask between tokens, whose ids are above 0, of equal segments."""
    mask = make_attention_mask(queries > 0, keys > 0, dtype=dtype)
    if query_segments is None or key_segments is None:
        return mask
    same = make_attention_mask(query_segments, key_segments, jnp.equal, dtype=dtype)
    return combine_masks(mask, same, dtype=dtype)


@overload
def combine_masks(first: Mask, /, *masks: Mask | None, dtype: Any = ...) -> Mask: ...
@overload
def combine_masks(*masks: Mask | None, dtype: Any = ...) -> Mask | None: ...
def combine_masks(*masks: Mask | None, dtype: Any = jnp.float32) -> Mask | None:
    """Returns the logical and of the given masks; None if there are none."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else jnp.logical_and(combined, mask)
    return None if combined is None else combined.astype(dtype)


def combine_biases(
    *biases: Float[Array, "#batch #heads queries keys"] | None,
) -> Float[Array, "batch heads queries keys"] | None:
    """Returns the sum of the given attention biases; None if there are none."""
    combined = None
    for bias in biases:
        if bias is not None:
            combined = bias if combined is None else add_to_rows(combined, bias)
    return combined


def make_decoder_mask(
    decoder_target_tokens: Shaped[Array, "*batch length"],
    dtype: Any,
    decoder_causal_attention: Shaped[Array, "*batch length"] | None = None,
    decoder_segment_ids: Shaped[Array, "*batch length"] | None = None,
) -> Mask:
    """Returns a decoder self-attention mask: causal, no padding, within a segment.

    Args:
        decoder_causal_attention: 1 at positions that also see later positions with a 1
            (the inputs of a prefix language model, Raffel et al. 2020).
        decoder_segment_ids: example of each position in a packed row.
    """
    visible = make_causal_mask(decoder_target_tokens, dtype=dtype)
    if decoder_causal_attention is not None:
        prefix = make_attention_mask(
            decoder_causal_attention,
            decoder_causal_attention,
            jnp.logical_and,
            dtype=dtype,
        )
        visible = jnp.logical_or(visible, prefix)
    targets, segments = decoder_target_tokens, decoder_segment_ids
    tokens = make_padding_mask(targets, targets, segments, segments, dtype)
    return combine_masks(visible, tokens, dtype=dtype)
