"""Significant differences between configurations: intervals, pairs, Holm correction."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxaug.core.columns import aligned, as_csv
from jaxaug.core.errors import UserError
from jaxaug.metrics.bootstrap import (
    FIGURES,
    RESAMPLES,
    Bootstrap,
    Figures,
    Group,
    Interval,
    Variances,
    holm,
)
from jaxaug.metrics.frames import FrameTable
from jaxaug.metrics.report import COLUMNS, Run, mean_name, split_seed

HEADLINE = "jga_v1_5"
ALPHA = 0.05
# Figures of the printed table of differences; the page and the CSV have all.
_SHOWN = ("jga_orig", "jga_v1_5_seen", "jga_v1_5_unseen", "ss_jga")
_HEADLINE = FIGURES.index(HEADLINE)
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference `first` - `second`.

    Attributes:
        corrected: p-value of each figure, corrected for the number of pairs (Holm).
        variances: sources of the variance of each figure.
        seeds: number of seeds; the smaller one of the two configurations.
    """

    first: str
    second: str
    interval: Interval
    corrected: Figures
    variances: Variances
    seeds: int

    @property
    def p_holm(self) -> float:
        """The corrected p-value of the headline figure."""
        return float(self.corrected[_HEADLINE])

    @property
    def holds(self) -> bool:
        """True if the headline figure differs, with the correction."""
        return self.p_holm < ALPHA


@dataclass(frozen=True, slots=True)
class Statistics:
    """Intervals of configurations, differences of all pairs, and notes on them."""

    groups: Sequence[Group]
    intervals: Sequence[Interval]
    differences: Sequence[Difference]
    resamples: int
    dialogues: int
    notes: Sequence[str]


def statistics_of(
    runs: Sequence[Run],
    resamples: int = RESAMPLES,
    seed: int = 0,
    bootstrap: type[Bootstrap] = Bootstrap,
) -> Statistics:
    """Computes statistics of the configurations whose runs all have frame scores.

    Configurations and pairs are in the order of `runs`; a note names the others.

    Raises:
        UserError: two runs were evaluated on different test sets, a run is given twice,
            or the frame scores of a run do not match its report.
    """
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(split_seed(run.name)[0], []).append(run)
    chosen = [group for group in members.values() if all(run.frames for run in group)]
    notes = _lacking(members) + [
        f"{split_seed(group[0].name)[0]}: one seed; its intervals cover the choice of "
        "dialogues, not that of the seed"
        for group in chosen
        if len(group) == 1
    ]
    if not chosen:
        return Statistics((), (), (), resamples, 0, notes)
    ordered = [run for group in chosen for run in sorted(group, key=_seed)]
    groups = _groups(ordered)
    boot = bootstrap.of_frames(_tables(ordered), resamples, seed)
    _check_figures(ordered, boot)
    if boot.dialogues < 2:
        notes.append(
            f"no intervals from {boot.dialogues} dialogue: at least 2 are needed"
        )
    pairs = list(itertools.combinations(groups, 2))
    intervals = [boot.difference(first, second) for first, second in pairs]
    each = np.array([one.p for one in intervals]).reshape(-1, len(FIGURES)).T
    corrected = np.array([holm(p) for p in each]).T
    return Statistics(
        groups,
        [boot.interval(group) for group in groups],
        [
            Difference(
                first.name,
                second.name,
                interval,
                p,
                boot.variances(first, second),
                min(len(first.runs), len(second.runs)),
            )
            for (first, second), interval, p in zip(
                pairs, intervals, corrected, strict=True
            )
        ],
        resamples,
        boot.dialogues,
        notes,
    )


def _lacking(members: Mapping[str, Sequence[Run]]) -> list[str]:
    """Returns a note on the configurations that have runs without frame scores."""
    names = [n for n, group in members.items() if not all(run.frames for run in group)]
    if not names:
        return []
    first = next(run for run in members[names[0]] if run.frames is None)
    return [
        (
            f"no intervals for {', '.join(names)}: {first.place or first.name} has no "
            "scores of frames beside it. Evaluate the run again, or score its "
            "predictions with "
            "`jaxaug evaluate sgdx` and report the JSON that this writes"
        )
    ]


def _seed(run: Run) -> tuple[int, str]:
    label = split_seed(run.name)[1]
    return len(label), label


def _groups(runs: Sequence[Run]) -> list[Group]:
    """Groups adjacent runs of one configuration, with ascending seeds."""
    result = []
    places = range(len(runs))
    for name, part in itertools.groupby(places, lambda n: split_seed(runs[n].name)[0]):
        indices = tuple(part)
        seeds = tuple(split_seed(runs[index].name)[1] for index in indices)
        for index, (one, two) in enumerate(itertools.pairwise(seeds)):
            if one == two:
                first, second = runs[indices[index]], runs[indices[index + 1]]
                raise UserError(
                    f"{first.place} and {second.place} are both {second.name!r}: seeds "
                    "of one configuration would be counted twice. Give each run once, "
                    "and other runs another name."
                )
        result.append(Group(name, indices, seeds))
    return result


def _tables(runs: Sequence[Run]) -> list[FrameTable]:
    tables = []
    for run in runs:
        assert run.frames is not None
        problem = runs[0].frames.difference(run.frames) if runs[0].frames else None
        if problem:
            raise UserError(
                f"{runs[0].place} and {run.place} were evaluated on different test "
                f"sets ({problem}). Compare runs that scored the same frames, or "
                "report these apart."
            )
        if run.rules != runs[0].rules:
            raise UserError(
                f"{runs[0].place} was scored {_scored(runs[0])} and {run.place} "
                f"{_scored(run)}. Compare runs that were scored by the same rules, or "
                "report these apart."
            )
        tables.append(run.frames)
    return tables


