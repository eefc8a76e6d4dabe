"""Tables of text for a terminal."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Rows as lines, two blanks between columns.

    Args:
      rows: as many cells each as there are columns.
      right: of each column, whether its cells stand on the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )
