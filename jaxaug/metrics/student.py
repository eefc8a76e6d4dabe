"""Student's t distribution, central and noncentral, for real degrees of freedom.

The central distribution is the regularized incomplete beta function, evaluated as a
continued fraction (DLMF 8.17.22). The noncentral one is an integral over the estimated
standard deviation.
"""

import functools
import math
import statistics

import numpy as np

_TINY = 1e-300
_NORMAL = statistics.NormalDist()
_NODES = 2000
_erfc = np.vectorize(math.erfc, otypes=[float])


@functools.partial(np.vectorize, otypes=[float])
def cdf(freedom: float, t: float) -> float:
    """Returns the probability of a value of at most `t`; `freedom` is positive."""
    # Both arguments of the beta function sum to 1; the smaller one keeps its digits.
    size = freedom + t * t
    a, x, rest = freedom / 2, freedom / size, t * t / size
    if x in (0, 1):
        tail = x / 2
    else:
        front = a * (math.log(x) if x < 0.5 else math.log1p(-rest))
        front += math.log(rest) / 2
        front = math.exp(front + _half_step(a) - math.lgamma(0.5))
        if x < (a + 1) / (a + 2.5):
            tail = front * _fraction(a, 0.5, x) / a / 2
        else:
            tail = 0.5 - front * _fraction(0.5, a, rest)
    return tail if t < 0 else 1 - tail


@functools.partial(np.vectorize, otypes=[float])
def quantile(freedom: float, probability: float) -> float:
    """Returns the value that is exceeded with `1 - probability`.

    Args:
        freedom: positive degrees of freedom; below 0.01 the result is infinite.
        probability: at least 0.5, below 1.
    """
    if freedom < 0.01:
        return math.inf
    # From the normal quantile, which is smaller, Newton's steps never pass the root:
    # the distribution function is concave.
    t = _NORMAL.inv_cdf(probability)
    scale = _half_step(freedom / 2) - math.log(freedom * math.pi) / 2
    for _ in range(1000):
        density = math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = (probability - float(cdf(freedom, t))) / density
        t += step
        if abs(step) <= 1e-9 * t:
            break
    return t


def noncentral_cdf(freedom: float, shift: float, t: float) -> float:
    """Returns the probability that (normal + `shift`) / (estimated deviation) <= t."""
    # The logarithm u of the deviation has a density proportional to
    # exp(freedom * (u - exp(2 u) / 2)), which both ends of the range make negligible.
    width = math.sqrt(40 / freedom)
    u = np.linspace(-width - 40 / freedom, width, _NODES)
    weights = np.exp(freedom * (u - np.expm1(2 * u) / 2))
    below = _erfc((shift - t * np.exp(u)) / math.sqrt(2)) / 2
    return float(weights @ below / weights.sum())


def _half_step(a: float) -> float:
    """Returns the difference of the logarithms of gamma(a + 1/2) and gamma(a)."""
    if a < 1000:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    # The difference of two large numbers has no digits left (DLMF 5.11.13).
    return math.log(a) / 2 - 1 / (8 * a) + 1 / (192 * a**3)


def _fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction of the incomplete beta function (Lentz)."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    value = d
    for m in range(1, 100_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or _TINY)
            c = 1 + term / c or _TINY
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value
