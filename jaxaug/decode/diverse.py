"""Diverse beam search: groups of beams are penalized for repeating each other."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from t5x.search.candidates import (
    IMPOSSIBLE,
    Continuations,
    Proposal,
    take,
    unfinished_first,
)
from t5x.search.decode_state import NEG_INF_VALUE, TokensToLogits, rows_alone

from jaxaug.core.errors import UserError
from jaxaug.decode import beam

# Log probabilities differ by less; a greater strength only costs their last digits.
_STRONGEST = 1e4


@rows_alone
def decode(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 4,
    *,
    groups: int | None = None,
    strength: float = 0.5,
    ngram: int | None = None,
    initial_index: Int[Array, " batch"] | None = None,
    **options: Any,
) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
    """Runs diverse beam search (Vijayakumar et al., 2018, Algorithm 1) for T5X.

    The beams are divided into groups, each a separate beam search. In every step the
    groups choose one after another. A continuation loses `strength` for every beam of
    an earlier group that has chosen the same token in this step (Hamming diversity).
    With `ngram` it loses `strength` for every occurrence, in the beams of earlier
    groups, of the n-gram that it would complete (n-gram diversity). Penalties
    accumulate over steps, as in the authors' program. The returned scores are log
    probabilities without penalties.

    Unlike in that program, all outputs of an input differ. No group can end with the
    text of an earlier group, and at the length limit groups choose different tokens.

    Args:
        inputs: see `beam.search`, also for the arguments that are not listed here.
        groups: number of groups; None means `num_decodes`, so that each has one beam.
        strength: lambda of the paper, in units of log probability; 0 makes the groups
            independent. From 1e4 on, a group repeats a token only if it has no other
            choice, and larger values change nothing.
        ngram: n of the n-grams; None means Hamming diversity.

    Raises:
        UserError: `strength` is negative or not finite, or `ngram` below 1; see
            `beam.search` too.
    """
    groups = num_decodes if groups is None else groups
    if not 0 <= strength < math.inf:
        raise UserError(
            f"strength is {strength}: it must not be negative, and be finite"
        )
    if ngram is not None and ngram < 1:
        raise UserError(f"ngram is {ngram}: must be at least 1, or None for Hamming")
    return beam.search(
        inputs,
        cache,
        tokens_to_logits,
        eos_id,
        num_decodes,
        propose=functools.partial(
            propose, groups=groups, strength=min(strength, _STRONGEST), ngram=ngram
        ),
        groups=groups,
        initial_index=initial_index,
        **options,
    )


def propose(
    continuations: Continuations, *, groups: int, strength: float, ngram: int | None
) -> Proposal:
    """Proposes the 2k / groups best continuations of each group, one after another."""
    beams = continuations.scores.shape[1]
    width = beams // groups
    proposals: list[Proposal] = []
    earlier: list[_Choice] = []
    taken: list[_Taken] = []
    for group in range(groups):
        one = _slice(continuations, group * width, width)
        penalty = strength * _repeats(one, earlier, ngram)
        blocked = _same(one, taken) if taken else jnp.zeros_like(penalty, bool)
        proposals.append(_best(one, penalty, blocked, first=group * width))
        earlier.append(_live_on(one, proposals[-1], group * width))
        taken.append(_takes(one, proposals[-1], group * width))
    return Proposal(
        *(jnp.concatenate(parts, axis=1) for parts in zip(*proposals, strict=True))
    )


# Tokens [batch, width] that a group chose in this step; the sequences [batch, width,
# length] and lengths [batch, width] that came of it.
_Choice = tuple[
    Int[Array, "batch width"],
    Int[Array, "batch width length"],
    Int[Array, "batch width"],
]

# Of the continuations that a group proposes: the beam that each continues, its length,
# the token, and whether no other group may have the same.
_Taken = tuple[
    Int[Array, "batch n length"],
    Int[Array, "batch n"],
    Int[Array, "batch n"],
    Bool[Array, "batch n"],
]


def _takes(group: Continuations, proposal: Proposal, first: int) -> _Taken:
    """Returns the finished proposals; at the length limit the next beams, too."""
    width = group.scores.shape[1]
    ends = proposal.tokens == group.eos_id
    sequences, lengths = take(
        (group.sequences, group.lengths), proposal.parents - first
    )
    place = jnp.argsort(jnp.argsort(ends, axis=1, stable=True), axis=1)
    kept = ends | (group.last[:, None] & (place < width))
    return sequences, lengths, proposal.tokens, kept


def _same(
    group: Continuations, taken: list[_Taken]
) -> Bool[Array, "batch width vocab"]:
    """Returns a mask of the continuations that an earlier group has taken."""
    parts = zip(*taken, strict=True)
    sequences, lengths, tokens, kept = (jnp.concatenate(x, axis=1) for x in parts)
    same = jnp.all(group.sequences[:, :, None] == sequences[:, None], axis=-1)
    same &= group.lengths[..., None] == lengths[:, None]
    same &= kept[:, None]
    batch, width, _ = same.shape
    rows = jnp.arange(batch)[:, None, None]
    blocked = jnp.zeros(group.logits.shape, bool)
    return blocked.at[rows, jnp.arange(width)[:, None], tokens[:, None]].max(same)


def _slice(continuations: Continuations, first: int, width: int) -> Continuations:
    """Returns the beams of one group; arrays without a beam axis are kept whole."""
    here = slice(first, first + width)
    return jax.tree.map(lambda x: x[:, here] if x.ndim > 1 else x, continuations)


def _best(
    group: Continuations,
    penalty: Float[Array, "batch width vocab"],
    blocked: Bool[Array, "batch width vocab"],
    first: int,
) -> Proposal:
    """Returns the best continuations; fillers and blocked ones come last."""
    log_probs = group.log_probs[..., None] + group.next_log_probs
    log_probs = jnp.where(blocked, NEG_INF_VALUE, log_probs)
    total = group.scores[..., None] + (group.next_log_probs - penalty)
    total = jnp.where(log_probs > IMPOSSIBLE, total, -jnp.inf)
    batch, width, vocab = total.shape
    scores, flat = lax.top_k(total.reshape(batch, width * vocab), 2 * width)
    log_probs = jnp.take_along_axis(log_probs.reshape(batch, -1), flat, axis=1)
    return Proposal(scores, log_probs, flat % vocab, first + flat // vocab)


def _live_on(group: Continuations, proposal: Proposal, first: int) -> _Choice:
    width = group.scores.shape[1]
    chosen = unfinished_first(proposal.tokens == group.eos_id, width)
    tokens = take(proposal.tokens, chosen)
    parents = take(proposal.parents, chosen) - first
    sequences, lengths = take((group.sequences, group.lengths), parents)
    column = jnp.arange(sequences.shape[2])
    sequences = jnp.where(column == lengths[..., None], tokens[..., None], sequences)
    return tokens, sequences, lengths + 1


def _repeats(
    group: Continuations, earlier: list[_Choice], ngram: int | None
) -> Float[Array, "batch width vocab"]:
    """Counts how often each continuation repeats earlier groups."""
    counts = jnp.zeros_like(group.logits)
    if not earlier:
        return counts
    batch, width, _ = counts.shape
    rows = jnp.arange(batch)[:, None, None]
    if ngram is None:
        tokens = jnp.concatenate([tokens for tokens, _, _ in earlier], axis=1)
        return counts.at[rows, jnp.arange(width)[:, None], tokens[:, None]].add(1.0)

    sequences = jnp.concatenate([x for _, x, _ in earlier], axis=1)
    lengths = jnp.concatenate([x for _, _, x in earlier], axis=1)
    windows = sequences.shape[2] - ngram + 1
    if windows < 1:
        return counts
    # [batch, width, others, windows]: does the n-gram there begin with this beam's end?
    same = (jnp.arange(windows) + ngram <= lengths[..., None])[:, None]
    same = same & (group.lengths >= ngram - 1)[..., None, None]
    for offset in range(ngram - 1):
        place = jnp.maximum(group.lengths - (ngram - 1) + offset, 0)
        recent = jnp.take_along_axis(group.sequences, place[..., None], axis=2)
        there = sequences[:, None, :, offset : offset + windows]
        same = same & (there == recent[..., None])
    completes = sequences[:, :, ngram - 1 :].reshape(batch, 1, -1)
    same = jnp.broadcast_to(same, (batch, width, *same.shape[2:]))
    return counts.at[rows, jnp.arange(width)[:, None], completes].add(
        same.reshape(batch, width, -1).astype(counts.dtype)
    )
