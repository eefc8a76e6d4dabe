"""Means and paired differences over seeds and test examples."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from jaxaug.metrics import student

_CONFIDENCE = 0.95


class Difference(NamedTuple):
    """The difference of two methods over the same seeds and test examples.

    Attributes:
        mean: mean of the differences.
        deviation: sample standard deviation of the differences of the seeds; NaN for
            one seed.
        error: standard error of the mean; NaN for one seed.
        half_width: half the width of the 95% confidence interval of the mean; NaN for
            one seed.
        wins: number of seeds with a difference above 0.
        p: two-tailed p-value that `half_width` belongs to; NaN for one seed or equal
            methods.
    """

    mean: float
    deviation: float
    error: float
    half_width: float
    wins: int
    p: float


def difference(
    ours: Shaped[np.ndarray, "seeds ..."],
    theirs: Shaped[np.ndarray, "seeds ..."],
    tests: tuple[float, int] | None = None,
) -> Difference:
    """Returns the statistics of `ours - theirs`, paired by seed and by test example.

    The variance of the mean is that over seeds plus that over test examples. The part
    of both together counts twice, so intervals are too wide rather than too narrow. t
    has Satterthwaite's degrees of freedom.

    Args:
        ours: scores of each seed, or of each seed and test example.
        theirs: scores of the other method, in the same order.
        tests: variance over test examples and their number, if the scores of examples
            are unknown.
    """
    values = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    by_seed = values.reshape(len(values), -1).mean(axis=1)
    mean, number = float(by_seed.mean()), len(by_seed)
    wins = int((by_seed > 0).sum())
    if number == 1:
        return Difference(mean, math.nan, math.nan, math.nan, wins, math.nan)
    deviation = float(by_seed.std(ddof=1))
    parts = [(deviation**2 / number, number - 1)]
    if values.ndim > 1:
        tests = float(values.mean(axis=0).var(ddof=1)), values.shape[1]
    if tests:
        parts.append((tests[0] / tests[1], tests[1] - 1))
    total = float(sum(part for part, _ in parts))
    if total == 0:
        return Difference(mean, deviation, 0.0, 0.0, wins, math.nan)
    freedom = total**2 / float(sum(part**2 / own for part, own in parts))
    error = math.sqrt(total)
    quantile = float(student.quantile(freedom, (1 + _CONFIDENCE) / 2))
    p = 2 * float(student.cdf(freedom, -abs(mean) / error))
    return Difference(mean, deviation, error, quantile * error, wins, p)


def spread(values: Shaped[np.ndarray, "seeds ..."]) -> str:
    """Formats mean and deviation of fractions in per cent, such as `41.2 ± 0.9`."""
    by_seed = values.reshape(len(values), -1).mean(axis=1)
    if len(by_seed) == 1:
        return f"{100 * by_seed[0]:.1f}"
    return f"{100 * by_seed.mean():.1f} ± {100 * by_seed.std(ddof=1):.1f}"
