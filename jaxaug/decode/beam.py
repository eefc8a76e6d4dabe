"""Beam search: one jitted loop with a pluggable selection of candidates."""

import functools
import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from t5x.search import beam
from t5x.search.candidates import IMPOSSIBLE, Candidates, Propose, Select, most_probable
from t5x.search.decode_state import (
    TokensToLogits,
    prompt_lengths,
    rows_alone,
    start_index,
)

from jaxaug.core.errors import UserError
from jaxaug.decode import contract

__all__ = ["Candidates", "Select", "search"]

# Dividing logits by a smaller temperature overflows float32.
_LEAST_TEMPERATURE = 1e-6


@rows_alone
def search(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 4,
    *,
    select: Select | None = None,
    last: Select | None = None,
    width: int | None = None,
    keep: int | None = None,
    propose: Propose | None = None,
    groups: int = 1,
    num_candidates: int | None = None,
    alpha: float = 0.6,
    temperature: float = 1.0,
    max_decode_steps: int | None = None,
    cache_offset: int = 0,
    decode_rng: Array | None = None,
    initial_index: Int[Array, " batch"] | None = None,
    source: Int[Array, "batch source_length"] | None = None,
    input_ids: Int[Array, " batch"] | None = None,
    seed: int | None = None,
    embeddings: Float[Array, "vocab d"] | None = None,
) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
    """Runs a beam search: a decode function of T5X.

    Without `select` the results are equal to `t5x.decoding.beam_search`; see
    `t5x.search.beam.run`.

    With `select` or `last` the result is a selected set. In every step `select` chooses
    among the `num_candidates` most probable candidates. A finished hypothesis moves to
    the pool if it is selected or is among the k most probable; otherwise it is dropped.
    Selected unfinished hypotheses stay in the beam, and the most probable others fill
    it. At the end `last` chooses the `num_decodes` results from the pool. A row stops
    when its pool is full. At the length limit live beams fill empty places of the pool.

    Unlike in `t5x.decoding.beam_search`, an EOS of the prompt ends nothing.

    Args:
        inputs: see `sample.sample`, also for the arguments that are not listed here.
        select: chooses the continuations that stay in the beam.
        last: chooses the results among the finished hypotheses; None means the most
            probable ones.
        width: number of beams, a multiple of k; None means k. Other values need
            `select` or `last`.
        keep: size of the pool; None means `width`. Other values need `select` or
            `last`.
        propose: makes the candidates; None means `most_probable`.
        groups: number of separate groups, each with a pool and k / groups beams;
            requires a `propose` that keeps them separate.
        num_candidates: m, the number of candidates per step; None means 2 * `width`, or
            3 * `width` with `select`.
        alpha: strength of the length penalty ((5 + tokens) / 6) ** alpha, which divides
            log probabilities; prompt and EOS count, and 0 is no penalty.
        temperature: divides the logits. Values above 1 flatten the distribution, so
            hypotheses diverge earlier.
        decode_rng: key of the run, for a `select` that draws.

    Returns:
        Tokens without BOS, 0 after EOS, and log probabilities divided by the length
        penalty. Both are sorted ascending: the best is last. With `select` or `last`
        unfinished hypotheses precede finished ones. Empty slots hold zeros and a score
        of -1e7. A row without a token to choose ends there with
        `t5x.search.decode_state.BROKEN` and the score NaN.

    Raises:
        UserError: `groups` does not divide `num_decodes`; `alpha` is negative, or its
            penalty leaves float32; `width`, `keep` or `num_candidates` is too small;
            arguments contradict each other; or, outside of compiled programs, logits
            are NaN or infinite (see `t5x.search.decode_state.check_decodes`).
    """
    del embeddings
    chosen = select is not None or last is not None
    beams, keep = _sizes(num_decodes, width, keep, chosen)
    if groups < 1 or num_decodes % groups:
        raise UserError(
            f"{groups} groups cannot share {num_decodes} beams evenly: num_decodes "
            "must be a multiple of the number of groups"
        )
    if propose is None:
        if groups > 1:
            raise UserError(
                f"{groups} groups need a `propose` that keeps them apart, as "
                "diverse.decode has"
            )
        m = _number_of_candidates(num_candidates, beams, select)
        propose = functools.partial(most_probable, m=m)
    elif num_candidates is not None:
        raise UserError(
            f"num_candidates is {num_candidates}, but `propose` decides on the number "
            "of candidates: leave it out"
        )
    beam.check_alpha("alpha", alpha, inputs.shape[1], least=0.0)
    if not _LEAST_TEMPERATURE <= temperature < math.inf:
        raise UserError(
            f"temperature is {temperature}: beam search divides logits by it, so it "
            f"must be at least {_LEAST_TEMPERATURE:g}, and finite"
        )
    prompt = prompt_lengths(inputs, start_index(inputs, initial_index))
    identities = contract.input_identities(inputs, source, input_ids)
    return beam.run(
        inputs,
        cache,
        _at(temperature, tokens_to_logits),
        eos_id,
        num_decodes,
        propose=propose,
        select=select,
        last=last,
        limit=contract.length_limits(inputs, prompt, max_decode_steps),
        alpha=alpha,
        beams=beams,
        keep=keep,
        groups=groups,
        source=None if source is None else jnp.where(source == eos_id, 0, source),
        row_keys=contract.row_keys(contract.base_key(decode_rng, seed), identities),
        cache_offset=cache_offset,
        initial_index=initial_index,
    )


def _at(temperature: float, tokens_to_logits: TokensToLogits) -> TokensToLogits:
    if temperature == 1.0:
        return tokens_to_logits

    def tempered(state: Any) -> tuple[Array, Any]:
        logits, cache = tokens_to_logits(state)
        # Forbidden tokens stay forbidden at high temperatures, too.
        forbidden = logits < jnp.max(logits, axis=-1, keepdims=True) + IMPOSSIBLE
        return jnp.where(forbidden, logits, logits / temperature), cache

    return tempered


def _number_of_candidates(asked: int | None, beams: int, select: Select | None) -> int:
    if asked is None:
        return 2 * beams if select is None else 3 * beams
    # Half of them may end, and k must stay in the beam.
    if asked < 2 * beams:
        raise UserError(
            f"num_candidates is {asked}, but {beams} beams need at least {2 * beams}"
        )
    return asked


def _sizes(
    num_decodes: int, width: int | None, keep: int | None, chosen: bool
) -> tuple[int, int]:
    """Returns the number of beams and the size of the pool."""
    if not chosen and (width or keep) is not None:
        raise UserError(
            f"width is {width} and keep {keep}: without `select` or `last` they are "
            f"the number of decodes, {num_decodes}; leave them out"
        )
    width = num_decodes if width is None else width
    keep = width if keep is None else keep
    if width < num_decodes or width % num_decodes:
        raise UserError(
            f"width is {width}: {num_decodes} decodes need a multiple of {num_decodes} "
            "beams, which go through the model that many at a time"
        )
    if keep < num_decodes:
        raise UserError(
            f"keep is {keep}: {num_decodes} results need a pool of at least that many"
        )
    return width, keep
