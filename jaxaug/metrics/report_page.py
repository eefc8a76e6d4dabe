"""The page of `jaxaug report --html`: one file that needs nothing else."""

import base64
import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from jaxaug.core.figures import new_figure, picture
from jaxaug.core.files import PathLike, write_text
from jaxaug.metrics import dst, sensitivity
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
    Statistics,
    difference_cell,
    findings,
    method,
    p_cell,
)

_STYLE = """
body { font-family: sans-serif; margin: 2em; max-width: 90em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #ccc; padding: 0.25em 0.6em; text-align: left }
td.number { text-align: right; white-space: nowrap }
td small { display: block; color: #555 }
tr.holds td:first-child { font-weight: bold }
img { max-width: 100% }
"""


def write_page(path: PathLike, rows: Sequence[Run], statistics: Statistics) -> None:
    """Writes tables, intervals, differences and plots as one HTML file.

    Args:
      path: the file.
      rows: of runs and of means over seeds, with intervals.
      statistics: of the same runs.

    Raises:
      UserError: matplotlib is not installed.
    """
    bars = new_figure(path, 10, 4.5)
    main = configurations(rows)
    draw_bars(bars, main)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>jaxaug report</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Robustness to the wording of the schema</h1>",
        *(_paragraphs(method(statistics)[:1]) if statistics.groups else ()),
        *_table(["", *COLUMNS.values()], (_configuration(run) for run in main)),
        *_paragraphs([LEGEND, *notes_on_wordings(main)]),
        _image(bars, "Joint goal accuracy of each configuration under each wording"),
    ]
    if statistics.differences:
        parts += _differences(path, statistics)
    parts += [
        *_list(statistics.notes),
        "<h2>Every run</h2>",
        *_table(["", *COLUMNS.values()], (_run(run) for run in rows if run.seeds == 1)),
        "<h2>Definitions</h2>",
        *_list(
            f"{name}: {text}"
            for name, text in (dst.DEFINITIONS | sensitivity.DEFINITIONS).items()
        ),
        "</body></html>",
    ]
    write_text(path, "\n".join(parts) + "\n")


def _differences(path: PathLike, statistics: Statistics) -> list[str]:
    figure = new_figure(path, 8, 1.2 + 0.3 * len(statistics.differences))
    _draw_differences(figure, statistics)
    others = [name for name in FIGURES if name != HEADLINE]
    heading = COLUMNS[HEADLINE]
    rows = []
    for one in statistics.differences:
        cells = [difference_cell(one, HEADLINE), p_cell(one.p_holm)]
        cells += [difference_cell(one, name) for name in others]
        kind = "holds" if one.holds else "open"
        rows.append(_row(kind, f"{one.first} - {one.second}", cells))
    return [
        "<h2>Differences</h2>",
        *_paragraphs(method(statistics)[1:]),
        *_list(findings(statistics)),
        _image(figure, f"Differences of {heading} with 95% intervals"),
        *_table(["", heading, "p", *(COLUMNS[name] for name in others)], rows),
    ]


def _draw_differences(figure: Any, statistics: Statistics) -> None:
    """A line for each pair: the difference of the headline figure and its interval."""
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


def _configuration(run: Run) -> str:
    cells = []
    for column in COLUMNS:
        text = html.escape(cell(run, column))
        low, high = run.intervals.get(column, (math.nan, math.nan))
        if not math.isnan(low):
            text += f"<small>{100 * low:.1f}-{100 * high:.1f}</small>"
        cells.append(text)
    return _line("mean", html.escape(run.name), cells)


def _run(run: Run) -> str:
    return _row("run", run.name, [cell(run, column) for column in COLUMNS])


def _row(kind: str, name: str, cells: Iterable[str]) -> str:
    return _line(kind, html.escape(name), [html.escape(text) for text in cells])


def _line(kind: str, name: str, cells: Iterable[str]) -> str:
    numbers = "".join(f'<td class="number">{text}</td>' for text in cells)
    return f'<tr class="{kind}"><td>{name}</td>{numbers}</tr>'


def _table(head: Iterable[str], rows: Iterable[str]) -> list[str]:
    heads = "".join(f"<th>{html.escape(text)}</th>" for text in head)
    return ["<table>", f"<tr>{heads}</tr>", *rows, "</table>"]


def _paragraphs(lines: Iterable[str]) -> list[str]:
    return [f"<p>{html.escape(line)}.</p>" for line in lines]


def _list(lines: Iterable[str]) -> list[str]:
    items = [f"<li>{html.escape(line)}</li>" for line in lines]
    return ["<ul>", *items, "</ul>"] if items else []


def _image(figure: Any, alt: str) -> str:
    data = base64.b64encode(picture(figure, "svg")).decode("ascii")
    source = f"data:image/svg+xml;base64,{data}"
    return f'<p><img src="{source}" alt="{html.escape(alt)}"></p>'
