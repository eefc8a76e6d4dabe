"""The state of a beam search, and the inputs and outputs of its plugs.

Shapes as in `jaxaug.decode.beam_loop`.
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
    """All that could follow the live beams.

    Log probabilities are kept as logits and the two numbers of a beam that make them
    log probabilities: with a large vocabulary most are never looked at.

    Attributes:
        logits: [batch, k, vocab] of the next token, float32.
        peaks: [batch, k] the greatest of them.
        log_sums: [batch, k] log of the sum of exp(logits - peaks).
        scores: [batch, k] of the beams; see `Proposal`.
        log_probs: [batch, k] of the beams.
        sequences: [batch, k, length] tokens generated so far, zero-padded.
        lengths: [batch, k] number of them.
        last: [batch] whether the row may grow by no more than this token.
        eos_id: static.
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
        scores: [batch, m] what beams are ranked by: log probabilities, less penalties;
            any number, or -inf for what must not be chosen.
        log_probs: [batch, m] of the candidates' tokens; below -5e6 for fillers.
        tokens: [batch, m] the new token.
        parents: [batch, m] the beam that it continues.
    """

    scores: Float[Array, "batch m"]
    log_probs: Float[Array, "batch m"]
    tokens: Int[Array, "batch m"]
    parents: Int[Array, "batch m"]


Propose = Callable[[Continuations], Proposal]


# Entries of a vocabulary that are first looked at through their maximum.
_BLOCK = 32


def most_probable(continuations: Continuations, m: int) -> Proposal:
    """The m continuations of highest total log probability.

    The result is equal to one `lax.top_k` over all. Log probabilities of a beam are in
    the order of its logits, so the m blocks whose maxima promise most hold the m best.
    (Where fewer than m are above -inf, what fills up may differ.)
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
    """The first k candidates that are not finished."""
    return jnp.argsort(finished, axis=1, stable=True)[:, :k].astype(jnp.int32)


def take(tree: Tree, indices: Int[Array, "batch n"]) -> Tree:
    """Picks along axis 1 of every leaf [batch, m, ...]."""

    def pick(x: Array) -> Array:
        places = indices.reshape(indices.shape + (1,) * (x.ndim - 2))
        return jnp.take_along_axis(x, places, axis=1)

    return jax.tree.map(pick, tree)


class Beams(flax.struct.PyTreeNode):
    """Beams or candidates, n a row.

    Attributes:
        tokens: [batch, n, length + 1]; column 0 is BOS or the last token in the cache.
        scores: [batch, n] see `Proposal`.
        log_probs: [batch, n].
        lengths: [batch, n] number of generated tokens.
        finished: [batch, n] whether the last of them is EOS.
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
        scores: [batch, n] what they are ranked by, over the length penalty.
        results: [batch, n] log probability over the length penalty.
        lengths: [batch, n] number of generated tokens, EOS included.
    """

    tokens: Int[Array, "batch n length_1"]
    scores: Float[Array, "batch n"]
    results: Float[Array, "batch n"]
    lengths: Int[Array, "batch n"]


class BeamState(flax.struct.PyTreeNode):
    """State of the loop.

    Attributes:
        index: scalar, number of steps done and column of the tokens to feed.
        live: the beams of each row, of which none is finished.
        pool: finished hypotheses.
        done: [batch] whether the row's result is final.
        cache: nested mapping of arrays that lead with [batch, k].
    """

    index: Int[Array, ""]
    live: Beams
    pool: Pool
    done: Bool[Array, " batch"]
    cache: Any
