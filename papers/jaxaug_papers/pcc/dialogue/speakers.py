"""Finds the speaker of each token of a Persona-Chat prompt from the tokens.

There are two styles of prompts (`jaxaug.formats.persona`). Either markers begin the
parts of the prompt, or each part is a line that ends with the end of sequence.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from jaxaug.core.errors import UserError
from jaxaug.data.personachat import MARKERS

PERSONA, PARTNER, SELF = 1, 2, 3
"""Types of tokens; 0 means no type."""

Markers = tuple[tuple[int, int], ...]
"""(id, type) of each marker, a token that begins a part of the prompt."""

Tokens = Int[Array, "rows length"]
_TYPES = (PERSONA, PERSONA, PARTNER, SELF)  # In the order of MARKERS.


def markers_of(vocabulary: Any) -> Markers:
    """Returns the markers of a SeqIO vocabulary, for the style `marked`.

    Raises:
        UserError: a marker is not one piece of the vocabulary.
    """
    found = []
    for marker, kind in zip(MARKERS, _TYPES, strict=True):
        last = int(vocabulary.encode(marker)[-1])
        if vocabulary.decode([last]).strip() != marker:
            raise UserError(
                f"the vocabulary has no piece {marker!r}, which shows whose tokens "
                "follow. Take one of `personachat.vocabulary_file`; or, for "
                "TransferTransfo, train on a task `personachat_turns_...` with "
                "transfertransfo.Config.markers = ()."
            )
        found.append((last, kind))
    return tuple(found)


def marked(
    tokens: Tokens, markers: Markers
) -> tuple[Bool[Array, "rows length"], Tokens, Tokens]:
    """Returns marker masks, the column of the last marker (-1: none), and its type."""
    kinds = jnp.zeros(tokens.shape, jnp.int32)
    for token, kind in markers:
        kinds = jnp.where(tokens == token, kind, kinds)
    here = kinds > 0
    last = lax.cummax(jnp.where(here, jnp.arange(tokens.shape[1]), -1), axis=1)
    types = jnp.take_along_axis(kinds, jnp.maximum(last, 0), axis=1)
    return here, last, types


def token_types(
    tokens: Tokens,
    prompt_lengths: Int[Array, " rows"],
    markers: Markers,
    separator: int,
) -> Tokens:
    """Returns the type of each decoder input token.

    Args:
        prompt_lengths: column of the last prompt token; from this column on, tokens
            have the type of the reply.
        markers: see `markers_of`. If empty, the parts are lines: the persona, then
            utterances of alternating speakers, ending with the partner.
        separator: id of the token that ends a line.
    """
    columns = jnp.arange(tokens.shape[1])
    if markers:
        types = marked(tokens, markers)[2]
    else:
        prompt = (columns > 0) & (columns <= prompt_lengths[:, None])
        ends = ((tokens == separator) & prompt).astype(jnp.int32)
        part = jnp.cumsum(ends, axis=1) - ends
        before_last = jnp.sum(ends, axis=1, keepdims=True) - 1 - part
        types = jnp.where(before_last % 2 == 0, PARTNER, SELF)
        types = jnp.where(part == 0, PERSONA, types)
    return jnp.where(columns >= prompt_lengths[:, None], SELF, types)
