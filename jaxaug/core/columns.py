"""Text tables for a terminal."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Returns rows as lines, with two blanks between columns.

    Args:
        rows: rows with one cell per column.
        right: for each column, whether its cells are right-aligned.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )
