"""Tables as text, CSV, and Markdown; `core.page` has HTML tables."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool] | None = None) -> str:
    """Returns rows as lines, with two blanks between columns.

    Args:
        right: for each column, whether its cells are right-aligned; None means all but
            the first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = right or [place > 0 for place in range(len(widths))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )


def percent(value: float | None, undefined: str = "NA") -> str:
    """Returns a fraction in per cent, with one decimal; None and NaN are undefined."""
    if value is None or math.isnan(value):
        return undefined
    return f"{100 * value:.1f}"


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Returns rows as CSV: numbers at full precision, empty if undefined."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        ["" if isinstance(v, float) and math.isnan(v) else v for v in row]
        for row in rows
    )
    return text.getvalue()


def markdown(cells: Iterable[str]) -> str:
    """Returns a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def markdown_head(cells: Sequence[str]) -> str:
    """Returns the first two rows of a Markdown table."""
    return f"{markdown(cells)}\n{'|---' * len(cells)}|"
