"""Beam searches that select sets, in each step or once at the end.

DiPS, DPP, and SSR differ in the set that they select. There are two modes. `step` is
Algorithm 2 of Kumar et al. (2019): each step selects among the 3k most probable
continuations, until k have ended. Selection begins at half the length of the source,
and each step selects with a given probability. `final` follows their released program:
a wide beam search, then one selection among the finished hypotheses.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int
from t5x.search.candidates import Candidates
from t5x.search.decode_state import TokensToLogits

from jaxaug.core.typed import Range, flat
from jaxaug.decode import beam, ground_set
from jaxaug.decode.ground_set import GroundSet

# (candidates, their ground sets, the longest length of a candidate) -> k indices a row.
Choose = Callable[[Candidates, GroundSet, Int[Array, ""]], Int[Array, "batch k"]]


@dataclass(frozen=True, kw_only=True)
class SetOptions:
    """Options that say when a set is selected.

    Attributes:
        mode: "step" or "final"; see the head of this module.
        probability: probability of a selection in one step, for the mode "step"; see
            `when_due`.
        width: minimum number of beams, for the mode "final"; it is rounded up to a
            multiple of the number of decodes. The default is taken from the authors'
            program.
    """

    mode: Literal["step", "final"] = "step"
    probability: Annotated[float, Range(0, 1)] = 1.0
    width: Annotated[int, Range(1)] = 50


def search(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int,
    *,
    choose: Choose,
    options: SetOptions,
    **others: Any,
) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
    """Runs a beam search that selects sets by a function: a decode function of T5X.

    Args:
        inputs: see `beam.search`, also for the arguments that are not listed here.
    """

    def last(candidates: Candidates) -> Int[Array, "batch k"]:
        longest = jnp.max(candidates.lengths)
        return choose(candidates, ground_set.from_ended(candidates), longest)

    if options.mode == "final":
        others["width"] = -(-options.width // num_decodes) * num_decodes
        others["last"] = last
    else:
        others["select"] = lambda shown: when_due(shown, choose, options.probability)
    return beam.search(inputs, cache, tokens_to_logits, eos_id, num_decodes, **others)


def decoder(choose: Callable[..., Any], kind: type[SetOptions]) -> Callable[..., Any]:
    """Returns a decode function of T5X that selects sets by a function."""

    def decode(
        inputs: Int[Array, "batch length"],
        cache: Any,
        tokens_to_logits: TokensToLogits,
        eos_id: int,
        num_decodes: int = 4,
        *,
        options: SetOptions,
        initial_index: Int[Array, " batch"] | None = None,
        **others: Any,
    ) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
        """Runs a beam search that selects sets: a decode function of T5X."""
        return search(
            inputs,
            cache,
            tokens_to_logits,
            eos_id,
            num_decodes,
            choose=functools.partial(choose, options=options),
            options=options,
            initial_index=initial_index,
            **others,
        )

    # Gin files and error messages name the module that chooses.
    decode.__module__, decode.__qualname__ = choose.__module__, decode.__name__
    return flat(kind)(decode)


def when_due(
    candidates: Candidates, choose: Choose, probability: float
) -> Int[Array, "batch k"]:
    """Selects a set in the rows where it is due, else the most probable candidates.

    A selection is due in a row once its output is half as long as its source (Kumar et
    al. 2019, section 5.5), or at once if the source is unknown. From then on each step
    selects with `probability`, drawn with the key of the row. A step in which no row is
    due does not call `choose`.
    """
    lengths = jnp.max(jnp.where(candidates.possible, candidates.lengths, 0), axis=1)
    due = 2 * lengths >= candidates.source_lengths
    if probability < 1:
        draw = jax.vmap(lambda key: jax.random.bernoulli(key, probability))
        due &= draw(candidates.rng)
    rows = candidates.log_probs.shape[0]
    plain = jnp.broadcast_to(
        jnp.arange(candidates.k, dtype=jnp.int32), (rows, candidates.k)
    )

    def of_sets() -> Int[Array, "batch k"]:
        ground = ground_set.from_candidates(candidates)
        return choose(candidates, ground, jnp.max(lengths))

    chosen = lax.cond(jnp.any(due), of_sets, lambda: plain)
    return jnp.where(due[:, None], chosen, plain)
