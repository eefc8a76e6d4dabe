"""Confidence intervals of figures by a paired bootstrap over dialogues and seeds.

A resample draws the dialogues of the test set with replacement. All runs share the
draw, so the difficulty of a dialogue cancels in differences. The frames of a dialogue
stay together. A resample also draws the seeds of a configuration, K - 1 out of K. The
variance of their mean is then unbiased; with K draws it would be (K - 1) / K of the
true value (Rao and Wu, 1988). Configurations with the same seeds share that draw.

An interval is the figure ± t times the standard deviation over resamples. With five
seeds or fewer, percentiles are too narrow. t has the degrees of freedom of
Satterthwaite (1946) for the variance parts of seeds and dialogues; dialogues that do
not define a figure do not count. If seeds and dialogues interact, resampling both
counts that part more than once (Owen, 2007). Such intervals are too wide rather than
too narrow.

Without variation, resamples carry no information. The interval then allows for
dialogues of another kind that the sample may have missed: a share of 1 - 0.025^(1/n)
(Clopper and Pearson, 1934, for no success), at the lowest or highest possible value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxaug.core.columns import percent
from jaxaug.metrics import student
from jaxaug.metrics.frames import FrameTable
from jaxaug.metrics.sensitivity import VARIANTS, coefficient_of_variation

FIGURES = (
    "jga_orig",
    *VARIANTS,
    "jga_v1_5",
    "jga_v1_5_seen",
    "jga_v1_5_unseen",
    "ss_jga",
    "ss_jga_all_frames",
)
RESAMPLES = 10_000
LEVEL = 0.95
_K = len(VARIANTS)
# Dialogues x resamples per chunk: 16 MiB for each of a few arrays.
_CHUNK = 1 << 21
# Smaller numbers are rounding errors of equal values.
_NOTHING = 1e-12

Figures = Float[np.ndarray, " figures"]


class Figure(NamedTuple):
    """A figure with its 95% interval, as fractions; None if undefined."""

    value: float | None
    low: float | None
    high: float | None

    @property
    def points(self) -> str:
        """The figure with its interval, in points."""
        ends = [percent(end) for end in self[1:] if end is not None]
        value = percent(self.value)
        return f"{value} [{', '.join(ends)}]" if ends else value


class Group(NamedTuple):
    """The runs of one configuration, which differ in their seeds."""

    name: str
    runs: tuple[int, ...]  # Indices of the runs.
    seeds: tuple[str, ...]  # Seeds of the runs; equal seeds of two groups are paired.


@dataclass(frozen=True, eq=False)
class Interval:
    """Figures with their 95% intervals; NaN if undefined.

    Attributes:
        value: a mean over seeds, or the difference of two means.
        low, high: ends of the interval; NaN if fewer than two dialogues define a
            figure.
        p: two-sided p-value for a difference from 0; below 0.05 if the interval
            excludes 0.
    """

    value: Figures
    low: Figures
    high: Figures
    p: Figures


class Variances(NamedTuple):
    """Sources of the variance of a difference between two configurations.

    Attributes:
        seeds: variance between seeds of each figure: one part if the seeds are paired,
            else one part for each configuration; empty if either has one seed.
        dialogues: variance between dialogues of each figure.
        number: number of dialogues that define each figure.
    """

    seeds: tuple[Figures, ...]
    dialogues: Figures
    number: Int[np.ndarray, " figures"]


def dialogue_sums(
    table: FrameTable,
) -> tuple[Float[np.ndarray, "means dialogues"], Float[np.ndarray, "means dialogues"]]:
    """Returns sums and counts per dialogue for the means in the figures.

    The means are: JGA under the original and v1..v5; JGA under v1..v5 for seen and for
    unseen services; the variation over v1..v5; and the variation with always-wrong
    frames as 0.
    """
    whole, seen, unseen = table.scores
    # As in the report, only evaluated variants count.
    variants = whole[1:][~np.isnan(whole[1:]).all(axis=1)]
    always_wrong = (variants == 0).all(axis=0)
    if len(variants) > 1:
        variation = coefficient_of_variation(variants)
    else:
        variation, always_wrong = np.full(whole.shape[1], np.nan), np.False_
    values = np.concatenate(
        [
            whole,
            seen[1:],
            unseen[1:],
            variation[None],
            np.where(always_wrong, 0.0, variation)[None],
        ]
    )
    defined = ~np.isnan(values)
    size = len(table.dialogues)
    sums = [
        np.bincount(table.dialogue, weights, minlength=size)
        for weights in np.where(defined, values, 0.0)
    ]
    counts = [
        np.bincount(table.dialogue, weights, minlength=size)
        for weights in defined.astype(float)
    ]
    return np.array(sums, float), np.array(counts, float)


def figures_of(
    sums: Float[np.ndarray, "*batch means"], counts: Float[np.ndarray, "*batch means"]
) -> Float[np.ndarray, "*batch figures"]:
    """Returns the figures of a report from sums and counts over dialogues."""
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    start = 1
    over_variants = []
    for _ in range(3):
        part = means[..., start : start + _K]
        defined = ~np.isnan(part)
        number = defined.sum(axis=-1)
        total = np.where(defined, part, 0.0).sum(axis=-1)
        over_variants.append(
            np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)
        )
        start += _K
    return np.concatenate(
        [means[..., : 1 + _K], np.stack(over_variants, axis=-1), means[..., start:]],
        axis=-1,
    )


class Bootstrap:
    """Resampled figures of runs on one test set."""

    values: Float[np.ndarray, "runs figures"]

    def __init__(
        self,
        sums: Float[np.ndarray, "runs means dialogues"],
        counts: Float[np.ndarray, "runs means dialogues"],
        figures: Callable[[np.ndarray, np.ndarray], np.ndarray],
        highest: float | Figures = np.inf,
        resamples: int = RESAMPLES,
        seed: int = 0,
        chunk: int = _CHUNK,
    ):
        """Draws the dialogues.

        Args:
            sums, counts: sums and counts per dialogue for the means in the figures.
            figures: function from sums and counts over dialogues, (*batch, means), to
                figures, (*batch, figures).
            highest: maximum of each figure; the minimum is 0.
            chunk: maximum dialogues x resamples in memory; affects only rounding.
        """
        self.resamples, self._seed = resamples, seed
        self._figures, self._highest = figures, highest
        self.dialogues = sums.shape[-1]
        self.values = figures(sums.sum(axis=-1), counts.sum(axis=-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            each = figures(np.moveaxis(sums, -1, 0), np.moveaxis(counts, -1, 0))
        # Number of dialogues that define each figure, per run.
        self._defining = (~np.isnan(each)).sum(axis=0)
        self._draws = np.empty((resamples, *self.values.shape))
        if self.dialogues:
            self._draw(sums, counts, max(1, chunk // self.dialogues))
        self._picked: dict[tuple[str, ...], Float[np.ndarray, "resamples seeds"]] = {}

    @classmethod
    def of_frames(
        cls,
        tables: Sequence[FrameTable],
        resamples: int = RESAMPLES,
        seed: int = 0,
        chunk: int = _CHUNK,
    ) -> "Bootstrap":
        """Creates a bootstrap of `FIGURES`."""
        parts = [dialogue_sums(table) for table in tables]
        sums = np.array([part[0] for part in parts])
        counts = np.array([part[1] for part in parts])
        highest = [math.sqrt(_K) if name.startswith("ss_") else 1.0 for name in FIGURES]
        return cls(sums, counts, figures_of, np.array(highest), resamples, seed, chunk)

    def _draw(
        self,
        sums: Float[np.ndarray, "runs means dialogues"],
        counts: Float[np.ndarray, "runs means dialogues"],
        rows: int,
    ) -> None:
        """Fills `_draws`, `rows` resamples at a time."""
        runs, means, size = sums.shape
        # Runs share most counts, because the frames with slots are the same.
        distinct, place = np.unique(
            counts.reshape(-1, size), axis=0, return_inverse=True
        )
        columns = np.concatenate([sums.reshape(-1, size), distinct]).T.copy()
        rng = np.random.default_rng(self._seed)
        for start in range(0, self.resamples, rows):
            number = min(rows, self.resamples - start)
            drawn = rng.integers(0, size, (number, size))
            drawn += size * np.arange(number)[:, None]
            often = np.bincount(drawn.ravel(), minlength=number * size)
            totals = often.reshape(number, size).astype(float) @ columns
            self._draws[start : start + number] = self._figures(
                totals[:, : runs * means].reshape(number, runs, means),
                totals[:, runs * means :][:, place.ravel()].reshape(
                    number, runs, means
                ),
            )

    def _weights(self, seeds: tuple[str, ...]) -> Float[np.ndarray, "resamples seeds"]:
        """Returns the weight of each seed per resample; K - 1 of K seeds are drawn."""
        if seeds not in self._picked:
            rng = np.random.default_rng([self._seed, 1 + len(self._picked)])
            size, number = len(seeds), max(1, len(seeds) - 1)
            drawn = rng.integers(0, size, (self.resamples, number))
            self._picked[seeds] = (drawn[..., None] == np.arange(size)).mean(axis=1)
        return self._picked[seeds]

    def _resampled(self, group: Group) -> Float[np.ndarray, "resamples figures"]:
        draws = self._draws[:, list(group.runs)]
        return np.einsum("bk,bkf->bf", self._weights(group.seeds), draws)

    def _seed_parts(self, *groups: Group) -> list[tuple[Figures, Any]]:
        """Returns the variance that seeds cause, and its degrees of freedom."""
        values = [self.values[list(group.runs)] for group in groups]
        if len(groups) == 2 and groups[0].seeds == groups[1].seeds:
            values = [values[0] - values[1]]
        return [
            (value.var(axis=0, ddof=1) / len(value), len(value) - 1)
            for value in values
            if len(value) > 1
        ]

    def interval(self, group: Group) -> Interval:
        """Returns the mean over the seeds of a configuration, with an interval.

        The ends of the interval are clipped to possible values.
        """
        runs = list(group.runs)
        result = self._interval(
            self.values[runs].mean(axis=0),
            self._resampled(group),
            self._draws[:, runs].mean(axis=1),
            self._seed_parts(group),
            self._defining[runs].min(axis=0),
            lowest=0.0,
        )
        np.clip(result.low, 0.0, None, out=result.low)
        np.clip(result.high, None, self._highest, out=result.high)
        return result

    def difference(self, first: Group, second: Group) -> Interval:
        """Returns `first` - `second`, paired by dialogue and, with equal seeds, by
        seed.
        """
        one, other = list(first.runs), list(second.runs)
        return self._interval(
            self.values[one].mean(axis=0) - self.values[other].mean(axis=0),
            self._resampled(first) - self._resampled(second),
            self._draws[:, one].mean(axis=1) - self._draws[:, other].mean(axis=1),
            self._seed_parts(first, second),
            self._defining[one + other].min(axis=0),
            lowest=-np.asarray(self._highest),
        )

    def variances(self, first: Group, second: Group) -> Variances:
        """Returns the sources of the variance of `difference`."""
        one, other = list(first.runs), list(second.runs)
        parts = self._seed_parts(first, second)
        known = len(one) > 1 and len(other) > 1
        between = self._draws[:, one].mean(axis=1) - self._draws[:, other].mean(axis=1)
        number = self._defining[one + other].min(axis=0)
        return Variances(
            tuple(part * (degrees + 1) for part, degrees in parts) if known else (),
            _deviation(between) ** 2 * number,
            number,
        )

    def _interval(
        self,
        value: Figures,
        resampled: Float[np.ndarray, "resamples figures"],
        of_dialogues: Float[np.ndarray, "resamples figures"],
        parts: Sequence[tuple[Figures, Any]],
        number: Int[np.ndarray, " figures"],
        lowest: float | Figures,
    ) -> Interval:
        if self.dialogues < 2:
            nothing = np.full_like(value, np.nan)
            return Interval(value, nothing, nothing.copy(), nothing.copy())
        error = _deviation(resampled)
        parts = [*parts, (_deviation(of_dialogues) ** 2, np.maximum(number - 1, 1))]
        total = sum(part for part, _ in parts)
        below = sum(part**2 / degrees for part, degrees in parts)
        some = error > 0
        freedom = np.divide(
            total**2, below, out=np.ones_like(value), where=some & (below > 0)
        )
        half = student.quantile(freedom, (1 + LEVEL) / 2) * error
        size = np.abs(value)
        ratio = np.divide(size, error, out=np.zeros_like(value), where=some)
        missed = 1 - ((1 - LEVEL) / 2) ** (1 / np.maximum(number, 1))
        low = np.where(some, value - half, value - missed * (value - lowest))
        high = np.where(some, value + half, value + missed * (self._highest - value))
        p = np.where(
            some,
            2 * student.cdf(freedom, -ratio),
            np.minimum(1, 2 * (1 - size / (size + self._highest)) ** number),
        )
        p[size < _NOTHING] = 1.0
        for part in (low, high, p):
            part[np.isnan(value) | (number < 2)] = np.nan
        return Interval(value, low, high, p)


def _deviation(draws: Float[np.ndarray, "resamples figures"]) -> Figures:
    """Returns the standard deviation (ddof 1) of the resamples that define a figure."""
    defined = ~np.isnan(draws)
    number = defined.sum(axis=0)
    filled = np.where(defined, draws, 0.0)
    mean = filled.sum(axis=0) / np.maximum(number, 1)
    squares = np.where(defined, (filled - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.sqrt(squares / np.maximum(number - 1, 1))
    deviation[deviation < _NOTHING] = 0.0
    return deviation


def paired(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    clusters: Int[np.ndarray, " cases"],
) -> Figure:
    """Returns the mean of `first` - `second`, paired by case, with its 95% interval.

    Args:
        first, second: a number from 0 to 1 for each case, at least one.
        clusters: cluster of each case, numbered from 0; clusters are resampled.
    """
    sums = np.array([[np.bincount(clusters, row)] for row in (first, second)])
    counts = np.array([[np.bincount(clusters)]] * 2, float)
    found = Bootstrap(sums, counts, lambda s, c: s / c, 1.0)
    change = found.difference(Group("", (0,), ("",)), Group("", (1,), ("",)))
    ends = (None if np.isnan(n[0]) else float(n[0]) for n in (change.low, change.high))
    return Figure(float(change.value[0]), *ends)


def holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """Corrects p-values for their number (Holm, 1979); NaN entries are not tests.

    Corrected p-values below 0.05 keep the probability of any false difference among all
    of them below 5%.
    """
    result = np.full_like(p, np.nan)
    order = [index for index in np.argsort(p, kind="stable") if not np.isnan(p[index])]
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * float(p[index])))
        result[index] = highest
    return result
