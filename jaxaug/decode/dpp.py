"""Selection by a determinantal point process: quality and dissimilarity at once.

The kernel is L[i, j] = q_i S[i, j] q_j (Kulesza and Taskar 2012, section 3.1) with
q_i = exp(quality * log-probability per token). S holds the cosines of weighted n-gram
indicators; as a Gram matrix it is positive semidefinite.

The set of k candidates that maximizes det(L_X) is searched greedily. Each choice
extends the Cholesky factor of L_X by a row (Chen et al. 2018). This takes O(n k^2)
operations instead of k determinants for each of the n candidates.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32
from t5x.search.candidates import Candidates

from jaxaug.core.typed import Range
from jaxaug.decode import ground_set, ngrams, set_search
from jaxaug.decode.ground_set import GroundSet

# Keeps S positive definite where candidates have the same n-grams.
_RIDGE = 1e-3
_SMALLEST = 1e-12


@dataclass(frozen=True, kw_only=True)
class DPPOptions(set_search.SetOptions):
    """Options of the selection by a determinantal process.

    Attributes:
        mode: see `SetOptions`, also for `probability` and `width`.
        quality: exponent of the geometric mean probability of a token in q; with 0 only
            dissimilarity counts.
        ngram_weights: weights of unigrams, bigrams, ... in S.
    """

    quality: Annotated[float, Range(0)] = 1.0
    ngram_weights: Annotated[tuple[float, ...], Range(0)] = (1 / 3, 1 / 2, 1.0)


def ngram_similarity(
    masks: UInt32[Array, "orders n words"], weights: Float[Array, " orders"]
) -> Float[Array, "n n"]:
    """Returns the cosines of n-gram indicators of all pairs of candidates."""
    shared = ngrams.count(masks[:, :, None] & masks[:, None])
    product = jnp.sum(weights[:, None, None] * shared, axis=0)
    norm = jnp.sqrt(jnp.diagonal(product))
    norms = norm[:, None] * norm
    return jnp.where(norms > 0, product / jnp.where(norms > 0, norms, 1), 0)


def greedy_select(
    similarity: Float[Array, "n n"],
    log_quality: Float[Array, " n"],
    k: int,
    valid: Bool[Array, " n"] | None = None,
) -> Int[Array, " k"]:
    """Chooses k items by the greedy maximization of log det(L_X).

    The determinant reaches at least 1 / (k!)^2 of the optimum (Civril and Magdon-Ismail
    2009), and in practice nearly all of it. A ridge of 1e-3 is added to S, which is
    then scaled back to a unit diagonal.

    Args:
        similarity: S, positive semidefinite with a diagonal of 1 (0 counts as 1).
        valid: False for items that are chosen only if no other item is left; None means
            that all are valid.

    Returns:
        Indices in order of selection. Gains within one part in 1e5 count as equal, and
        the lowest index wins.

    Raises:
        UserError: k is not in 1..n.
    """
    count = similarity.shape[0]
    ground_set.check_size(k, count)
    if valid is None:
        valid = jnp.ones((count,), bool)
    kernel = jnp.where(jnp.eye(count, dtype=bool), 1.0, similarity / (1 + _RIDGE))

    def step(state, index):
        chosen, left, rows = state
        gain = 2 * log_quality + jnp.log(jnp.maximum(left, _SMALLEST))
        pick = ground_set.best_of(gain, valid, chosen)
        known = jnp.sum(rows[:, pick, None] * rows, axis=0)
        row = (kernel[pick] - known) / jnp.sqrt(jnp.maximum(left[pick], _SMALLEST))
        return (chosen.at[pick].set(True), left - row**2, rows.at[index].set(row)), pick

    start = (jnp.zeros((count,), bool), jnp.ones((count,)), jnp.zeros((k, count)))
    return lax.scan(step, start, jnp.arange(k))[1]


def choose(
    candidates: Candidates,
    ground: GroundSet,
    longest: Int[Array, ""],
    *,
    options: DPPOptions,
) -> Int[Array, "batch k"]:
    """Returns the set of greatest determinant of each row; see `set_search.Choose`."""
    del longest  # There is no loop over tokens.
    weights = jnp.asarray(options.ngram_weights, jnp.float32)

    def row(ground: GroundSet, log_probs: Float[Array, " n"]) -> Int[Array, " k"]:
        nothing = jnp.zeros((1,), ground.prefixes.dtype)
        masks, _ = ngrams.ground_masks(ground, nothing, jnp.array(0), len(weights))
        mean = log_probs / jnp.maximum(ground.lengths, 1)
        log_quality = jnp.where(ground.valid, options.quality * mean, 0)
        similarity = ngram_similarity(masks, weights)
        return greedy_select(similarity, log_quality, candidates.k, ground.valid)

    return jax.vmap(row)(ground, candidates.log_probs)


decode = set_search.decoder(choose, DPPOptions)
