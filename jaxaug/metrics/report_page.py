"""The page of `jaxaug report --html`: one self-contained file."""

import html
import math
from collections.abc import Sequence
from typing import Any

from jaxaug.core import page
from jaxaug.core.figures import new_figure
from jaxaug.core.files import PathLike, write_text
from jaxaug.metrics import dst, sensitivity, training_page
from jaxaug.metrics.bootstrap import FIGURES
from jaxaug.metrics.report import (
    COLUMNS,
    LEGEND,
    Run,
    cell,
    configurations,
    draw_bars,
    notes_on_wordings,
)
from jaxaug.metrics.statistics import (
    HEADLINE,
    Difference,
    Statistics,
    difference_cell,
    findings,
    method,
    p_cell,
)
from jaxaug.metrics.training import Training

# Long names of runs are broken, so that the tables fit a laptop's screen.
_STYLE = """
td:first-child { overflow-wrap: anywhere; min-width: 12.5em }
th, td { padding: 0.25em 0.3em }
"""


def write_page(
    path: PathLike,
    rows: Sequence[Run],
    statistics: Statistics,
    trainings: Sequence[Training] = (),
) -> None:
    """Writes tables, intervals, differences, and plots as one HTML file.

    Raises:
        UserError: matplotlib is not installed.
    """
    parts = []
    if rows:
        parts += _robustness(path, rows, statistics)
    for training in trainings:
        parts += training_page.section(path, training)
    if rows:
        parts += [
            "<h2>Definitions</h2>",
            *page.items(
                f"{name}: {text}"
                for name, text in (dst.DEFINITIONS | sensitivity.DEFINITIONS).items()
            ),
        ]
    write_text(path, page.whole("jaxaug report", parts, _STYLE + training_page.STYLE))


def _robustness(
    path: PathLike, rows: Sequence[Run], statistics: Statistics
) -> list[str]:
    bars = new_figure(path, 10, 4.5)
    main = configurations(rows)
    draw_bars(bars, main)
    parts = [
        "<h2>Robustness to the wording of the schema</h2>",
        *(page.paragraphs(method(statistics)[:1]) if statistics.groups else ()),
        *page.table(["", *COLUMNS.values()], map(_configuration, main)),
        *page.paragraphs([LEGEND, *notes_on_wordings(main)]),
        page.image(
            bars, "Joint goal accuracy of each configuration under each wording"
        ),
    ]
    if statistics.differences:
        parts += _differences(path, statistics)
    return [
        *parts,
        *page.items(statistics.notes),
        "<h2>Every run</h2>",
        *page.table(
            ["", *COLUMNS.values()],
            (
                [_name(run.name), *(cell(run, column) for column in COLUMNS)]
                for run in rows
                if run.seeds == 1
            ),
        ),
    ]


def _differences(path: PathLike, statistics: Statistics) -> list[str]:
    figure = new_figure(path, 11, 1.2 + 0.3 * len(statistics.differences))
    _draw_differences(figure, statistics)
    others = [name for name in FIGURES if name != HEADLINE]
    heading = COLUMNS[HEADLINE]
    rows = [
        [
            _name(f"{one.first} - {one.second}"),
            _difference(one, HEADLINE),
            p_cell(one.p_holm),
            *(_difference(one, name) for name in others),
        ]
        for one in statistics.differences
    ]
    heads = ["", heading, "p", *(COLUMNS[name] for name in others)]
    kinds = ["holds" if one.holds else "open" for one in statistics.differences]
    return [
        "<h2>Differences</h2>",
        *page.paragraphs(method(statistics)[1:]),
        *page.items(findings(statistics)),
        page.image(figure, f"Differences of {heading} with 95% intervals"),
        *page.table(heads, rows, kinds=kinds),
    ]


def _difference(one: Difference, figure: str) -> str:
    """Returns the difference, with its interval on a line below."""
    value, bracket, ends = difference_cell(one, figure).partition(" [")
    return page.noted(value, f"[{ends}") if bracket else value


def _draw_differences(figure: Any, statistics: Statistics) -> None:
    """Draws a line per pair: the difference of the headline figure and its interval."""
    axes = figure.subplots()
    place = FIGURES.index(HEADLINE)
    shown = statistics.differences[::-1]
    for height, one in enumerate(shown):
        value = 100 * one.interval.value[place]
        low, high = 100 * one.interval.low[place], 100 * one.interval.high[place]
        ends = None if math.isnan(low) else [[value - low], [high - value]]
        color = "tab:blue" if one.holds else "tab:gray"
        axes.errorbar(value, height, xerr=ends, fmt="o", color=color, capsize=3)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [f"{d.first} - {d.second}" for d in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel(f"difference of {COLUMNS[HEADLINE]} in points; blue: holds")
    axes.grid(axis="x", alpha=0.3)


def _configuration(run: Run) -> list[str]:
    cells: list[str] = [_name(run.name)]
    for column in COLUMNS:
        text = cell(run, column)
        low, high = run.intervals.get(column, (math.nan, math.nan))
        ends = f"{100 * low:.1f}-{100 * high:.1f}"
        cells.append(text if math.isnan(low) else page.noted(text, ends))
    return cells


def _name(text: str) -> page.Html:
    """Returns a name as HTML that may be broken after underscores."""
    return page.Html(html.escape(text).replace("_", "_<wbr>"))
