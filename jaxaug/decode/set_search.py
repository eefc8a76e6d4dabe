"""Beam searches whose result is a set: in each step, or once among what ended.

DiPS, DPP and SSR differ in the set that they choose. `step` is Algorithm 2 of Kumar et
al. (2019): a choice among the 3k most probable continuations until k have ended. It
begins at half the length of the source and has a probability in each step. `final`
follows their released program: a wide beam search, then one choice among the finished
sentences.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxaug.core.typed import Range, flat
from jaxaug.decode import beam, ground_set
from jaxaug.decode.candidates import Candidates
from jaxaug.decode.ground_set import GroundSet
from jaxaug.decode.sample import TokensToLogits

# (candidates, their ground sets, the longest length of a candidate) -> k indices a row.
Choose = Callable[[Candidates, GroundSet, Int[Array, ""]], Int[Array, "batch k"]]


@dataclass(frozen=True, kw_only=True)
class SetOptions:
    """When a set is chosen.

    Attributes:
        mode: see the head of this module.
        probability: in `step`, of a choice in one step; see `when_due`.
        width: in `final`, the least number of beams, rounded up to a multiple of the
            number of decodes. The default is taken from the authors' program.
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
    """Beam search in which `choose` makes the set: a decode function of T5X.

    Args:
        inputs: this and all that is not listed here is as in `beam.search`.
        choose: of the candidates of a step, or of all that ended.

    Returns:
        As `beam.search`.
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
    """Makes a decode function of T5X that chooses sets by a function.

    Args:
        choose: takes `options`, a `kind`, in addition to the arguments of a `Choose`.
        kind: dataclass whose fields the decode function takes as keywords.
    """

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
        """Beam search that chooses sets: a decode function of T5X.

        Args:
            inputs: this and all that is not listed here is as in `beam.search`.
            options: fields of the dataclass of options, by keyword.
            others: further arguments of `beam.search`, where `num_candidates` is 3k.

        Returns:
            As `beam.search`.

        Raises:
            UserError: an option is out of range.
        """
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
    """`choose` where a set selection is due, the most probable candidates elsewhere.

    It is due in a row once its output is half as long as its source (Kumar et al.
    2019, section 5.5; at once if the source is unknown). From then on it takes place
    with `probability` per step, drawn with the key of the row. Without a row in which
    it is due, a step costs nothing.

    Args:
        candidates: of one step.
        choose: its last argument bounds its loops over tokens.
        probability: of a set selection, in [0, 1].
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
