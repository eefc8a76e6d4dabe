"""The tables of `jaxaug classify`: accuracies, and differences paired by seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.core.columns import aligned, as_csv
from jaxaug.metrics.bootstrap import holm
from jaxaug_papers.shared.seeds import Difference, difference, spread

LEGEND = (
    "Accuracy on the test set in per cent, mean ± sample standard deviation over the "
    "seeds. In brackets: 95 % confidence interval of the mean difference to the first "
    "row, over seeds (with their draws of training examples) and test examples "
    "together. * where p is below 0.05 with Holm's correction for all differences of "
    "the table."
)


ALPHA = 0.05


class Cell(NamedTuple):
    """The result of a classifier.

    Attributes:
        examples: number of training examples, mean over the seeds.
        right: whether each seed classifies each test example correctly.
    """

    share: float
    classifier: str
    method: str
    examples: float
    right: Bool[np.ndarray, "seeds tests"]

    @property
    def accuracy(self) -> Float[np.ndarray, " seeds"]:
        """The test accuracy of each seed, 0 to 1."""
        return self.right.mean(axis=1)

    def plain(self) -> dict[str, Any]:
        """Returns the fields for JSON; `right` is a text of 0 and 1 for each seed."""
        bits = ["".join("01"[one] for one in row) for row in self.right.astype(int)]
        return {
            **self._asdict(),
            "accuracy": self.accuracy.tolist(),
            "right": bits,
        }

    def minus(self, base: "Cell") -> Difference:
        """Returns the difference to another method with the same classifier."""
        return difference(self.right, base.right)


def percent(share: float) -> str:
    """Returns a fraction as a percentage, such as `5%`."""
    return f"{100 * share:g}%"


def text_table(cells: Sequence[Cell], share: float, missing: Mapping[str, str]) -> str:
    """Returns the table of one share: a row per method, two columns per classifier."""
    found = {(c.method, c.classifier): c for c in cells if c.share == share}
    classifiers = list(dict.fromkeys(cell.classifier for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    head = [cell for name in classifiers for cell in (name, f"- {methods[0]}")]
    lines = [["", "examples", *head]]
    corrected = _corrected([found[m, c] for m in methods for c in classifiers])
    for method in methods:
        own = [found[method, name] for name in classifiers]
        line = [method, f"{own[0].examples:.0f}"]
        for cell in own:
            base = found[methods[0], cell.classifier]
            holds = corrected.get((cell.method, cell.classifier), 1.0) < ALPHA
            line += [spread(cell.accuracy), interval(cell, base, holds)]
        lines.append(line)
    empty = [[name, "", *(["not run", ""] * len(classifiers))] for name in missing]
    return "\n".join([f"{percent(share)} of the data", aligned([*lines, *empty])])


def _corrected(cells: Sequence[Cell]) -> dict[tuple[str, str], float]:
    """Returns (method, classifier) -> corrected p-value of its difference."""
    first = {cell.classifier: cell for cell in cells if cell.method == cells[0].method}
    others = [cell for cell in cells if cell.method != cells[0].method]
    found = [c.minus(first[c.classifier]).p for c in others]
    names = [(cell.method, cell.classifier) for cell in others]
    return dict(zip(names, holm(np.array(found)).tolist(), strict=True))


def interval(cell: Cell, base: Cell, holds: bool) -> str:
    """Returns the interval of a difference, such as `[+0.5, +2.1] *` if it holds."""
    found = cell.minus(base)
    if cell.method == base.method or math.isnan(found.half_width):
        return ""
    low, high = (100 * (found.mean + s * found.half_width) for s in (-1, 1))
    return f"[{low:+.1f}, {high:+.1f}]{' *' if holds else '  '}"


def table_5(cells: Sequence[Cell], title: str) -> str:
    """Returns the means in the layout of Table 5 of Kumar et al. (2019)."""
    columns = list(dict.fromkeys((cell.classifier, cell.share) for cell in cells))
    columns.sort(key=lambda c: [one.classifier for one in cells].index(c[0]))
    found = {(c.method, c.classifier, c.share): c for c in cells}
    lines = [[title, *(f"{name} {percent(share)}" for name, share in columns)]]
    for method in dict.fromkeys(cell.method for cell in cells):
        means = [found[method, *column].accuracy.mean() for column in columns]
        lines.append([method, *(f"{100 * mean:.1f}" for mean in means)])
    return aligned(lines)


def csv_table(cells: Sequence[Cell], seeds: Sequence[int]) -> str:
    """Returns all results as CSV: fractions at full precision."""
    names = [f"seed{seed}" for seed in seeds]
    rows = [[*cell[:4], *cell.accuracy.tolist()] for cell in cells]
    return as_csv([["share", "classifier", "method", "examples", *names], *rows])
