"""Ground sets: candidates of one input as prefixes plus at most one token.

The continuations of a beam share all tokens except the last. N-grams, edit distances,
and distances of embeddings are therefore computed for the k beams and extended by one
token, instead of for each of the 3k candidates.
"""

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from t5x.search.candidates import Candidates

from jaxaug.core.errors import UserError

# Gains that differ by less count as equal, or rounding and not the index would decide
# between candidates whose gains are the same on paper.
_TIE = 1e-5


class GroundSet(flax.struct.PyTreeNode):
    """Candidates as prefixes with an optional last token.

    Candidate i is the prefix `group[i]`, followed by `token[i]` if `extended[i]`.

    Attributes:
        prefixes: [groups, length] tokens, zero-padded.
        prefix_lengths: [groups] number of tokens of each prefix.
        group: [n] index of the candidate's prefix.
        token: [n] last token of the candidate.
        extended: [n] whether the candidate has the last token.
        valid: [n] False for fillers, which are not candidates.
    """

    prefixes: Int[Array, "groups length"]
    prefix_lengths: Int[Array, " groups"]
    group: Int[Array, " n"]
    token: Int[Array, " n"]
    extended: Bool[Array, " n"]
    valid: Bool[Array, " n"]

    @property
    def lengths(self) -> Int[Array, " n"]:
        """Number of tokens of each candidate."""
        return self.prefix_lengths[self.group] + self.extended

    def tails(self, width: int) -> tuple[Int[Array, "n width"], Int[Array, " n"]]:
        """Returns the last `width` tokens of each extended candidate, and their number.

        The n-grams (n <= width) of a candidate are the n-grams of its prefix and its
        tail. Candidates that are not extended have an empty tail.
        """
        parent_length = self.prefix_lengths[self.group]
        kept = jnp.minimum(parent_length, width - 1)
        columns = (parent_length - kept)[:, None] + jnp.arange(width)
        columns = jnp.minimum(columns, self.prefixes.shape[1] - 1)
        tokens = self.prefixes[self.group[:, None], columns]
        tokens = jnp.where(
            jnp.arange(width) == kept[:, None], self.token[:, None], tokens
        )
        return tokens, jnp.where(self.extended, kept + 1, 0)


def from_sequences(
    sequences: Int[Array, "n length"], lengths: Int[Array, " n"]
) -> GroundSet:
    """Returns the ground set of n padded sequences, each with a separate prefix."""
    count = sequences.shape[0]
    return GroundSet(
        prefixes=sequences,
        prefix_lengths=lengths,
        group=jnp.arange(count),
        token=jnp.zeros((count,), sequences.dtype),
        extended=jnp.zeros((count,), bool),
        valid=jnp.ones((count,), bool),
    )


def from_candidates(candidates: Candidates) -> GroundSet:
    """Returns the ground sets of the candidates of a step; arrays lead with `batch`.

    The EOS of a finished candidate counts as a word.
    """

    def row(sequences, lengths, valid, parents) -> GroundSet:
        # The candidates of a parent all drop to it with their last token.
        child = valid & (parents == jnp.arange(candidates.k)[:, None])
        first = jnp.argmax(child, axis=1)
        prefix_lengths = jnp.where(child.any(axis=1), lengths[first] - 1, 0)
        prefix_lengths = jnp.maximum(prefix_lengths, 0)
        columns = jnp.arange(sequences.shape[1])
        last = jnp.maximum(lengths - 1, 0)[:, None]
        return GroundSet(
            prefixes=jnp.where(columns < prefix_lengths[:, None], sequences[first], 0),
            prefix_lengths=prefix_lengths,
            group=parents,
            token=jnp.take_along_axis(sequences, last, axis=1)[:, 0],
            # Nothing is generated yet while a prompt is fed.
            extended=valid & (lengths > 0),
            valid=valid,
        )

    return jax.vmap(row)(
        candidates.sequences,
        candidates.lengths,
        candidates.possible,
        candidates.parents,
    )


def from_ended(candidates: Candidates) -> GroundSet:
    """Returns the ground sets of finished hypotheses; arrays lead with `batch`."""
    ground = jax.vmap(from_sequences)(candidates.sequences, candidates.lengths)
    return ground.replace(valid=candidates.possible)


def sources(
    candidates: Candidates,
) -> tuple[Int[Array, "batch source_length_1"], Int[Array, " batch"]]:
    """Returns the sources with EOS, and their numbers of tokens.

    EOS is added because it counts as a word of the candidates too. An unknown source
    stays empty.
    """
    tokens, lengths = candidates.source, candidates.source_lengths
    tokens = jnp.pad(tokens, ((0, 0), (0, 1)))
    if candidates.eos_id is None:
        return tokens, lengths
    end = jnp.arange(tokens.shape[1]) == lengths[:, None]
    # Where the source is unknown, nothing is like it.
    known = lengths > 0
    tokens = jnp.where(end & known[:, None], candidates.eos_id, tokens)
    return tokens, lengths + known


def best_of(
    gain: Float[Array, " n"], valid: Bool[Array, " n"], chosen: Bool[Array, " n"]
) -> Int[Array, ""]:
    """Returns the lowest index whose gain is within one part in 1e5 of the largest.

    Infinite gains count as the greatest or least finite number, NaN as the least.

    Args:
        valid: False for items that are returned only if no other item is left.
    """
    left = ~chosen
    valid_left = left & valid
    free = jnp.where(jnp.any(valid_left), valid_left, left)
    limits = jnp.finfo(gain.dtype)
    gain = jnp.nan_to_num(gain, nan=limits.min, posinf=limits.max, neginf=limits.min)
    gain = jnp.where(valid, gain, 0)
    largest = jnp.max(jnp.where(free, gain, -jnp.inf))
    within = gain >= largest - _TIE * jnp.abs(largest)
    return jnp.argmax(free & within).astype(jnp.int32)


def check_size(k: int, count: int) -> None:
    """Raises UserError if k of `count` cannot be chosen."""
    if not 1 <= k <= count:
        raise UserError(
            f"k = {k}, but the set has {count} candidates: k must lie in 1..{count}."
        )
