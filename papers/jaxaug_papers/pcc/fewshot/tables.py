"""Tables of a few-shot experiment: means over seeds, and paired differences."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.curriculum.schedule import Schedule
from jaxaug.metrics.bootstrap import holm
from jaxaug.metrics.report import aligned
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
        updates: number of previous updates.
        accuracy: accuracy on the test set, 0 to 1.
        loss: mean loss since the previous point.
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
        name: name of the method.
        schedule: schedule of its levels.
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
    """Returns a table as text, in percent.

    Args:
        table: rows and baseline.
        results: name -> result.
        missing: name of a skipped row -> reason.
    """
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"seed{seed}" for seed in seeds]
    columns = ["mean", "std", "reference", "diff", "diff_std", "diff_ci95", "wins"]
    writer.writerow(["table", "method", "updates", *names, *columns])
    for table in tables:
        reference = results.get(table.reference)
        for name in table.rows:
            if name not in results:
                continue
            values = np.asarray(results[name].accuracy, np.float64)
            deviation = values.std(ddof=1) if len(values) > 1 else math.nan
            cells = [*values.tolist(), float(values.mean()), float(deviation)]
            row = [
                table.title,
                name,
                results[name].schedule.steps,
                *map(_number, cells),
            ]
            if reference is not None:
                found = difference(results[name].right, reference.right)
                figures = (found.mean, found.deviation, found.half_width)
                row += [table.reference, *map(_number, figures), found.wins]
            writer.writerow(row)
    return text.getvalue()


def csv_curves(results: Mapping[str, Result], seeds: Sequence[int]) -> str:
    """Returns every point of the learning curves, one line for each seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "seed", "updates", "accuracy", "loss", "active"])
    for name, result in results.items():
        for point in result.curve:
            for place, seed in enumerate(seeds):
                figures = (point.accuracy, point.loss, point.active)
                cells = [_number(float(values[place])) for values in figures]
                writer.writerow([name, seed, point.updates, *cells])
    return text.getvalue()


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


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(float(value))
