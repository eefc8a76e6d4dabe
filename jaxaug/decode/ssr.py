"""Sparse subset selection by dissimilarity: representatives of all candidates.

Elhamifar, Sapiro and Sastry (2016) seek few items that encode all others at a small sum
of dissimilarities. We fix their number k instead of a price for each, and minimise

    cost(X) = sum over v in V of min over x in X of d(v, x)

greedily instead of by their convex relaxation: the saving 'sum over v of (1 - min d)'
is monotone and submodular for d in [0, 1], so it reaches 1 - 1/e of the largest
saving, and the result is a set and not fractions to round. As d we take
edit(v, x) / (|v| + |x|), of which the R of DiPS is the complement.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxaug.core.typed import flat
from jaxaug.decode import edit_distance, ground_set, set_search
from jaxaug.decode.candidates import Candidates
from jaxaug.decode.ground_set import GroundSet
from jaxaug.decode.sample import TokensToLogits
from jaxaug.decode.set_search import SetOptions


def greedy_select(
    dissimilarity: Float[Array, "n n"],
    k: int,
    valid: Bool[Array, " n"] | None = None,
) -> Int[Array, " k"]:
    """Chooses k representatives, each the one that lowers the cost most.

    Args:
        dissimilarity: [v, x], in [0, 1].
        k: how many to choose.
        valid: False for what needs no representative and is taken only when nothing else
            is left; all if None.

    Returns:
        Indices in order of selection. Savings within one part in 1e5 count as equal, and
        the lowest index wins.

    Raises:
        UserError: k is not in 1..n.
    """
    count = dissimilarity.shape[0]
    ground_set.check_size(k, count)
    if valid is None:
        valid = jnp.ones((count,), bool)

    def step(state, _):
        chosen, nearest = state
        saved = jnp.maximum(nearest[:, None] - dissimilarity, 0)
        gain = jnp.sum(saved * valid[:, None], axis=0)
        pick = ground_set.best_of(gain, valid, chosen)
        nearest = jnp.minimum(nearest, dissimilarity[:, pick])
        return (chosen.at[pick].set(True), nearest), pick

    start = (jnp.zeros((count,), bool), jnp.ones((count,)))
    return lax.scan(step, start, length=k)[1]


def choose(
    candidates: Candidates, ground: GroundSet, longest: Int[Array, ""]
) -> Int[Array, "batch k"]:
    """The representatives of the candidates of each row; see `set_search.Choose`."""

    def row(ground: GroundSet) -> Int[Array, " k"]:
        distances = edit_distance.dissimilarity(ground, longest)
        return greedy_select(distances, candidates.k, ground.valid)

    return jax.vmap(row)(ground)


@flat(SetOptions)
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
    """Beam search that ends in representatives of all candidates: a decode function of T5X.

    Args:
        inputs: this and all that is not listed here is as in `beam.search`.
        options: fields of `SetOptions`, by keyword.
        others: further arguments of `beam.search`; `num_candidates` is 3k by default.

    Returns:
        As `beam.search`.

    Raises:
        UserError: an option is out of range.
    """
    return set_search.search(
        inputs,
        cache,
        tokens_to_logits,
        eos_id,
        num_decodes,
        choose=choose,
        options=options,
        initial_index=initial_index,
        **others,
    )
