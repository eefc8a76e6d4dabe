"""What the tables of outputs have in common."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

# n of the distinct-n of Lu and Lam (2023).
ORDERS = range(1, 7)


def outputs_of(path: Path) -> list[list[str]]:
    """The outputs of each input in a file of `jaxaug paraphrase`, best first."""
    groups: dict[int, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        groups.setdefault(record["line"], []).append(record["output"])
    return [groups[line] for line in sorted(groups)]


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are defined; None if none is."""
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def number(value: float | None, form: str) -> str:
    """A cell; `-` where nothing is defined."""
    return "-" if value is None else format(value, form)


def row(cells: Sequence[str]) -> str:
    """A row in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def head(cells: Sequence[str]) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [row(cells), "|" + "---|" * len(cells)]
