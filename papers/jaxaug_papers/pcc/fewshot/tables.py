"""Tables of a few-shot experiment: means over seeds, and paired differences."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.core.columns import aligned, as_csv
from jaxaug.curriculum.schedule import Schedule
from jaxaug.metrics.bootstrap import holm
from jaxaug.metrics.statistics import p_cell
from jaxaug_papers.pcc.fewshot.config import Table
from jaxaug_papers.shared.seeds import difference, spread

LEGEND = (
    "Accuracy in per cent after the last update, mean ± sample standard deviation over "
    "the seeds. Difference: of each seed's two accuracies, and in how many seeds it is "
    "above 0. In brackets: 95 % confidence interval of its mean, over seeds and test "
    "sentences together. p: with Holm's correction for the rows of the table."
)


class Point(NamedTuple):
    """A point of the learning curves; arrays have one value for each seed.

    Attributes:
        active: mean fraction of triplets with a loss since the previous point.
    """

    updates: int
    accuracy: Float[np.ndarray, " seeds"]
    loss: Float[np.ndarray, " seeds"]
    active: Float[np.ndarray, " seeds"]


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a method.

    Attributes:
        curve: learning curve; the last point is the result.
        right: whether each seed classifies each test sentence correctly at the end.
    """

    name: str
    schedule: Schedule
    curve: tuple[Point, ...]
    right: Bool[np.ndarray, "seeds tests"]

    @property
    def accuracy(self) -> Float[np.ndarray, " seeds"]:
        """The accuracy after the last update."""
        return self.curve[-1].accuracy


def text_table(
    table: Table, results: Mapping[str, Result], missing: Mapping[str, str]
) -> str:
    """Returns a table as text, in percent."""
    reference = results.get(table.reference)
    corrected = _corrected(table, results)
    rows = [["", "updates", "accuracy", f"- {table.reference}", "", "", "p (Holm)"]]
    for name in table.rows:
        if name not in results:
            rows.append([name, "", "not run", "", "", "", ""])
            continue
        result = results[name]
        cells = [name, str(result.schedule.steps), spread(result.accuracy)]
        if reference is None or name == table.reference:
            rows.append([*cells, "", "", "", ""])
            continue
        found = difference(result.right, reference.right)
        low, high = (100 * (found.mean + s * found.half_width) for s in (-1, 1))
        rows.append(
            [
                *cells,
                f"{100 * found.mean:+.1f} ± {100 * found.deviation:.1f}",
                f"{found.wins}/{len(result.accuracy)}",
                f"[{low:+.1f}, {high:+.1f}]",
                p_cell(corrected[name]),
            ]
        )
    notes = [f"{name}: {missing[name]}" for name in table.rows if name in missing]
    return "\n".join([table.title, aligned(rows), *notes])


def _corrected(table: Table, results: Mapping[str, Result]) -> dict[str, float]:
    """Returns row -> p-value of its difference, corrected for the rows of the table."""
    reference = results.get(table.reference)
    names = [n for n in table.rows if n in results and n != table.reference]
    if reference is None or not names:
        return {}
    found = [difference(results[n].right, reference.right).p for n in names]
    return dict(zip(names, holm(np.array(found)).tolist(), strict=True))


def csv_table(
    tables: Sequence[Table], results: Mapping[str, Result], seeds: Sequence[int]
) -> str:
    """Returns the tables for programs: fractions at full precision."""
    names = [f"seed{seed}" for seed in seeds]
    columns = ["mean", "std", "reference", "diff", "diff_std", "diff_ci95", "wins"]
    rows: list[list[Any]] = [["table", "method", "updates", *names, *columns]]
    for table in tables:
        reference = results.get(table.reference)
        for name in table.rows:
            if name not in results:
                continue
            values = np.asarray(results[name].accuracy, np.float64)
            deviation = values.std(ddof=1) if len(values) > 1 else math.nan
            row = [table.title, name, results[name].schedule.steps, *values.tolist()]
            row += [float(values.mean()), float(deviation)]
            if reference is not None:
                found = difference(results[name].right, reference.right)
                row += [
                    table.reference,
                    *map(float, (found.mean, found.deviation, found.half_width)),
                    found.wins,
                ]
            rows.append(row)
    return as_csv(rows)


def csv_curves(results: Mapping[str, Result], seeds: Sequence[int]) -> str:
    """Returns every point of the learning curves, one line for each seed."""
    rows: list[list[Any]] = [
        ["method", "seed", "updates", "accuracy", "loss", "active"]
    ]
    for name, result in results.items():
        for point in result.curve:
            for place, seed in enumerate(seeds):
                figures = (point.accuracy, point.loss, point.active)
                cells = [float(values[place]) for values in figures]
                rows.append([name, seed, point.updates, *cells])
    return as_csv(rows)


def npz_right(results: Mapping[str, Result]) -> bytes:
    """Returns an npz file of `Result.right`, as bits along the last axis.

    `methods` has the names, `right` the bits, [methods, seeds, bytes], and `tests` the
    number of test sentences.
    """
    right = np.stack([one.right for one in results.values()])
    file = io.BytesIO()
    np.savez_compressed(
        file,
        methods=np.array([*results]),
        right=np.packbits(right, axis=-1),
        tests=np.array(right.shape[-1]),
    )
    return file.getvalue()
