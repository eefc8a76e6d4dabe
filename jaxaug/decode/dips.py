"""DiPS: diverse paraphrases by submodular maximisation (Kumar et al. 2019).

The objective and its greedy choice are in `jaxaug.decode.submodular`, the two modes in
`jaxaug.decode.set_search`.
"""

import functools
from typing import Any

import jax
from jaxtyping import Array, Float, Int

from jaxaug.core.errors import UserError
from jaxaug.decode import ground_set, set_search
from jaxaug.decode.candidates import Candidates
from jaxaug.decode.ground_set import GroundSet
from jaxaug.decode.sample import TokensToLogits
from jaxaug.decode.submodular import (
    DISTINCT_WEIGHTS,
    MU,
    OVERLAP_WEIGHTS,
    Four,
    Weights,
    greedy,
    greedy_select,
    make_terms,
    objective,
)

__all__ = [
    "DISTINCT_WEIGHTS",
    "MU",
    "OVERLAP_WEIGHTS",
    "Four",
    "Weights",
    "choose",
    "decode",
    "greedy_select",
    "objective",
    "select",
]

MODE = "final"
LAM = 0.5
PROBABILITY = 1.0
# With vectors of length 1. In the table of SmolLM2, of 36 pairs of synonyms the middle
# one then counts 0.20, film and movie 0.42, and two words of different pairs 0.08 (0.002,
# 0.06 and 0.000 with sigma 1 and vectors as they are, which hardly part them either).
SIGMA = 0.8
# The square of a smaller one is none in float32.
_LEAST_SIGMA = 1e-6


def choose(
    candidates: Candidates,
    ground: GroundSet,
    longest: Int[Array, ""],
    *,
    embeddings: Float[Array, "vocab d"] | None,
    mu: Four,
    **options: Any,
) -> Int[Array, "batch k"]:
    """The greedy maximisation of F in each row; see `set_search.Choose`.

    Args:
        candidates: of a step, or all that ended.
        ground: their ground sets.
        longest: length of the longest.
        embeddings: this and what follows is as in `select`; all have to be given.

    Raises:
        UserError: embeddings are missing.
    """
    if mu[1] == 0:
        embeddings = None
    elif embeddings is None:
        raise UserError(
            f"DiPS with mu = {tuple(mu)} compares words by embeddings, and none are "
            "given: use a model that hands its token embeddings to the decoder "
            "(jaxaug.models.t5.SourceEncoderDecoderModel), give `embedding_table`, or "
            "set mu[1] to 0."
        )

    def row(
        ground: GroundSet, source: Int[Array, " length"], length: Int[Array, ""]
    ) -> Int[Array, " k"]:
        terms = make_terms(
            ground, source, length, longest, embeddings=embeddings, mu=mu, **options
        )
        return greedy(terms, candidates.k)

    return jax.vmap(row)(ground, *ground_set.sources(candidates))


def _check(
    lam: float, mu: Four, rbf_sigma: float, overlap: Weights, distinct: Weights
) -> None:
    ground_set.check_unit("lam", lam)
    # Submodular, and greedily solved with a guarantee, without negative weights only.
    ground_set.check_weights("mu", mu)
    ground_set.check_weights("overlap_weights", overlap)
    ground_set.check_weights("distinct_weights", distinct)
    ground_set.check_least("rbf_sigma", rbf_sigma, _LEAST_SIGMA)


def select(
    candidates: Candidates,
    *,
    embeddings: Float[Array, "vocab d"] | None = None,
    lam: float = LAM,
    probability: float = 1.0,
    overlap_weights: Weights = OVERLAP_WEIGHTS,
    distinct_weights: Weights = DISTINCT_WEIGHTS,
    mu: Four = MU,
    rbf_sigma: float = 1.0,
    unit: bool = False,
    normalise: bool = False,
) -> Int[Array, "batch k"]:
    """Which candidates of a beam step live on, by DiPS (Algorithm 2).

    Applied with `probability` once the output is half as long as the source, else the
    most probable candidates live on. Memory is O(n (p / 8 + k T)) bytes a row, with
    n candidates of at most T tokens and p = k T + 3 n + |s| positions.

    Args:
        candidates: of one step.
        embeddings: table of the token ids; needed unless mu[1] is 0.
        lam: the share of L1 + L2, in [0, 1].
        probability: of a selection by F in one step, in [0, 1]; the rest is as in
            `greedy_select`.

    Raises:
        UserError: `lam`, a weight, `rbf_sigma` or `probability` is out of range, or
            embeddings are missing.
    """
    _check(lam, mu, rbf_sigma, overlap_weights, distinct_weights)
    choice = functools.partial(
        choose,
        embeddings=embeddings,
        lam=lam,
        overlap_weights=overlap_weights,
        distinct_weights=distinct_weights,
        mu=mu,
        rbf_sigma=rbf_sigma,
        unit=unit,
        normalise=normalise,
    )
    return set_search.when_due(candidates, choice, probability)


def decode(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 4,
    *,
    embedding_table: Float[Array, "vocab d"] | None = None,
    embeddings: Float[Array, "vocab d"] | None = None,
    mode: str = MODE,
    lam: float = LAM,
    probability: float = PROBABILITY,
    width: int = set_search.WIDTH,
    overlap_weights: Weights = OVERLAP_WEIGHTS,
    distinct_weights: Weights = DISTINCT_WEIGHTS,
    mu: Four = MU,
    rbf_sigma: float = SIGMA,
    unit: bool = True,
    normalise: bool = True,
    initial_index: Int[Array, " batch"] | None = None,
    **options: Any,
) -> tuple[Int[Array, "batch k length"], Float[Array, "batch k"]]:
    """Beam search in which DiPS chooses: a decode function of T5X.

    Args:
        inputs: this and all that is not listed here is as in `beam.search`.
        embedding_table: compares words in L2; if None, `embeddings` does.
        embeddings: of the model's tokens (`SourceEncoderDecoderModel` passes them).
        mode: this, `probability` and `width` are as in `set_search.search`.
        lam: this and what follows is as in `greedy_select`.
        options: further arguments of `beam.search`; `num_candidates` is 3k by default.

    Returns:
        As `beam.search`.

    Raises:
        UserError: `lam`, a weight or `rbf_sigma` is out of range, or embeddings are
            missing; see `set_search.search` too.
    """
    _check(lam, mu, rbf_sigma, overlap_weights, distinct_weights)
    return set_search.search(
        inputs,
        cache,
        tokens_to_logits,
        eos_id,
        num_decodes,
        choose=functools.partial(
            choose,
            embeddings=embeddings if embedding_table is None else embedding_table,
            lam=lam,
            overlap_weights=overlap_weights,
            distinct_weights=distinct_weights,
            mu=mu,
            rbf_sigma=rbf_sigma,
            unit=unit,
            normalise=normalise,
        ),
        mode=mode,
        probability=probability,
        width=width,
        initial_index=initial_index,
        **options,
    )
