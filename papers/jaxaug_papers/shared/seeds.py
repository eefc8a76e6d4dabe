"""Means and paired differences over seeds."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxaug.metrics import student

_CONFIDENCE = 0.95


class Difference(NamedTuple):
    """The difference of two methods over the same seeds.

    Attributes:
        deviation: their sample standard deviation; NaN for one seed.
        half_width: half the width of the 95% confidence interval of the mean; NaN for
            one seed.
        p: two-tailed p-value of the paired t-test that `half_width` belongs to; NaN for
            one seed or equal methods.
    """

    mean: float
    deviation: float
    half_width: float
    wins: int
    p: float


def difference(
    ours: Float[np.ndarray, " seeds"], theirs: Float[np.ndarray, " seeds"]
) -> Difference:
    """Returns the statistics of `ours - theirs`, seed by seed."""
    values = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    number = len(values)
    spread = float(values.std(ddof=1)) if number > 1 else math.nan
    freedom = max(number - 1, 1)
    quantile = float(student.quantile(freedom, (1 + _CONFIDENCE) / 2))
    error = spread / number**0.5
    mean = float(values.mean())
    p = 2 * float(student.cdf(freedom, -abs(mean) / error)) if error > 0 else math.nan
    return Difference(mean, spread, quantile * error, int((values > 0).sum()), p)


def spread(values: Float[np.ndarray, " seeds"]) -> str:
    """Formats mean and deviation of fractions in per cent, such as `41.2 ± 0.9`."""
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    return f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f}"
