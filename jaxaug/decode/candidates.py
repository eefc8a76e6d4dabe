"""The candidates of a beam search, and functions that choose among them."""

from typing import Protocol

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

# A smaller log probability is no sum of real ones: there is no such candidate.
# Penalties may lower a score to any number; the score of a filler is -inf.
IMPOSSIBLE = -5.0e6


class Candidates(flax.struct.PyTreeNode):
    """The `m` candidates of each input after one step, or all finished hypotheses.

    The best come first. EOS is an ordinary word of a candidate, so finished candidates
    have no disadvantage.

    Attributes:
        sequences: [batch, m, length] tokens generated so far, the new one included and
            the prompt left out, zero-padded. A finished candidate ends with EOS.
        lengths: [batch, m] number of generated tokens, EOS included.
        log_probs: [batch, m] sum of the log probabilities of those tokens.
        parents: [batch, m] index of the live beam, 0..k-1, that a candidate continues.
        finished: [batch, m] whether the candidate ends with EOS.
        source: [batch, source_length] tokens of the input, zero-padded, EOS removed;
            [batch, 1] of zeros where the source is unknown.
        source_lengths: [batch] number of tokens of the input.
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


def only_possible(
    scores: Float[Array, "batch n"], log_probs: Float[Array, "batch n"]
) -> Float[Array, "batch n"]:
    """Returns the scores, with -inf for fillers; other scores may be any number."""
    return jnp.where(log_probs > IMPOSSIBLE, scores, -jnp.inf)


def chosen_mask(select: Select, shown: Candidates) -> Bool[Array, "batch m"]:
    """Returns a mask of the candidates that `select` chooses, without fillers.

    Raises:
        ValueError: `select` returns another shape than [batch, k].
    """
    chosen = select(shown)
    batch, m = shown.parents.shape
    if chosen.shape != (batch, shown.k):
        raise ValueError(
            f"{select} chose an array of shape {chosen.shape}; it must name "
            f"k = {shown.k} candidates in each of {batch} rows"
        )
    is_chosen = jnp.any(chosen[..., None] == jnp.arange(m), axis=1)
    return is_chosen & shown.possible
