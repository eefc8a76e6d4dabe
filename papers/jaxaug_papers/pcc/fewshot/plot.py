"""Learning curves and schedules of a few-shot experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxaug.core.figures import label, new_figure, write_figure
from jaxaug.core.files import PathLike
from jaxaug.curriculum.schedule import Schedule
from jaxaug_papers.pcc.fewshot.config import Table
from jaxaug_papers.pcc.fewshot.tables import Result

_LINE = "{name}: {steps} updates, {stages}"


def schedule_line(name: str, schedule: Schedule) -> str:
    """Returns the stages of a schedule in one line, such as `0 x200, 1 x200`.

    A stage with one level is named by the level, even if it has originals. Other stages
    are named by their levels and weights.
    """
    starts = (0, *schedule.ends[:-1])
    stages = []
    for start, end, weights in zip(
        starts, schedule.ends, schedule.weights, strict=True
    ):
        used = [level for level, weight in enumerate(weights) if weight > 0]
        main = [level for level in used if level] or used
        if len(main) == 1:
            shown = str(main[0])
        else:
            shares = (f"{level}: {weights[level]:.2g}" for level in used)
            shown = f"({', '.join(shares)})"
        stages.append(f"{shown} x{end - start}")
    return _LINE.format(name=name, steps=schedule.steps, stages=", ".join(stages))


def by_schedule(schedules: Mapping[str, Schedule]) -> dict[Schedule, list[str]]:
    """Returns each distinct schedule with the names of the methods that have it."""
    found: dict[Schedule, list[str]] = {}
    for name, schedule in schedules.items():
        found.setdefault(schedule, []).append(name)
    return found


def write_curves(
    path: PathLike, tables: Sequence[Table], results: Mapping[str, Result]
) -> None:
    """Plots test accuracy against updates, one panel per table, dashed baseline.

    Raises:
        UserError: matplotlib is not installed.
    """
    figure = new_figure(path, 9, 0.5 + 4 * max(len(tables), 1))
    panels = figure.subplots(max(len(tables), 1), 1, squeeze=False)[:, 0]
    for axes, table in zip(panels, tables, strict=False):
        found = [results[name] for name in table.rows if name in results]
        for place, result in enumerate(found):
            style = "--" if result.name == table.reference else "-"
            _draw(axes, result, f"C{place % 10}", style)
        axes.set_xlabel("update")
        axes.set_ylabel("accuracy (%)")
        axes.set_title(table.title, fontsize=9)
        if found:
            axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    write_figure(path, figure)


def _draw(axes: Any, result: Result, color: str, style: str) -> None:
    updates = [point.updates for point in result.curve]
    values = 100 * np.array([point.accuracy for point in result.curve])
    mean = values.mean(axis=1)
    # A single point has no line.
    marker = "o" if len(updates) == 1 else None
    text = label(f"{result.name}: {mean[-1]:.1f}")
    axes.plot(updates, mean, style, color=color, label=text, marker=marker)
    if values.shape[1] > 1:
        spread = values.std(axis=1, ddof=1)
        low, high = mean - spread, mean + spread
        axes.fill_between(updates, low, high, color=color, alpha=0.08, lw=0)
