"""Self-contained HTML pages: one file, no network, no library."""

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Any

from jaxaug.core.figures import picture

_STYLE = """
body { font-family: sans-serif; margin: 2em; max-width: 90em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #ccc; padding: 0.25em 0.6em; text-align: left }
td.number { text-align: right; white-space: nowrap }
td small { display: block; color: #555; white-space: normal }
tr.holds td:first-child { font-weight: bold }
img { max-width: 100% }
@media (max-width: 50em) {
  body { margin: 1em }
  table { display: block; overflow-x: auto }
}
"""

_SORTABLE = """
th button { all: unset; cursor: pointer; font-weight: bold }
th button:focus-visible { outline: 2px solid }
th[aria-sort=ascending] button::after { content: " \\25B2" }
th[aria-sort=descending] button::after { content: " \\25BC" }
details { margin: 0.5em 0 }
"""

# A first click puts the largest number, or the first word, on top.
_SORT = """<script>
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table");
    const value = (row) => {
      const cell = row.cells[head.cellIndex];
      if (cell.className !== "number") return cell.textContent;
      const found = Number.parseFloat(cell.textContent.replaceAll(",", ""));
      return Number.isNaN(found) ? -1 : found;  // NA is below all others.
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


def whole(title: str, parts: Iterable[str], style: str = "", sort: bool = False) -> str:
    """Returns a page with a title; `sort` is for tables of `table(sort=True)`."""
    top = head(title, (_SORTABLE if sort else "") + style)
    end = [_SORT, END] if sort else [END]
    return "\n".join([top, f"<h1>{html.escape(title)}</h1>", *parts, *end]) + "\n"


class Html(str):
    """A cell of `table` or a summary of `details` that is HTML instead of text."""


def _safe(text: str) -> str:
    return text if isinstance(text, Html) else html.escape(text)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[bool] | None = None,
    *,
    kinds: Sequence[str] = (),
    sort: bool = False,
) -> list[str]:
    """Returns a table of texts.

    Args:
        right: for each column, whether it holds numbers; None means all but the first.
        kinds: class of each row; none if empty.
        sort: whether a click on a heading sorts the rows.
    """
    right = right or [place > 0 for place in range(len(heads))]
    shape = '<th><button type="button">{}</button></th>' if sort else "<th>{}</th>"
    top = "".join(shape.format(html.escape(text)) for text in heads)
    lines = [f"<table><thead><tr>{top}</tr></thead><tbody>"]
    for number, row in enumerate(rows):
        kind = f' class="{kinds[number]}"' if kinds else ""
        cells = "".join(
            f'<td class="number">{_safe(cell)}</td>'
            if is_number
            else f"<td>{_safe(cell)}</td>"
            for cell, is_number in zip(row, right, strict=True)
        )
        lines.append(f"<tr{kind}>{cells}</tr>")
    return [*lines, "</tbody></table>"]


def noted(text: str, note: str) -> Html:
    """Returns a cell with a note in small letters below its text."""
    return Html(f"{html.escape(text)}<small>{html.escape(note)}</small>")


def details(summary: str, lines: Iterable[str]) -> list[str]:
    """Returns lines of HTML that a click on the summary shows."""
    return [f"<details><summary>{_safe(summary)}</summary>", *lines, "</details>"]


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
