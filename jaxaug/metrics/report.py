"""Tables of robustness reports: runs side by side, seeds of one run aggregated.

A report is the JSON that `jaxaug evaluate sgdx` writes, or the one that the
evaluation logger leaves under a model folder. Tables give per cent; the JSON holds
fractions.
"""

import argparse
import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.figures import check_picture, new_figure, write_figure
from jaxaug.core.files import PathLike, reach, read_json, shown, write_text
from jaxaug.metrics.dst import ALL_SERVICES, JGA, SEEN_SERVICES, UNSEEN_SERVICES
from jaxaug.metrics.sensitivity import VARIANTS

_ROUNDING = 1e-9
# Where the evaluation logger writes, below its output folder.
REPORT_FOLDER = "robustness"

# Name in CSV and JSON -> heading of the printed table.
COLUMNS = {
    "jga_orig": "JGA_orig",
    **{variant: variant for variant in VARIANTS},
    "jga_v1_5": "mean v1-5",
    "jga_v1_5_seen": "seen",
    "jga_v1_5_unseen": "unseen",
    "ss_jga": "SS",
    "ss_jga_all_frames": "SS all",
}
_LEGEND = (
    "JGA and SS in per cent; SS: frames wrong under every wording left out, "
    "SS all: counted as 0"
)
_BARS = ("jga_orig", *VARIANTS, "jga_v1_5")
_SEED = re.compile(r"(?<=.)[-_.]?(?:seed|s)[-_]?\d+$", re.IGNORECASE)
_REPORT_FILE = re.compile(r"(?P<family>.+)-(?P<step>-?\d+)\.json")
_METRICS = {
    JGA: "joint goal",
    "joint_cat_accuracy": "joint cat",
    "joint_noncat_accuracy": "joint noncat",
    "average_goal_accuracy": "average goal",
    "active_intent_accuracy": "intent",
    "requested_slots_f1": "requested F1",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One row: figures as fractions, NaN where undefined.

    `deviations` holds the sample standard deviation over `seeds` runs, and is empty
    for a single run.
    """

    name: str
    figures: Mapping[str, float]
    deviations: Mapping[str, float]
    seeds: int = 1

    @staticmethod
    def of_report(name: str, report: Mapping[str, Any]) -> "Run":
        """The row of one robustness report.

        Raises:
          UserError: `report` lacks one of its figures, or one is no fraction.
        """
        figures = {}
        for column in COLUMNS:
            keys = ("per_variant", column, ALL_SERVICES, JGA)
            value: Any = report
            for key in keys if column in VARIANTS else (column,):
                if not isinstance(value, Mapping) or key not in value:
                    raise _wrong(name, f"no robustness report: {key!r} is missing")
                value = value[key]
            figures[column] = _figure(value, column, name)
        return Run(name, figures, {})


def _figure(value: Any, column: str, name: str) -> float:
    """A fraction as the report holds it; NaN where it says that there is none."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise _wrong(name, f"{column} is {shown(value)}, expected a number or null")
    # A deviation over a mean is largest where one wording alone is right.
    limit = math.sqrt(len(VARIANTS)) if column.startswith("ss_") else 1.0
    # NaN passes for null: JSON of Python may hold it.
    if value < 0 or value > limit + _ROUNDING:
        raise _wrong(
            name,
            f"{column} is {value}, expected a fraction from 0 to {limit:.4g} (per cent "
            "are divided by 100)",
        )
    return float(value)


def _wrong(name: str, problem: str) -> UserError:
    return UserError(
        f"{name}: {problem}. Give a JSON that `jaxaug evaluate sgdx` has written, or a "
        "model folder that has been evaluated."
    )


def aggregate_seeds(runs: Sequence[Run]) -> list[Run]:
    """One row per name without its seed suffix (`_seed0`, `-s1`), where several share it.

    Figures are means, deviations the sample standard deviation (ddof 1).
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_SEED.sub("", run.name), []).append(run)
    rows = []
    for name, members in groups.items():
        if len(members) < 2:
            continue
        table = np.array([[run.figures[c] for c in COLUMNS] for run in members])
        means = table.mean(axis=0).tolist()
        deviations = table.std(axis=0, ddof=1).tolist()
        rows.append(
            Run(
                f"{name} (mean of {len(members)})",
                dict(zip(COLUMNS, means, strict=True)),
                dict(zip(COLUMNS, deviations, strict=True)),
                len(members),
            )
        )
    return rows


def text_table(runs: Sequence[Run]) -> str:
    """The table for people; per cent, `mean ± std` where several seeds are joined."""
    rows = [["", *COLUMNS.values()]]
    for run in runs:
        rows.append([run.name, *(_cell(run, column) for column in COLUMNS)])
    return f"{aligned(rows)}\n{_LEGEND}"


def _cell(run: Run, column: str) -> str:
    value, deviation = run.figures[column], run.deviations.get(column)
    if math.isnan(value):
        return "NA"
    if deviation is None:
        return f"{100 * value:.1f}"
    return f"{100 * value:.1f} ± {100 * deviation:.1f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines: the first column on the left, the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def sgd_table(report: Mapping[str, Mapping[str, float]]) -> str:
    """Main metrics of the report of `evaluate sgd`, per cent, for people."""
    rows = [["", *_METRICS.values()]]
    for key in (ALL_SERVICES, SEEN_SERVICES, UNSEEN_SERVICES):
        if key in report:
            values = (report[key].get(name) for name in _METRICS)
            rows.append(
                [key, *("NA" if v is None else f"{100 * v:.2f}" for v in values)]
            )
    return aligned(rows)


def csv_table(runs: Sequence[Run]) -> str:
    """The table for programs; fractions at full precision, empty where undefined."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "runs", *COLUMNS, *(f"{c}_std" for c in COLUMNS)])
    for run in runs:
        cells = [run.figures[column] for column in COLUMNS]
        cells += [run.deviations.get(column, math.nan) for column in COLUMNS]
        shown = ["" if math.isnan(cell) else repr(cell) for cell in cells]
        writer.writerow([run.name, run.seeds, *shown])
    return text.getvalue()


def write_png(path: PathLike, runs: Sequence[Run]) -> None:
    """Bars of JGA per wording, one colour a run, SS in the legend.

    Raises:
      UserError: matplotlib is not installed.
    """
    figure = new_figure(path, 8, 4.5)
    axes = figure.subplots()
    places = np.arange(len(_BARS))
    width = 0.8 / len(runs)
    for index, run in enumerate(runs):
        heights = [100 * run.figures[column] for column in _BARS]
        spread = [100 * run.deviations.get(column, 0.0) for column in _BARS]
        axes.bar(
            places + (index - (len(runs) - 1) / 2) * width,
            heights,
            width,
            yerr=spread if run.deviations else None,
            label=f"{run.name}: SS {_cell(run, 'ss_jga')}",
        )
    axes.set_xticks(places, [COLUMNS[column] for column in _BARS])
    axes.set_ylabel("joint goal accuracy (%)")
    axes.set_ylim(0, 100)
    axes.legend(loc="upper right")
    write_figure(path, figure)


def report_files(run: PathLike) -> dict[str, epath.Path]:
    """Family ("d3st", "t5dst") -> its newest report below a model folder."""
    folder = epath.Path(run)
    newest: dict[str, tuple[int, epath.Path]] = {}
    # The second one is where configs/runs/robustness.gin writes.
    places = (folder / "inference_eval", folder / "eval" / "inference_eval", folder)
    for place in places:
        if not (place / REPORT_FOLDER).is_dir():
            continue
        for path in (place / REPORT_FOLDER).glob("*.json"):
            match = _REPORT_FILE.fullmatch(path.name)
            if match:
                found = int(match["step"]), path
                family = match["family"]
                newest[family] = max(newest.get(family, found), found)
    return {family: path for family, (_, path) in sorted(newest.items())}


def read_runs(run: PathLike) -> list[Run]:
    """Rows of one argument of `jaxaug report`: a model folder or a JSON report.

    Raises:
      UserError: there is no report, or it cannot be read.
    """
    path = reach(run, "Name a model folder.")
    fix = "Evaluate the run again."
    if path.is_file():
        return [Run.of_report(path.stem, read_json(path, fix))]
    if not path.is_dir():
        raise UserError(f"run {path} does not exist. Name a model folder.")
    files = report_files(path)
    if not files:
        raise UserError(
            f"run {path} has no robustness report: "
            f"{path / 'inference_eval' / REPORT_FOLDER} holds none. Evaluate the "
            f"original task and those of {', '.join(VARIANTS)} with the logger "
            "tasks.report_logger.RobustnessLogger, or score predictions with `jaxaug "
            "evaluate sgdx` and name its output."
        )
    # Two runs of different experiments may share a base name; the seed goes last.
    return [
        Run.of_report(
            path.name if len(files) == 1 else f"{family} {path.name}",
            read_json(file, fix),
        )
        for family, file in files.items()
    ]


def run(arguments: argparse.Namespace) -> int:
    """`jaxaug report RUN...`: prints the table, and writes CSV and PNG where asked."""
    if arguments.png:
        check_picture(arguments.png)
    runs: list[Run] = []
    for name in arguments.runs:
        runs.extend(read_runs(name))
    runs += aggregate_seeds(runs)
    print(text_table(runs))
    write_tables(runs, arguments.csv, arguments.png)
    return 0


def write_tables(
    runs: Iterable[Run], csv_path: PathLike | None, png_path: PathLike | None
) -> None:
    """Writes the CSV and the PNG of a table, those that have a path."""
    runs = list(runs)
    if csv_path:
        write_text(csv_path, csv_table(runs))
    if png_path:
        joined = [run for run in runs if run.seeds > 1]
        write_png(png_path, joined or runs)
