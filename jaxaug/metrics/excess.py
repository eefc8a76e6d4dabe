"""Tests whether answers depend on a wording, beyond the noise of repeated questions.

Every case is asked several times under every wording. Two answers *disagree* by the
squared difference of their scores: 1 if one is right and the other is wrong. The
*excess* of a case is the mean disagreement of answers under different wordings minus
the mean disagreement of answers under one wording. Its expectation is 0 if answers
depend on chance alone, whatever the accuracy, so it can be negative.

The null hypothesis says that the wording has no effect: then all answers to a case are
exchangeable. Permuting them within each case gives the exact distribution of any
statistic (Pesarin and Salmaso, 2010). Two statistics are combined by their smaller
p-value: the excess, and the greatest loss of a wording, which is the mean of the other
wordings minus its own mean. The first finds answers that change in both directions. The
second finds a drop of accuracy that noise hides in each single case.
"""

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

ALPHA = 0.02
"""Level of the test. Checks run often, so a false alarm must be rare."""
POWER = 0.8
"""Probability that a planned number of cases shows an effect."""
PERMUTATIONS = 1999
# Cases that must change under a wording for the test to notice with `POWER`, if no
# answer is noise.
_CHANGED = 5.5
_CHUNK = 1 << 21  # Permuted answers in memory.
# Sums of one data set differ by rounding errors below this number.
_ROUNDING = 9

Answers = Float[np.ndarray, "cases answers"]
Wordings = Int[np.ndarray, " answers"]
Clusters = Int[np.ndarray, " cases"]


class Disagreement(NamedTuple):
    """Disagreement of each case: between wordings, and within a wording."""

    between: Float[np.ndarray, " cases"]
    within: Float[np.ndarray, " cases"]


class Test(NamedTuple):
    """The result of a permutation test.

    Attributes:
        p: p-value of the hypothesis that scores do not depend on the wording.
        deviation: standard deviation of the mean excess under this hypothesis.
        p_loss: p-value of the greatest loss of a wording alone.
    """

    p: float
    deviation: float
    p_loss: float


def disagreement(scores: Answers, wordings: Wordings) -> Disagreement:
    """Returns the disagreement of each case.

    Args:
        scores: score of each answer, from 0 to 1.
        wordings: wording of each answer, numbered from 0; at least two, of which one
            has two answers.
    """
    counts = np.bincount(wordings).astype(float)
    means, squares = _means(scores, wordings), _means(scores**2, wordings)
    return Disagreement(*_disagreement(means, squares, counts))


def losses(scores: Answers, wordings: Wordings) -> Float[np.ndarray, "cases wordings"]:
    """Returns the mean score of the other wordings minus the score of each wording."""
    return _losses(_means(scores, wordings))


def permutation_test(
    scores: Answers,
    wordings: Wordings,
    clusters: Clusters,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Test:
    """Tests the hypothesis that scores do not depend on the wording.

    Args:
        scores, wordings: see `disagreement`.
        clusters: cluster of each case, numbered from 0. Cases of a cluster are permuted
            together, because they are not independent.
    """
    # Cases with equal answers are the same under every permutation.
    varies = (scores != scores[:, :1]).any(axis=1)
    if not varies.any():
        return Test(1.0, 0.0, 1.0)
    rows = scores[varies]
    _, places = np.unique(clusters[varies], return_inverse=True)
    rng = np.random.default_rng(seed)
    drawn = [_statistics(rows[None], wordings)]
    drawn += [
        _statistics(part, wordings)
        for part in _permuted(rows, places, permutations, rng)
    ]
    excess, loss = (np.concatenate(part) for part in zip(*drawn, strict=True))
    # Wordings with more answers have smaller deviations.
    spread = loss.std(axis=0)
    loss = (np.abs(loss) / np.where(spread > 0, spread, 1)).max(axis=1)
    losses = _shares(loss)
    smaller = -np.minimum(_shares(excess), losses)
    deviation = float(excess[1:].std()) / len(scores)
    return Test(float(_shares(smaller)[0]), deviation, float(losses[0]))


def cases_needed(
    scores: Answers, wordings: Wordings, clusters: Clusters, loss: float
) -> int:
    """Returns how many such cases show the loss of one wording with `POWER`."""
    cases, number = len(scores), int(wordings.max()) + 1
    found = losses(scores, wordings)
    found = found - found.mean(axis=0)
    sums = np.zeros((int(clusters.max()) + 1, number))
    np.add.at(sums, clusters, found)
    variance = float((sums**2).sum(axis=0).max()) / max(cases - 1, 1)
    normal = NormalDist()
    # Two statistics share the level, and the loss is two-sided and the greatest one.
    deviations = normal.inv_cdf(1 - ALPHA / 4 / number) + normal.inv_cdf(POWER)
    return math.ceil(max(deviations**2 * variance / loss**2, _CHANGED / loss))


def _means(
    scores: Float[np.ndarray, "*batch answers"], wordings: Wordings
) -> Float[np.ndarray, "*batch wordings"]:
    chosen = np.eye(int(wordings.max()) + 1)[wordings]
    return scores @ (chosen / chosen.sum(axis=0))


def _losses(
    means: Float[np.ndarray, "*batch wordings"],
) -> Float[np.ndarray, "*batch wordings"]:
    number = means.shape[-1]
    return (means.mean(axis=-1, keepdims=True) - means) * (number / (number - 1))


def _disagreement(
    means: Float[np.ndarray, "*batch wordings"],
    squares: Float[np.ndarray, "*batch wordings"],
    counts: Float[np.ndarray, " wordings"],
) -> tuple[np.ndarray, np.ndarray]:
    number = len(counts)
    products = means.sum(axis=-1) ** 2 - (means**2).sum(axis=-1)
    between = 2 * (squares.mean(axis=-1) - products / (number * (number - 1)))
    several = counts > 1
    unbiased = counts[several] / (counts[several] - 1)
    parts = (squares[..., several] - means[..., several] ** 2) * unbiased
    return between, 2 * parts.mean(axis=-1)


def _statistics(
    scores: Float[np.ndarray, "permutations cases answers"], wordings: Wordings
) -> tuple[np.ndarray, np.ndarray]:
    """Returns excess [permutations] and losses [permutations, wordings], as sums."""
    means = _means(scores, wordings)
    is_right = (scores == 0) | (scores == 1)  # The square of such a score is itself.
    squares = means if is_right.all() else _means(scores**2, wordings)
    between, within = _disagreement(means, squares, np.bincount(wordings).astype(float))
    excess = (between - within).sum(axis=-1)
    return excess.round(_ROUNDING), _losses(means).sum(axis=-2).round(_ROUNDING)


def _permuted(
    scores: Answers, clusters: Clusters, number: int, rng: np.random.Generator
) -> Iterator[Float[np.ndarray, "permutations cases answers"]]:
    """Yields permutations in blocks; a cluster has the same permutation."""
    size, answers = int(clusters.max()) + 1, scores.shape[1]
    block = max(1, _CHUNK // scores.size)
    for start in range(0, number, block):
        shape = min(block, number - start), size, answers
        places = rng.random(shape, np.float32).argsort(axis=-1)[:, clusters]
        whole = np.broadcast_to(scores, (shape[0], *scores.shape))
        yield np.take_along_axis(whole, places, axis=-1)


def _shares(values: Float[np.ndarray, " draws"]) -> Float[np.ndarray, " draws"]:
    """Returns, for each value, the share of values that are at least as great."""
    ordered = np.sort(values)
    return 1 - np.searchsorted(ordered, values) / len(values)
