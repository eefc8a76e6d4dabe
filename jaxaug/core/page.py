"""Self-contained HTML pages: one file, no network, no library."""

import base64
import html
from collections.abc import Iterable, Iterator
from typing import Any

from jaxaug.core.figures import picture

_STYLE = """
body { font-family: sans-serif; margin: 2em; max-width: 90em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #ccc; padding: 0.25em 0.6em; text-align: left }
td.number { text-align: right; white-space: nowrap }
td small { display: block; color: #555 }
tr.holds td:first-child { font-weight: bold }
img { max-width: 100% }
@media (max-width: 50em) {
  body { margin: 1em }
  table { display: block; overflow-x: auto }
}
"""

SORTABLE = """
th button { all: unset; cursor: pointer; font-weight: bold }
th button:focus-visible { outline: 2px solid }
th[aria-sort=ascending] button::after { content: " \\25B2" }
th[aria-sort=descending] button::after { content: " \\25BC" }
details { margin: 0.5em 0 }
"""
"""CSS of sortable tables, for `head`."""

# A first click puts the largest number, or the first word, on top.
SORT = """<script>
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table");
    const value = (row) => {
      const cell = row.cells[head.cellIndex];
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
    };
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.some((row) => typeof value(row) === "number");
    const before = head.getAttribute("aria-sort");
    const first = numeric ? "descending" : "ascending";
    const other = numeric ? "ascending" : "descending";
    const order = before === first ? other : first;
    for (const one of head.parentElement.cells) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    rows.sort((a, b) => {
      const x = value(a), y = value(b);
      return sign * (typeof x === "number" ? x - y : x.localeCompare(y));
    });
    table.tBodies[0].append(...rows);
  });
}
</script>"""
"""The last part of a page with sortable tables."""

END = "</body></html>"
"""The last line of a page."""


def head(title: str, style: str = "") -> str:
    """Returns the start of a page, up to `<body>`; `style` is further CSS."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n"
        f"<style>{_STYLE}{style}</style></head><body>"
    )


def table(headings: Iterable[str], rows: Iterable[str]) -> list[str]:
    """Returns a table of HTML rows."""
    cells = "".join(f"<th>{html.escape(text)}</th>" for text in headings)
    return ["<table>", f"<tr>{cells}</tr>", *rows, "</table>"]


def row(kind: str, name: str, cells: Iterable[str]) -> str:
    """Returns a row of plain texts: a name, then numbers; `kind` is its class."""
    return line(kind, html.escape(name), [html.escape(text) for text in cells])


def line(kind: str, name: str, cells: Iterable[str]) -> str:
    """Returns a row of HTML texts: a name, then numbers; `kind` is its class."""
    numbers = "".join(f'<td class="number">{text}</td>' for text in cells)
    return f'<tr class="{kind}"><td>{name}</td>{numbers}</tr>'


def paragraphs(lines: Iterable[str]) -> list[str]:
    """Returns a paragraph for each plain sentence, given without a full stop."""
    return [f"<p>{html.escape(text)}.</p>" for text in lines]


def items(lines: Iterable[str]) -> list[str]:
    """Returns a list of plain texts, or nothing if there are none."""
    found = [f"<li>{html.escape(text)}</li>" for text in lines]
    return ["<ul>", *found, "</ul>"] if found else []


def image(figure: Any, alt: str) -> str:
    """Returns a matplotlib figure as an image inside the page."""
    data = base64.b64encode(picture(figure, "svg")).decode("ascii")
    source = f"data:image/svg+xml;base64,{data}"
    return f'<p><img src="{source}" alt="{html.escape(alt)}"></p>'


def sortable(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yields a table that a click on a heading sorts, with `SORTABLE` and `SORT`."""
    cells = "".join(
        f'<th><button type="button">{html.escape(text)}</button></th>' for text in heads
    )
    yield f"<table><thead><tr>{cells}</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(row)}</tr>"
    yield "</tbody></table>"


def cell(text: str) -> str:
    """Returns the cell of a plain text."""
    return f"<td>{html.escape(text)}</td>"


def number(value: str, note: str = "") -> str:
    """Returns the cell of a number; NA sorts below all others."""
    key = "-1" if value == "NA" else value
    if not note:
        return f'<td class="number" data-value="{key}">{value}</td>'
    return f'<td data-value="{key}">{value}<small>{html.escape(note)}</small></td>'
