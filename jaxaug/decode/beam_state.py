"""The state of a beam search, and the inputs and outputs of its pluggable functions.

The shapes are explained in `jaxaug.decode.beam_loop`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

Tree = TypeVar("Tree")


class Continuations(flax.struct.PyTreeNode):
    """Possible next tokens of the live beams.

    Log probabilities are stored as logits and two numbers per beam that normalize them,
    because most log probabilities of a large vocabulary are never read.

    Attributes:
        logits: [batch, k, vocab] logits of the next token, float32.
        peaks: [batch, k] greatest logit of each beam.
        log_sums: [batch, k] log of the sum of exp(logits - peaks).
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

    @property
    def next_log_probs(self) -> Float[Array, "batch k vocab"]:
        """Log probabilities of the next token."""
        return self.logits - self.peaks[..., None] - self.log_sums[..., None]


class Proposal(NamedTuple):
    """The candidates of a step: m / groups of each group, the best first.

    Attributes:
        scores: [batch, m] ranks of the candidates: log probabilities minus penalties,
            or -inf for candidates that must not be chosen.
        log_probs: [batch, m] log probability of all tokens of a candidate; below -5e6
            for fillers.
        tokens: [batch, m] new token of each candidate.
        parents: [batch, m] index of the beam that the candidate continues.
    """

    scores: Float[Array, "batch m"]
    log_probs: Float[Array, "batch m"]
    tokens: Int[Array, "batch m"]
    parents: Int[Array, "batch m"]


Propose = Callable[[Continuations], Proposal]


# Entries of a vocabulary that are first looked at through their maximum.
_BLOCK = 32


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
        values, best = lax.top_k(total.reshape(batch, beams * vocab), m)
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
    kept = jnp.sort(lax.top_k(promise, m)[1], axis=1)
    held = take(blocks.reshape(batch, -1, _BLOCK), kept)
    of_beam = take((x.peaks, x.log_sums, x.log_probs), kept // in_beam)
    peaks, log_sums, before = (part[..., None] for part in of_beam)
    total = before + (held - peaks - log_sums)
    values, place = lax.top_k(total.reshape(batch, -1), m)
    block = take(kept, place // _BLOCK)
    tokens = jnp.minimum(block % in_beam * _BLOCK + place % _BLOCK, vocab - 1)
    return Proposal(values, values, tokens, block // in_beam)


def unfinished_first(finished: Bool[Array, "batch m"], k: int) -> Int[Array, "batch k"]:
    """Returns the indices of the first k unfinished candidates of each row.

    If a row has fewer, finished candidates fill the rest.
    """
    return jnp.argsort(finished, axis=1, stable=True)[:, :k].astype(jnp.int32)


def take(tree: Tree, indices: Int[Array, "batch n"]) -> Tree:
    """Returns the entries at some indices of axis 1 of every leaf [batch, m, ...]."""

    def pick(x: Array) -> Array:
        places = indices.reshape(indices.shape + (1,) * (x.ndim - 2))
        return jnp.take_along_axis(x, places, axis=1)

    return jax.tree.map(pick, tree)


class Beams(flax.struct.PyTreeNode):
    """Beams or candidates, n per row.

    Attributes:
        tokens: [batch, n, length + 1]; column 0 is BOS or the last token in the cache.
        scores: [batch, n]; see `Proposal`.
        log_probs: [batch, n] log probability of the generated tokens.
        lengths: [batch, n] number of generated tokens.
        finished: [batch, n] whether the last generated token is EOS.
    """

    tokens: Int[Array, "batch n length_1"]
    scores: Float[Array, "batch n"]
    log_probs: Float[Array, "batch n"]
    lengths: Int[Array, "batch n"]
    finished: Bool[Array, "batch n"]


class Pool(flax.struct.PyTreeNode):
    """Finished hypotheses; a slot with the score -inf is empty.

    Attributes:
        tokens: [batch, n, length + 1].
        scores: [batch, n] score of `Proposal`, divided by the length penalty, which
            ranks the hypotheses.
        results: [batch, n] log probability, divided by the length penalty.
        lengths: [batch, n] number of generated tokens, EOS included.
    """

    tokens: Int[Array, "batch n length_1"]
    scores: Float[Array, "batch n"]
    results: Float[Array, "batch n"]
    lengths: Int[Array, "batch n"]


class BeamState(flax.struct.PyTreeNode):
    """State of the loop.

    Attributes:
        index: scalar, number of completed steps and column of the tokens to feed.
        live: unfinished beams of each row.
        pool: finished hypotheses.
        done: [batch] whether the row's result is final.
        cache: nested mapping of arrays that lead with [batch, k].
    """

    index: Int[Array, ""]
    live: Beams
    pool: Pool
    done: Bool[Array, " batch"]
    cache: Any
