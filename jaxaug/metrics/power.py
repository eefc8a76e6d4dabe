"""Planning of comparisons: the differences that seeds and dialogues can show.

The variance of a difference over K seeds and D dialogues is taken as

    (variance between seeds) / K + (variance between dialogues) / D

with both variances from finished runs (`bootstrap.Variances`). The power is the
probability that the two-sided test of `jaxaug report` excludes 0, by the noncentral t
distribution with Satterthwaite's degrees of freedom.
"""

import math
from collections.abc import Callable

import numpy as np

from jaxaug.core.columns import aligned
from jaxaug.metrics import student
from jaxaug.metrics.bootstrap import FIGURES, LEVEL, Variances
from jaxaug.metrics.report import COLUMNS
from jaxaug.metrics.statistics import HEADLINE, Difference, Statistics

POWER = 0.8
POINTS = (1.0, 2.0, 5.0)
_MOST_SEEDS, _MOST_DIALOGUES = 1000, 10_000_000


def power(
    difference: float, figure: str, variances: Variances, seeds: int, dialogues: float
) -> float:
    """Returns the probability of showing a true difference, in its direction."""
    place = FIGURES.index(figure)
    parts: list[tuple[float, float]] = [
        (float(part[place]) / seeds, seeds - 1) for part in variances.seeds
    ]
    parts.append((float(variances.dialogues[place]) / dialogues, dialogues - 1))
    total = sum(part for part, _ in parts)
    if total == 0:
        return float(difference > 0)
    below = sum(part**2 / max(degrees, 1e-9) for part, degrees in parts)
    freedom = total**2 / below
    critical = float(student.quantile(freedom, (1 + LEVEL) / 2))
    shift = difference / math.sqrt(total)
    return 1 - student.noncentral_cdf(freedom, shift, critical)


def smallest_difference(
    figure: str, variances: Variances, seeds: int, dialogues: float
) -> float:
    """Returns the smallest difference that is shown with probability `POWER`."""
    low, high = 0.0, 2.0
    if power(high, figure, variances, seeds, dialogues) < POWER:
        return math.nan
    for _ in range(40):
        middle = (low + high) / 2
        if power(middle, figure, variances, seeds, dialogues) < POWER:
            low = middle
        else:
            high = middle
    return high


def seeds_for(
    difference: float, figure: str, variances: Variances, dialogues: float
) -> int | None:
    """Returns how many seeds show a difference with `POWER`; None over 1,000."""
    return _first(
        lambda n: power(difference, figure, variances, n, dialogues), _MOST_SEEDS
    )


def dialogues_for(
    difference: float, figure: str, variances: Variances, seeds: int
) -> int | None:
    """Returns how many dialogues show a difference; None over 10 million."""
    return _first(
        lambda n: power(difference, figure, variances, seeds, n), _MOST_DIALOGUES
    )


def _first(power_of: Callable[[int], float], most: int) -> int | None:
    """Returns the smallest number with `POWER`, to 2%.

    There is no bisection: with few seeds, more dialogues can cost degrees of freedom.
    """
    number = 2
    while number <= most:
        if power_of(number) >= POWER:
            return number
        number = max(number + 1, int(number * 1.02))
    return None


def text_power(statistics: Statistics) -> str:
    """Returns a table for each pair of configurations, or why there is none."""
    if not statistics.differences:
        return "power: name the runs of at least two configurations."
    rows = [["", "seeds", "dialogues", "shows from"]]
    rows[0] += [f"{points:g} points need" for points in POINTS]
    for one in statistics.differences:
        rows.append([f"{one.first} - {one.second}", *_cells(one)])
    lines = [
        "",
        f"power: differences in {COLUMNS[HEADLINE]} that a comparison like this one",
        f"shows with probability {POWER:.0%}, without correction for several pairs:",
        aligned(rows),
        "seeds: of each configuration, with the dialogues at hand",
        "dialogues: with the seeds at hand",
    ]
    if not all(one.variances.seeds for one in statistics.differences):
        lines.append("one seed: its variance is unknown and counts as none")
    return "\n".join(lines)


def _cells(one: Difference) -> list[str]:
    place = FIGURES.index(HEADLINE)
    number = float(one.variances.number[place])
    if number < 2 or np.isnan(one.interval.value[place]):
        return ["NA"] * (3 + len(POINTS))
    found = smallest_difference(HEADLINE, one.variances, one.seeds, number)
    cells = [str(one.seeds), f"{number:.0f}"]
    cells.append("NA" if math.isnan(found) else f"{100 * found:.1f} points")
    for points in POINTS:
        seeds = seeds_for(points / 100, HEADLINE, one.variances, number)
        more = dialogues_for(points / 100, HEADLINE, one.variances, one.seeds)
        words = ["-" if n is None else f"{n:,}" for n in (seeds, more)]
        cells.append(f"{words[0]} seeds or {words[1]} dialogues")
    return cells
