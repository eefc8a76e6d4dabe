"""The tables of `jaxaug classify`: accuracies, and differences paired by seed."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxaug.metrics.report import aligned
from jaxaug_papers.shared.seeds import difference, spread

LEGEND = (
    "Accuracy on the test set in per cent, mean ± sample standard deviation over the "
    "seeds. In brackets: 95 % confidence interval (Student's t) of the mean of the "
    "seeds' differences to the first row; * where it excludes 0."
)


class Cell(NamedTuple):
    """The result of a classifier.

    Attributes:
        share: fraction of the training examples.
        classifier: name of the classifier.
        method: name of the row.
        examples: number of training examples, mean over the seeds.
        accuracy: test accuracy of each seed, 0 to 1.
    """

    share: float
    classifier: str
    method: str
    examples: float
    accuracy: Float[np.ndarray, " seeds"]


def percent(share: float) -> str:
    """Returns a fraction as a percentage, such as `5%`."""
    return f"{100 * share:g}%"


def text_table(cells: Sequence[Cell], share: float, missing: Mapping[str, str]) -> str:
    """Returns the table of one share: a row per method, two columns per classifier.

    Args:
        cells: results of all shares.
        share: share of the table.
        missing: name of a skipped row -> reason.
    """
    found = {(c.method, c.classifier): c for c in cells if c.share == share}
    classifiers = list(dict.fromkeys(cell.classifier for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    head = [cell for name in classifiers for cell in (name, f"- {methods[0]}")]
    lines = [["", "examples", *head]]
    for method in methods:
        own = [found[method, name] for name in classifiers]
        line = [method, f"{own[0].examples:.0f}"]
        for cell in own:
            base = found[methods[0], cell.classifier]
            line += [spread(cell.accuracy), interval(cell, base)]
        lines.append(line)
    empty = [[name, "", *(["not run", ""] * len(classifiers))] for name in missing]
    return "\n".join([f"{percent(share)} of the data", aligned([*lines, *empty])])


def interval(cell: Cell, base: Cell) -> str:
    """Returns the interval of a difference, such as `[+0.5, +2.1] *`."""
    if cell.method == base.method or len(cell.accuracy) < 2:
        return ""
    found = difference(cell.accuracy, base.accuracy)
    low, high = (100 * (found.mean + s * found.half_width) for s in (-1, 1))
    return f"[{low:+.1f}, {high:+.1f}]{' *' if low * high > 0 else '  '}"


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"seed{seed}" for seed in seeds]
    writer.writerow(["share", "classifier", "method", "examples", *names])
    for cell in cells:
        writer.writerow([*cell[:4], *map(repr, cell.accuracy.tolist())])
    return text.getvalue()
