"""Sparse subset selection by dissimilarity: representatives of all candidates.

Elhamifar, Sapiro, and Sastry (2016) seek few items that encode all others at a small
sum of dissimilarities. We fix their number k instead of a price for each, and minimize

    cost(X) = sum over v in V of min over x in X of d(v, x)

greedily instead of by their convex relaxation. The saving 'sum over v of (1 - min d)'
is monotone and submodular for d in [0, 1]. So the greedy choice reaches 1 - 1/e of the
largest saving, and its result is a set that needs no rounding. As d we take
edit(v, x) / (|v| + |x|); the R of DiPS is its complement.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from t5x.search.candidates import Candidates

from jaxaug.decode import edit_distance, ground_set, set_search
from jaxaug.decode.ground_set import GroundSet
from jaxaug.decode.set_search import SetOptions


def greedy_select(
    dissimilarity: Float[Array, "n n"], k: int, valid: Bool[Array, " n"] | None = None
) -> Int[Array, " k"]:
    """Chooses k representatives, each the one that lowers the cost most.

    Args:
        dissimilarity: entry [v, x] is the dissimilarity of x as a representative of v,
            in [0, 1].
        valid: False for items that need no representative, and that are chosen only if
            no other item is left; None means that all are valid.

    Returns:
        Indices in order of selection. Savings within one part in 1e5 count as equal,
        and the lowest index wins.

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
    candidates: Candidates,
    ground: GroundSet,
    longest: Int[Array, ""],
    *,
    options: SetOptions,
) -> Int[Array, "batch k"]:
    """Returns the representatives of each row; see `set_search.Choose`."""
    del options  # They say when to choose, not how.

    def row(ground: GroundSet) -> Int[Array, " k"]:
        distances = edit_distance.dissimilarity(ground, longest)
        return greedy_select(distances, candidates.k, ground.valid)

    return jax.vmap(row)(ground)


decode = set_search.decoder(choose, SetOptions)
