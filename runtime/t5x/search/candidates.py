"""Candidates of a beam search, and the functions that make and choose them.

The shapes are explained in `t5x.search.beam`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x.search.decode_state import NEG_INF_VALUE, top_k_two_stage

# No sum of real log probabilities is smaller: such a candidate is a filler. Penalties
# may lower a score to any number; the score of a filler is -inf.
IMPOSSIBLE = 0.5 * NEG_INF_VALUE
# Number of vocabulary entries that `most_probable` represents by their maximum.
_BLOCK = 32

Tree = TypeVar("Tree")


class Continuations(flax.struct.PyTreeNode):
    """Possible next tokens of the live beams.

    Log probabilities are stored as logits and two numbers per beam that normalize them,
    because most log probabilities of a large vocabulary are never read.

    Attributes:
        logits: [batch, k, vocab] logits of the next token, float32.
        peaks: [batch, k] greatest logit of each beam; 0 if all are -inf.
        log_sums: [batch, k] log of the sum of exp(logits - peaks); 0 if all are -inf.
        scores: [batch, k] scores of the beams; see `Proposal`.
        log_probs: [batch, k] log probabilities of the beams.
        sequences: [batch, k, length] tokens generated so far, zero-padded.
        lengths: [batch, k] number of tokens generated so far.
        last: [batch] whether this token reaches the row's length limit.
        eos_id: static, the token that ends a hypothesis.
    """

    logits: Float[Array, "batch k vocab"]
    peaks: Float[Array, "batch k"]
    log_sums: Float[Array, "batch k"]
    scores: Float[Array, "batch k"]
    log_probs: Float[Array, "batch k"]
    sequences: Int[Array, "batch k length"]
    lengths: Int[Array, "batch k"]
    last: Bool[Array, " batch"]
    eos_id: int = flax.struct.field(pytree_node=False)

    @classmethod
    def of(cls, logits: Float[Array, "batch k vocab"], **fields: Any) -> Any:
        """Returns the continuations of beams with these logits."""
        peaks = jnp.max(logits, axis=-1)
        dead = jnp.isneginf(peaks)
        peaks = jnp.where(dead, 0.0, peaks)
        log_sums = jnp.log(jnp.sum(jnp.exp(logits - peaks[..., None]), axis=-1))
        log_sums = jnp.where(dead, 0.0, log_sums)
        return cls(logits=logits, peaks=peaks, log_sums=log_sums, **fields)

    @property
    def next_log_probs(self) -> Float[Array, "batch k vocab"]:
        """Log probabilities of the next token."""
        return self.logits - self.peaks[..., None] - self.log_sums[..., None]


class Proposal(NamedTuple):
    """The candidates of a step: m / groups of each group, the best first.

    Attributes:
        scores: [batch, m] ranks of the candidates: log probabilities minus penalties,
            or -inf for candidates that must not be chosen.
        log_probs: [batch, m] log probability of all tokens of a candidate; below
            `IMPOSSIBLE` for fillers.
        tokens: [batch, m] new token of each candidate.
        parents: [batch, m] index of the beam that the candidate continues.
    """

    scores: Float[Array, "batch m"]
    log_probs: Float[Array, "batch m"]
    tokens: Int[Array, "batch m"]
    parents: Int[Array, "batch m"]


Propose = Callable[[Continuations], Proposal]


def most_probable(continuations: Continuations, m: int) -> Proposal:
    """Returns the m continuations of highest total log probability.

    The result equals `lax.top_k` over all continuations. Log probabilities of a beam
    have the order of its logits, so the m blocks with the greatest maxima hold the m
    best. If fewer than m continuations are above -inf, the fillers may differ.
    """
    x = continuations
    batch, beams, vocab = x.logits.shape
    if 4 * m * _BLOCK > beams * vocab:
        total = x.log_probs[..., None] + x.next_log_probs
        values, best = top_k_two_stage(total.reshape(batch, beams * vocab), m)
        return Proposal(values, values, best % vocab, best // vocab)
    fill = ((0, 0), (0, 0), (0, -vocab % _BLOCK))
    logits = (
        jnp.pad(x.logits, fill, constant_values=-jnp.inf) if fill[2][1] else x.logits
    )
    in_beam = logits.shape[2] // _BLOCK
    blocks = logits.reshape(batch, beams, in_beam, _BLOCK)
    promise = x.replace(logits=jnp.max(blocks, axis=-1)).next_log_probs
    promise = (x.log_probs[..., None] + promise).reshape(batch, -1)
    # In the order of the vocabulary, so that ties fall as in one stage.
    kept = jnp.sort(top_k_two_stage(promise, m)[1], axis=1)
    held = take(blocks.reshape(batch, -1, _BLOCK), kept)
    of_beam = take((x.peaks, x.log_sums, x.log_probs), kept // in_beam)
    peaks, log_sums, before = (part[..., None] for part in of_beam)
    total = before + (held - peaks - log_sums)
    values, place = lax.top_k(total.reshape(batch, -1), m)
    block = take(kept, place // _BLOCK)
    tokens = jnp.minimum(block % in_beam * _BLOCK + place % _BLOCK, vocab - 1)
    return Proposal(values, values, tokens, block // in_beam)


class Candidates(flax.struct.PyTreeNode):
    """The `m` candidates of each input after one step, or all finished hypotheses.

    The best come first. EOS is an ordinary word of a candidate, so finished candidates
    have no disadvantage.

    Attributes:
        parents: [batch, m] index of the live beam, 0..k-1, that a candidate continues.
        source: [batch, source_length] tokens of the input, zero-padded, EOS removed;
            [batch, 1] of zeros where the source is unknown.
        step: scalar, number of steps done before this one (the first step has 0).
        rng: [batch] one key a row, made of the row's identity and the step. Draw with
            `jax.vmap(jax.random.uniform)(candidates.rng)`, never for the whole batch at
            once, so that a row's choice is independent of other rows.
        k: static, how many candidates of each row to choose.
        eos_id: static, the token that ends a candidate; None where it is not known.
    """

    sequences: Int[Array, "batch m length"]
    lengths: Int[Array, "batch m"]
    log_probs: Float[Array, "batch m"]
    parents: Int[Array, "batch m"]
    finished: Bool[Array, "batch m"]
    source: Int[Array, "batch source_length"]
    source_lengths: Int[Array, " batch"]
    step: Int[Array, ""]
    rng: Array
    k: int = flax.struct.field(pytree_node=False)
    eos_id: int | None = flax.struct.field(pytree_node=False, default=None)

    @property
    def possible(self) -> Bool[Array, "batch m"]:
        """False for fillers, which pad rows with fewer than m continuations.

        The search replaces chosen fillers by possible candidates.
        """
        return self.log_probs > IMPOSSIBLE


class Select(Protocol):
    """Chooses the candidates of a step that stay in the beam, or the results.

    A pure function that treats each row by itself. A finished candidate moves to the
    pool if it is chosen or is among the k most probable.
    """

    def __call__(self, candidates: Candidates, /) -> Int[Array, "batch k"]:
        """Returns k different indices of candidates for each row."""


def take(tree: Tree, indices: Int[Array, "batch n"]) -> Tree:
    """Returns the entries at some indices of axis 1 of every leaf [batch, m, ...]."""

    def pick(x: Array) -> Array:
        places = indices.reshape(indices.shape + (1,) * (x.ndim - 2))
        return jnp.take_along_axis(x, places, axis=1)

    return jax.tree.map(pick, tree)


def unfinished_first(finished: Bool[Array, "batch m"], k: int) -> Int[Array, "batch k"]:
    """Returns the indices of the first k unfinished candidates of each row.

    If a row has fewer, finished candidates fill the rest.
    """
    return jnp.argsort(finished, axis=1, stable=True)[:, :k].astype(jnp.int32)


def only_possible(
    scores: Float[Array, "batch n"], log_probs: Float[Array, "batch n"]
) -> Float[Array, "batch n"]:
    """Returns the scores, with -inf for fillers."""
    return jnp.where(log_probs > IMPOSSIBLE, scores, -jnp.inf)


def chosen_mask(select: Select, shown: Candidates) -> Bool[Array, "batch m"]:
    """Returns a mask of the candidates that `select` chooses, without fillers."""
    chosen = select(shown)
    batch, m = shown.parents.shape
    if chosen.shape != (batch, shown.k):
        raise ValueError(
            f"{select} chose an array of shape {chosen.shape}; it must name "
            f"k = {shown.k} candidates in each of {batch} rows"
        )
    is_chosen = jnp.any(chosen[..., None] == jnp.arange(m), axis=1)
    return is_chosen & shown.possible
