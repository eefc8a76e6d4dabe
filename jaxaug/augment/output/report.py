"""`report.html`, `report.csv`, and `report.png`: a comparison of schemes."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from jaxaug.augment.judge.measures import Metric
from jaxaug.augment.output import comparison
from jaxaug.augment.output.comparison import MEAN, Row, Texts
from jaxaug.core import page
from jaxaug.core.errors import UserError
from jaxaug.core.figures import can_draw, label, new_figure, write_figure
from jaxaug.core.files import PathLike, write_text

PAGE, TABLE, PICTURE = "report.html", "report.csv", "report.png"
SAMPLES = 20
_COLUMNS = 4  # panels next to each other

_STYLE = """
tr.mean td { font-weight: bold }
td.same { color: #767676 }
"""


def files() -> tuple[str, ...]:
    """Returns the names of the files; without matplotlib there is no picture."""
    return (PAGE, TABLE, PICTURE) if can_draw() else (PAGE, TABLE)


def write(
    out: PathLike,
    schemes: Mapping[str, PathLike],
    data_dir: PathLike,
    splits: Sequence[str],
    metrics: Mapping[str, Metric],
    samples: int = SAMPLES,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> str:
    """Compares variants of a schema and writes the files of a report.

    Args:
        out: folder of the report.
        schemes: name -> folder with `v1..vK/<split>/schema.json`, such as this run,
            EDA, and SGD-X; in the order of the table.
        data_dir: folder of the original schemas.
        splits: splits that share one table.
        metrics: columns, by name; see `jaxaug.augment.judge.measures`. The name of a
            metric must say what it measures: `similarity` is not `entailment`.
        samples: number of descriptions that are shown with their variants.
        seed: seed of the samples.
        notes: lines above the table that explain its content.

    Returns:
        The table, to be printed.

    Raises:
        UserError: a schema is missing or wrong, or a metric is not finite.
    """
    if not schemes or not metrics:
        raise UserError("nothing to report: name at least one scheme and one metric.")
    folder = epath.Path(out)
    found = [
        comparison.read(name, path, data_dir, splits) for name, path in schemes.items()
    ]
    rows = [row for texts in found for row in comparison.rows(texts, metrics)]
    chosen = _chosen(len(found[0].originals), samples, seed)
    write_text(folder / TABLE, comparison.csv_table(rows))
    if PICTURE in files():
        picture = folder / PICTURE
        write_figure(picture, _drawn(picture, rows))
    write_text(folder / PAGE, _page(rows, found, chosen, splits, notes))
    return "\n".join([*notes, comparison.text_table(rows)])


def _chosen(count: int, samples: int, seed: int) -> list[int]:
    """Returns indices drawn without replacement, in the order of the schema."""
    rng = np.random.default_rng(seed)
    return sorted(rng.permutation(count)[:samples].tolist())


def _drawn(path: PathLike, rows: Sequence[Row]) -> Any:
    """Draws one panel per metric: its value over the variants, one line per scheme."""
    names = list(rows[0].figures)
    columns = min(_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(path, 3.2 * columns, 3.6 * lines)
    panels = [*figure.subplots(lines, columns, squeeze=False).flat]
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, names, strict=False):
        for scheme in dict.fromkeys(row.scheme for row in rows):
            own = [r for r in rows if r.scheme == scheme and r.variant != MEAN]
            axes.plot(
                [row.variant for row in own],
                [100 * row.figures[name] for row in own],
                marker="o",
                label=label(scheme),
            )
        axes.set_title(comparison.heading(name), fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("mean over descriptions x 100")
    panels[0].legend(fontsize=8)
    return figure


def _page(
    rows: Sequence[Row],
    schemes: Sequence[Texts],
    places: Sequence[int],
    splits: Sequence[str],
    notes: Sequence[str],
) -> str:
    names = list(rows[0].figures)
    title = f"Schema variants of {', '.join(splits)}"
    head = ["scheme", "variant", "texts", "unchanged", *map(comparison.heading, names)]
    parts = [
        page.head(title, _STYLE),
        f"<h1>{_safe(title)}</h1>",
        *(f"<p>{_safe(note)}</p>" for note in notes),
        "<table>",
        _line("th", head),
        *map(_row, rows),
        "</table>",
        "<ul>",
        *(f"<li>{_safe(line)}</li>" for line in comparison.legend(names)),
        "</ul>",
        *(f'<img src="{p}" alt="The figures of the table">' for p in files()[2:]),
        f"<h2>{len(places)} samples</h2>",
        "<p>Grey: the text of the original, unchanged.</p>",
        *_samples(schemes, places),
        page.END,
    ]
    return "\n".join(parts) + "\n"


def _row(row: Row) -> str:
    scheme, variant, *numbers = comparison.cells_of(row)
    cells = f"<td>{_safe(scheme)}</td><td>{variant}</td>"
    cells += "".join(f'<td class="number">{number}</td>' for number in numbers)
    return f'<tr class="{"mean" if variant == MEAN else "variant"}">{cells}</tr>'


def _samples(schemes: Sequence[Texts], places: Sequence[int]) -> list[str]:
    """Returns a table per description: one row per variant, one column per scheme."""
    most = max(len(texts.variants) for texts in schemes)
    parts = []
    for place in places:
        one = schemes[0].originals[place]
        where = f"{one.id}: {one.kind} {one.name} of {one.service}"
        parts += [
            f"<h3>{_safe(one.text)}</h3>",
            f"<p>{_safe(where)}</p>",
            "<table>",
            _line("th", ["", *(texts.name for texts in schemes)]),
        ]
        for number in range(most):
            cells = [f"<td>v{number + 1}</td>"]
            for texts in schemes:
                found = list(texts.variants.values())
                text = found[number][place] if number < len(found) else ""
                same = ' class="same"' if text == one.text else ""
                cells.append(f"<td{same}>{_safe(text)}</td>")
            parts.append(f"<tr>{''.join(cells)}</tr>")
        parts.append("</table>")
    return parts


def _line(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_safe(c)}</{tag}>" for c in cells) + "</tr>"


def _safe(text: str) -> str:
    return html.escape(text)