def _check_figures(runs: Sequence[Run], boot: Bootstrap) -> None:
    for run, values in zip(runs, boot.values.tolist(), strict=True):
        for figure, value in zip(FIGURES, values, strict=True):
            stored = run.figures[figure]
            if not (
                math.isnan(stored) and math.isnan(value) or abs(stored - value) < _CLOSE
            ):
                raise UserError(
                    f"{run.place}: {figure} is {stored}, but the scores of frames "
                    f"next to it give {value}. They come from different evaluations. "
                    "Evaluate the run again."
                )


def _scored(run: Run) -> str:
    chosen = [f"--{rule}" for rule, is_on in run.rules.items() if is_on]
    return f"with {' and '.join(chosen)}" if chosen else "by default"


def with_intervals(rows: Sequence[Run], statistics: Statistics) -> list[Run]:
    """Returns the rows; the row of each configuration gets its intervals."""
    ends = {}
    for group, interval in zip(statistics.groups, statistics.intervals, strict=True):
        size = len(group.runs)
        pairs = zip(interval.low.tolist(), interval.high.tolist(), strict=True)
        ends[mean_name(group.name, size) if size > 1 else group.name] = dict(
            zip(FIGURES, pairs, strict=True)
        )
    return [
        replace(
            row,
            intervals=ends.get(
                row.name if row.seeds > 1 else split_seed(row.name)[0], {}
            ),
        )
        for row in rows
    ]


def interval_cell(interval: Interval, figure: str) -> str:
    """Returns the ends of an interval, in per cent."""
    place = FIGURES.index(figure)
    low, high = 100 * interval.low[place], 100 * interval.high[place]
    return "NA" if math.isnan(low) else f"{low:.1f}-{high:.1f}"


def difference_cell(difference: Difference, figure: str) -> str:
    """Returns the difference with its ends, in points; a star if it holds."""
    place, one = FIGURES.index(figure), difference.interval
    if math.isnan(one.value[place]):
        return "NA"
    value = f"{100 * one.value[place]:+.1f}"
    if math.isnan(one.low[place]):
        return value
    star = "*" if difference.corrected[place] < ALPHA else ""
    return f"{value} [{100 * one.low[place]:.1f}, {100 * one.high[place]:.1f}]{star}"


def p_cell(p: float) -> str:
    """Returns a p-value as text; small ones as a bound."""
    if math.isnan(p):
        return "NA"
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def method(statistics: Statistics) -> list[str]:
    """Returns sentences that explain the numbers."""
    pairs = len(statistics.differences)
    lines = [
        (
            f"95% intervals from {statistics.resamples:,} resamples of the "
            f"{statistics.dialogues:,} dialogues, the same for every run, and of the "
            f"seeds"
        )
    ]
    if pairs:
        heading = COLUMNS[HEADLINE]
        corrected = f", corrected for {pairs} pairs (Holm)" if pairs > 1 else ""
        lines.append(
            f"differences in points; p is of {heading}{corrected}, and a difference "
            "holds where p is below "
            f"{ALPHA}; *: the difference of this column holds in the same way"
        )
    return lines


def findings(statistics: Statistics) -> list[str]:
    """Returns a sentence per pair: the better one first, or no difference shown."""
    lines = []
    for one in statistics.differences:
        value, p = float(one.interval.value[_HEADLINE]), p_cell(one.p_holm)
        if math.isnan(one.p_holm):
            lines.append(f"undefined: {one.first} and {one.second}")
        elif one.holds:
            names = (one.first, one.second) if value > 0 else (one.second, one.first)
            alone = " for these seeds alone" if one.seeds == 1 else ""
            lines.append(f"holds{alone}: {names[0]} > {names[1]} (p {p})")
        else:
            lines.append(f"not shown: {one.first} and {one.second} differ (p {p})")
    return lines


def text_tables(statistics: Statistics) -> str:
    """Returns intervals and differences as text, or the reason why there are none."""
    notes = [f"note: {note}" for note in statistics.notes]
    if not statistics.groups:
        return "\n".join(notes)
    sentences = method(statistics)
    rows = [["", *COLUMNS.values()]]
    for group, interval in zip(statistics.groups, statistics.intervals, strict=True):
        cells = [interval_cell(interval, figure) for figure in COLUMNS]
        count = len(group.runs)
        rows.append([f"{group.name} ({count} seed{'s' * (count > 1)})", *cells])
    parts = ["", f"{sentences[0]}:", aligned(rows)]
    if statistics.differences:
        rows = [["", COLUMNS[HEADLINE], "p", *(COLUMNS[name] for name in _SHOWN)]]
        for one in statistics.differences:
            cells = [difference_cell(one, HEADLINE), p_cell(one.p_holm)]
            cells += [difference_cell(one, figure) for figure in _SHOWN]
            rows.append([f"{one.first} - {one.second}", *cells])
        parts += ["", f"{sentences[1]}:", aligned(rows), "", *findings(statistics)]
    return "\n".join([*parts, *notes])


def differences_csv(statistics: Statistics) -> str:
    """Returns CSV with a line per pair and figure; fractions, empty if undefined."""
    rows: list[list[Any]] = [
        ["first", "second", "figure", "difference", "low", "high", "p", "p_holm"]
    ]
    for one in statistics.differences:
        found = one.interval
        parts = (found.value, found.low, found.high, found.p, one.corrected)
        for place, figure in enumerate(FIGURES):
            cells = [float(part[place]) for part in parts]
            rows.append([one.first, one.second, figure, *cells])
    return as_csv(rows)
