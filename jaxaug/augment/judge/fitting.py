"""Fits the weights of a judge to labeled pairs, and estimates its quality on others.

The model is a logistic regression with nonnegative weights (a greater feature is worse)
and L2 regularization. Pairs of one group, such as a
domain, are never on both sides of a split.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.core.errors import UserError

STRENGTHS = (0.003, 0.01, 0.03, 0.1)
INNER_FOLDS = 5


class Aim(NamedTuple):
    """The aim of a threshold.

    Attributes:
        drop: share of the bad pairs to drop.
        keep: share of the good pairs to keep.
    """

    drop: float
    keep: float


_DIGITS = 4

Features = Float[np.ndarray, "pairs features"]
Flags = Bool[np.ndarray, " pairs"]


class Linear(NamedTuple):
    """A linear judge: drops a pair if `bias + weights @ (features - usual)` is above 0.

    Attributes:
        bias: score of a pair with the usual features, including the threshold.
        weights: nonnegative weights.
        usual: mean features of the good pairs.
    """

    bias: float
    weights: Float[np.ndarray, " features"]
    usual: Float[np.ndarray, " features"]

    def scores(self, features: Features) -> Float[np.ndarray, " pairs"]:
        """Returns scores, above 0 for pairs to drop."""
        return self.bias + (features - self.usual) @ self.weights


class Labelled(NamedTuple):
    """Pairs with their labels.

    Attributes:
        features: features; greater is worse.
        bad: whether the candidate has another meaning or is broken.
        groups: the domain of each pair, or its original.
        dropped: whether a rule drops it, regardless of the features.
    """

    features: Features
    bad: Flags
    groups: Sequence[str]
    dropped: Flags

    def only(self, chosen: Flags) -> "Labelled":
        """Returns the chosen pairs."""
        groups = [g for g, is_in in zip(self.groups, chosen, strict=True) if is_in]
        return Labelled(
            self.features[chosen], self.bad[chosen], groups, self.dropped[chosen]
        )


def folds(groups: Sequence[str], count: int, seed: int) -> Iterator[Flags]:
    """Yields the held-out pairs of each fold; a group is in only one fold.

    Raises:
        UserError: there are fewer groups than folds.
    """
    names = sorted(set(groups))
    if len(names) < count:
        raise UserError(
            f"{len(names)} groups for {count} folds: label pairs of more groups."
        )
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[place]: number % count for number, place in enumerate(order)}
    own = np.array([fold_of[group] for group in groups])
    for number in range(count):
        yield own == number


def fit(features: Features, bad: Flags, strength: float, even: bool = True) -> Linear:
    """Returns the regression, without a threshold.

    Args:
        features: features of the pairs.
        bad: labels; both values occur.
        strength: weight of the squared weights, for features of variance 1.
        even: whether both classes count the same; otherwise, the sigmoid of the score
            is the probability of a bad pair.

    Raises:
        UserError: all pairs are good, or all are bad.
    """
    if bad.all() or not bad.any():
        raise UserError("all pairs have one label: label good pairs and bad ones.")
    mean, scale = features.mean(0), features.std(0)
    scale[scale < 1e-9] = np.inf  # A constant feature has no weight.
    inputs = (features - mean) / scale
    share = np.where(bad, 0.5 / bad.sum(), 0.5 / (~bad).sum())
    if not even:
        share = np.full(len(bad), 1.0 / len(bad))
    sign = np.where(bad, 1.0, -1.0)

    columns = np.c_[np.ones(len(inputs)), inputs]
    ridge = np.r_[0.0, np.full(features.shape[1], strength)]

    def loss(x: np.ndarray) -> float:
        return share @ np.logaddexp(0.0, -sign * (columns @ x)) + ridge @ x**2

    found = np.zeros(len(ridge))
    # Newton's method on the free weights; steps are projected (Bertsekas, 1982).
    for _ in range(1000):
        wrong = 1 / (1 + np.exp(sign * (columns @ found)))
        slope = (-share * sign * wrong) @ columns + 2 * ridge * found
        free = (found > 0) | (slope < 0)
        free[0] = True
        if np.abs(slope[free]).max() < 1e-10:
            break
        curvature = (columns.T * (share * wrong * (1 - wrong))) @ columns
        curvature += np.diag(2 * ridge)
        step = np.zeros(len(ridge))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        for size in 0.5 ** np.arange(30):
            tried = found - size * step
            tried[1:] = np.maximum(tried[1:], 0.0)
            if loss(tried) < loss(found):
                break
        else:
            break
        found = tried
    weights, usual = found[1:] / scale, features[~bad].mean(0)
    return Linear(float(found[0] + (usual - mean) @ weights), weights, usual)


def train(labelled: Labelled, aim: Aim, seed: int = 0) -> Linear:
    """Returns a judge; its strength and threshold do best on held-out groups.

    The strength has the greatest area under the ROC curve. The threshold leaves the
    most room to the aim, including the rules.

    Raises:
        UserError: there are too few groups, or only good or bad pairs.
    """
    learned = labelled.only(~labelled.dropped)
    tried = [_held_out(learned, strength, seed) for strength in STRENGTHS]
    areas = [area(scores, learned.bad) for scores in tried]
    best = int(np.argmax(areas))
    rules = labelled.only(labelled.dropped)
    found = fit(learned.features, learned.bad, STRENGTHS[best])
    limit = threshold(
        np.r_[tried[best], np.full(len(rules.bad), np.inf)],
        np.r_[learned.bad, rules.bad],
        aim,
    )
    return found._replace(bias=found.bias - limit)


def threshold(scores: Float[np.ndarray, " pairs"], bad: Flags, aim: Aim) -> float:
    """Returns the least score to drop; it maximizes the smaller of both margins.

    The threshold is halfway to the next lower score.
    """
    values = np.unique(scores)
    found = [
        (
            np.mean(scores[bad] >= value) - aim.drop,
            np.mean(scores[~bad] < value) - aim.keep,
        )
        for value in values
    ]
    # Ties in the smaller margin are broken by the greater one.
    margins = [min(both) + 1e-6 * max(both) for both in found]
    best = int(np.argmax(margins))
    if best == 0 or not np.isfinite(values[best]):
        return float(values[max(0, best - 1)])
    return float(values[best - 1] + values[best]) / 2


def kept_out_of_fold(labelled: Labelled, aim: Aim, seed: int = 0) -> Flags:
    """Returns the pairs that judges keep in leave-one-group-out cross-validation."""
    kept = np.zeros(len(labelled.bad), np.bool_)
    for held_out in folds(labelled.groups, len(set(labelled.groups)), seed):
        judge = train(labelled.only(~held_out), aim, seed)
        kept[held_out] = judge.scores(labelled.features[held_out]) <= 0
    return kept & ~labelled.dropped


class Shares(NamedTuple):
    """The quality of a judge: shares, and their 95% intervals.

    Attributes:
        precision: share of good pairs among the kept pairs.
        recall: share of kept pairs among the good pairs.
        dropped: share of dropped pairs among the bad pairs.
    """

    precision: tuple[float, float, float]
    recall: tuple[float, float, float]
    dropped: tuple[float, float, float]


def shares(
    kept: Float[np.ndarray, " pairs"],
    bad: Flags,
    groups: Sequence[str],
    draws: int = 10_000,
    seed: int = 0,
) -> Shares:
    """Returns precision, recall, and dropped share, with bootstrap intervals over
    groups.

    Args:
        kept: for each pair, how often it was kept, 0 to 1.
        bad: see `Labelled`.
        groups: see `Labelled`.
        draws: number of bootstrap draws.
        seed: seed of the draws.
    """
    names = sorted(set(groups))
    own = np.array([names.index(group) for group in groups])
    sums = np.zeros((len(names), 4))
    for column, values in enumerate(
        (kept * ~bad, kept * bad, (~bad).astype(float), bad.astype(float))
    ):
        np.add.at(sums[:, column], own, values)
    chosen = np.random.default_rng(seed).integers(len(names), size=(draws, len(names)))
    drawn = np.concatenate([sums.sum(0, keepdims=True), sums[chosen].sum(1)])
    good_kept, bad_kept, good, all_bad = drawn.T
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = (
            good_kept / (good_kept + bad_kept),
            good_kept / good,
            1.0 - bad_kept / all_bad,
        )
    return Shares(*(_interval(column) for column in columns))


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    low, high = np.nanquantile(values[1:], (0.025, 0.975))
    return float(values[0]), float(low), float(high)


def rounded(judge: Linear) -> Linear:
    """Returns the judge with rounded numbers, so that numerical noise has no effect."""
    return Linear(
        round(judge.bias, _DIGITS),
        np.round(judge.weights, _DIGITS),
        np.round(judge.usual, _DIGITS),
    )


def _held_out(
    labelled: Labelled, strength: float, seed: int
) -> Float[np.ndarray, " pairs"]:
    scores = np.zeros(len(labelled.bad))
    for held_out in folds(labelled.groups, INNER_FOLDS, seed):
        rest = labelled.only(~held_out)
        judge = fit(rest.features, rest.bad, strength)
        scores[held_out] = judge.scores(labelled.features[held_out])
    return scores


def area(scores: Float[np.ndarray, " pairs"], bad: Flags) -> float:
    """Returns the share of (bad, good) in the right order; equal scores count half."""
    _, places, often = np.unique(scores, return_inverse=True, return_counts=True)
    order = (np.cumsum(often) - (often - 1) / 2)[places]  # Ties share their mean rank.
    count = int(bad.sum())
    above = order[bad].sum() - count * (count + 1) / 2
    return float(above / (count * (len(bad) - count)))
