"""DiPS: diverse paraphrases by submodular maximization (Kumar et al. 2019).

The objective and its greedy choice are in `jaxaug.decode.submodular`, the two modes in
`jaxaug.decode.set_search`.
"""

import functools
from typing import Any

import jax
from jaxtyping import Array, Float, Int
from t5x.search.candidates import Candidates
from t5x.search.decode_state import TokensToLogits

from jaxaug.core.errors import UserError
from jaxaug.core.typed import flat
from jaxaug.decode import dips_program, ground_set, set_search
from jaxaug.decode.ground_set import GroundSet
from jaxaug.decode.submodular import (
    DiPSOptions,
    greedy,
    greedy_select,
    make_terms,
    objective,
)

__all__ = [
    "DiPSOptions",
    "choose",
    "decode",
    "greedy_select",
    "objective",
]


def choose(
    candidates: Candidates,
    ground: GroundSet,
    longest: Int[Array, ""],
    *,
    embeddings: Float[Array, "vocab d"] | None,
    options: DiPSOptions,
) -> Int[Array, "batch k"]:
    """Maximizes F greedily in each row; see `set_search.Choose`.

    Args:
        candidates: candidates of a step, or all finished hypotheses.
        ground: ground sets of the candidates.
        longest: length of the longest candidate, in tokens.
        embeddings: table of the token ids; required unless mu[1] is 0.
        options: options of F.

    Returns:
        Indices of the chosen candidates.

    Raises:
        UserError: embeddings are required and missing.
    """
    if options.mu[1] == 0:
        embeddings = None
    elif embeddings is None:
        raise UserError(
            f"DiPS with mu = {options.mu} compares words by embeddings, and none are "
            "given: use a model that hands its token embeddings to the decoder "
            "(jaxaug.models.t5.SourceEncoderDecoderModel), give `embedding_table`, or "
            "set mu[1] to 0."
        )

    if options.variant == "program":
        # The program sees words without EOS.
        program = functools.partial(
            dips_program.choose, k=candidates.k, embeddings=embeddings, options=options
        )
        return jax.vmap(program)(
            candidates.sequences,
            candidates.lengths - candidates.finished,
            candidates.possible,
            candidates.source,
            candidates.source_lengths,
        )

    def row(
        ground: GroundSet, source: Int[Array, " length"], length: Int[Array, ""]
    ) -> Int[Array, " k"]:
        terms = make_terms(
            ground, source, length, longest, embeddings=embeddings, options=options
        )
        return greedy(terms, candidates.k)

    return jax.vmap(row)(ground, *ground_set.sources(candidates))


@flat(DiPSOptions)
def decode(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 4,
    *,
    embedding_table: Float[Array, "vocab d"] | None = None,
    embeddings: Float[Array, "vocab d"] | None = None,
    options: DiPSOptions,
    initial_index: Int[Array, " batch"] | None = None,
    **others: Any,
) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
    """Runs a beam search that selects sets by DiPS: a decode function of T5X.

    Args:
        inputs: see `beam.search`, also for the arguments that are not listed here.
        embedding_table: table of the token ids for L2; None means `embeddings`.
        embeddings: embeddings of the model's tokens, which `SourceEncoderDecoderModel`
            passes.
        options: fields of `DiPSOptions`, by keyword.
        others: further arguments of `beam.search`; `num_candidates` is 3k by default.

    Returns:
        The results of `beam.search`.

    Raises:
        UserError: an option is out of range, or embeddings are missing.
    """
    table = embeddings if embedding_table is None else embedding_table
    return set_search.search(
        inputs,
        cache,
        tokens_to_logits,
        eos_id,
        num_decodes,
        choose=functools.partial(choose, embeddings=table, options=options),
        options=options,
        initial_index=initial_index,
        **others,
    )
