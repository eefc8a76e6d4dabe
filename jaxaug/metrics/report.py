"""Tables of robustness reports: runs side by side, and means over seeds.

A report is the JSON of `jaxaug evaluate sgdx`, or the one that the evaluation logger
leaves in a model folder. Tables give per cent; the JSON holds fractions.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from etils import epath
from jaxaug_base.files import absolute

from jaxaug.core.columns import aligned, as_csv, percent
from jaxaug.core.errors import UserError
from jaxaug.core.figures import label, new_figure, write_figure
from jaxaug.core.files import PathLike, reach, read_json, shown, write_text
from jaxaug.core.text import printable
from jaxaug.metrics.dst import ALL_SERVICES, JGA, SEEN_SERVICES, UNSEEN_SERVICES
from jaxaug.metrics.frames import FrameTable, read_frames
from jaxaug.metrics.sensitivity import VARIANTS

ABOUT = "about"
ABSENT = "wordings_not_evaluated"
# Arguments of `evaluate sgdx` that change scores; the evaluation logger leaves them
# off.
RULES = ("exact", "joint_across_turn")
_ROUNDING = 1e-9
# Folder of reports below the output folder of the evaluation logger.
REPORT_FOLDER = "robustness"

# Maps the name in CSV and JSON to the heading of the printed table.
COLUMNS = {
    "jga_orig": "JGA_orig",
    **{variant: variant for variant in VARIANTS},
    "jga_v1_5": "mean v1-5",
    "jga_v1_5_seen": "seen",
    "jga_v1_5_unseen": "unseen",
    "ss_jga": "SS",
    "ss_jga_all_frames": "SS all",
}
LEGEND = (
    "JGA and SS in per cent; SS: frames wrong under every wording left out, "
    "SS all: counted as 0"
)
_BARS = ("jga_orig", *VARIANTS, "jga_v1_5")
_SEED = re.compile(
    r"(?<=.)(?:[-_./]?seed|[-_./]s)[-_]?(\d+)(?=$|/[^/]*$)", re.IGNORECASE
)
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
    """One row: figures as fractions, NaN if undefined.

    Attributes:
        deviations: sample standard deviation over `seeds` runs; empty for a single run.
        intervals: low and high end of 95% intervals, if they were computed.
        frames: frame scores behind the figures of a single run, if they were kept.
        rules: scoring arguments by name, and whether they were set.
    """

    name: str
    figures: Mapping[str, float]
    deviations: Mapping[str, float]
    seeds: int = 1
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    frames: FrameTable | None = None
    place: str = ""
    rules: Mapping[str, bool] = field(default_factory=dict)

    @staticmethod
    def of_report(name: str, report: Mapping[str, Any]) -> "Run":
        """Returns the row of one robustness report, which has all its figures.

        Raises:
            UserError: `report` lacks one of its figures, or one is not a fraction.
        """
        figures = {}
        about = report.get(ABOUT) if isinstance(report, Mapping) else None
        about = about if isinstance(about, Mapping) else {}
        absent = about.get(ABSENT, [])
        if not isinstance(absent, list):
            raise _wrong(name, f"{ABSENT} is {shown(absent)}, expected a list")
        for column in COLUMNS:
            if column in VARIANTS and column in absent:
                figures[column] = math.nan
                continue
            keys = ("per_variant", column, ALL_SERVICES, JGA)
            value: Any = report
            for key in keys if column in VARIANTS else (column,):
                if not isinstance(value, Mapping) or key not in value:
                    raise _wrong(name, f"no robustness report: {key!r} is missing")
                value = value[key]
            figures[column] = _figure(value, column, name)
        rules = {rule: about.get(rule) is True for rule in RULES}
        return Run(name, figures, {}, rules=rules)


def _figure(value: Any, column: str, name: str) -> float:
    """Returns a fraction of the report; NaN if the report has null."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise _wrong(name, f"{column} is {shown(value)}, expected a number or null")
    # A deviation over a mean is largest if only one wording is right.
    limit = math.sqrt(len(VARIANTS)) if column.startswith("ss_") else 1.0
    # NaN means the same as null: Python's JSON may contain it.
    if value < 0 or value > limit + _ROUNDING:
        raise _wrong(
            name,
            f"{column} is {shown(value)}, expected a fraction from 0 to {limit:.4g} "
            f"(per cent are divided by 100)",
        )
    return float(value)


def _wrong(name: str, problem: str) -> UserError:
    return UserError(
        f"{name}: {problem}. Give a JSON that `jaxaug evaluate sgdx` has written, or a "
        "model folder that has been evaluated."
    )


def split_seed(name: str) -> tuple[str, str]:
    """Splits a run name into configuration and seed; "" without a seed.

    "d3st-seed0" gives ("d3st", "0"). The seed may also end the parent folder's name:
    "d3st-seed0/test" gives ("d3st/test", "0").
    """
    matches = [*_SEED.finditer(name)]
    if not matches:
        return name, ""
    match = matches[-1]
    return name[: match.start()] + name[match.end() :], match[1]


def mean_name(name: str, runs: int) -> str:
    """Returns the name of the row that joins the runs of a configuration."""
    return f"{name} (mean of {runs})"


def aggregate_seeds(runs: Sequence[Run]) -> list[Run]:
    """Returns a row for each name that several runs share apart from the seed suffix.

    Suffixes are `_seed0`, `-s1`, and similar. Figures are means; deviations are sample
    standard deviations (ddof 1).
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(split_seed(run.name)[0], []).append(run)
    rows = []
    for name, members in groups.items():
        if len(members) < 2:
            continue
        table = np.array([[run.figures[c] for c in COLUMNS] for run in members])
        means = table.mean(axis=0).tolist()
        deviations = table.std(axis=0, ddof=1).tolist()
        rows.append(
            Run(
                mean_name(name, len(members)),
                dict(zip(COLUMNS, means, strict=True)),
                dict(zip(COLUMNS, deviations, strict=True)),
                len(members),
            )
        )
    return rows


def configurations(rows: Sequence[Run]) -> list[Run]:
    """Returns the row of each configuration: its mean over seeds, or its only run."""
    joined = {row.name: row for row in rows if row.seeds > 1}
    members: dict[str, list[Run]] = {}
    for row in rows:
        if row.seeds == 1:
            members.setdefault(split_seed(row.name)[0], []).append(row)
    return [
        joined.get(mean_name(name, len(group)), group[0])
        for name, group in members.items()
    ]


def text_table(runs: Sequence[Run]) -> str:
    """Returns the table as text, in per cent; `mean ± std` over several seeds."""
    rows = [["", *COLUMNS.values()]]
    for run in runs:
        rows.append([run.name, *(cell(run, column) for column in COLUMNS)])
    return "\n".join([aligned(rows), LEGEND, *notes_on_wordings(runs)])


def notes_on_wordings(runs: Sequence[Run]) -> list[str]:
    """Returns a line per group of runs that lack the same wordings."""
    names: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        found = tuple(v for v in VARIANTS if not math.isnan(run.figures[v]))
        names.setdefault(found, []).append(run.name)
    lines = []
    for found, group in names.items():
        missing = ", ".join(name for name in VARIANTS if name not in found)
        if not found:
            lines.append(
                f"{', '.join(group)}: evaluated on the original schemas only: JGA, "
                "and no schema sensitivity. `jaxaug augment --splits train,test` "
                "makes variants"
            )
        elif missing:
            lines.append(
                f"{', '.join(group)}: not evaluated on {missing}: mean and sensitivity "
                f"are over {', '.join(found)}"
            )
    return lines


def cell(run: Run, column: str) -> str:
    """Returns a figure in per cent; `mean ± std` if seeds are joined."""
    value, deviation = run.figures[column], run.deviations.get(column)
    if math.isnan(value) or deviation is None:
        return percent(value)
    return f"{percent(value)} ± {percent(deviation)}"


def sgd_table(report: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the main metrics of the report of `evaluate sgd` as text, in per cent."""
    rows = [["", *_METRICS.values()]]
    for key in (ALL_SERVICES, SEEN_SERVICES, UNSEEN_SERVICES):
        if key in report:
            values = (report[key].get(name) for name in _METRICS)
            rows.append(
                [key, *("NA" if v is None else f"{100 * v:.2f}" for v in values)]
            )
    return aligned(rows)


def csv_table(runs: Sequence[Run]) -> str:
    """Returns the table as CSV: fractions at full precision, empty if undefined."""
    ends = [f"{column}_{end}" for column in COLUMNS for end in ("low", "high")]
    rows: list[list[Any]] = [
        ["name", "runs", *COLUMNS, *(f"{c}_std" for c in COLUMNS), *ends]
    ]
    for run in runs:
        cells = [run.figures[column] for column in COLUMNS]
        cells += [run.deviations.get(column, math.nan) for column in COLUMNS]
        for column in COLUMNS:
            cells += run.intervals.get(column, (math.nan, math.nan))
        rows.append([run.name, run.seeds, *cells])
    return as_csv(rows)


def draw_bars(figure: Any, runs: Sequence[Run]) -> None:
    """Draws bars of JGA per wording, one color per run, with SS in the legend.

    Lines on the bars are 95% intervals if there are any, otherwise ± the standard
    deviation over seeds.
    """
    axes = figure.subplots()
    places = np.arange(len(_BARS))
    width = 0.8 / len(runs)
    for index, run in enumerate(runs):
        heights = [100 * run.figures[column] for column in _BARS]
        axes.bar(
            places + (index - (len(runs) - 1) / 2) * width,
            heights,
            width,
            yerr=_spread(run),
            label=label(f"{run.name}: SS {cell(run, 'ss_jga')}"),
            error_kw={"linewidth": 1},
        )
    axes.set_xticks(places, [COLUMNS[column] for column in _BARS])
    axes.set_ylabel("joint goal accuracy (%)")
    axes.set_ylim(0, 100)
    # The legend is below the plot, because bars of 100% leave no room in it.
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    if any(run.intervals for run in runs):
        axes.set_title("lines: 95% intervals", fontsize=9)
    elif any(run.deviations for run in runs):
        axes.set_title("lines: standard deviation over seeds", fontsize=9)


def _spread(run: Run) -> list[list[float]] | None:
    """Returns the lengths of the lines on the bars of a run, below and above."""
    if run.intervals:
        ends = [(run.figures[c], *run.intervals[c]) for c in _BARS]
        # Ends are undefined if there is a single dialogue.
        lines = [(value - low, high - value) for value, low, high in ends]
        return [[100 * max(0.0, x) for x in part] for part in zip(*lines, strict=True)]
    if run.deviations:
        return [[100 * run.deviations[column] for column in _BARS]] * 2
    return None


def write_png(path: PathLike, runs: Sequence[Run]) -> None:
    """Writes the figure of `draw_bars` to a file.

    Raises:
        UserError: matplotlib is not installed.
    """
    figure = new_figure(path, 8, 4.5)
    draw_bars(figure, runs)
    write_figure(path, figure)


def evaluation_folders(run: PathLike) -> tuple[epath.Path, ...]:
    """Returns the folders in which evaluations of a run may have written."""
    folder = epath.Path(run)
    # configs/runs/robustness.gin writes to the second folder.
    return folder / "inference_eval", folder / "eval" / "inference_eval", folder


def report_files(run: PathLike) -> dict[str, epath.Path]:
    """Returns family ("d3st", "t5dst") -> its newest report in a model folder."""
    newest: dict[str, tuple[int, epath.Path]] = {}
    for place in evaluation_folders(run):
        if not (place / REPORT_FOLDER).is_dir():
            continue
        for path in (place / REPORT_FOLDER).glob("*.json"):
            match = _REPORT_FILE.fullmatch(path.name)
            if match:
                found = int(match["step"]), path
                family = match["family"]
                newest[family] = max(newest.get(family, found), found)
    return {family: path for family, (_, path) in sorted(newest.items())}


def _read_run(name: str, file: epath.Path) -> Run:
    name = printable(name)
    row = Run.of_report(name, read_json(file, "Evaluate the run again."))
    return replace(row, frames=read_frames(file), place=str(file))


def read_runs(run: PathLike) -> list[Run]:
    """Returns the rows of an argument of `jaxaug report`: model folder or report.

    Raises:
        UserError: there is no report, or it cannot be read.
    """
    path = absolute(reach(run, "Name a model folder."))
    if path.is_file():
        return [_read_run(path.name.removesuffix(".json"), path)]
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
        _read_run(path.name if len(files) == 1 else f"{family} {path.name}", file)
        for family, file in files.items()
    ]


def write_tables(
    runs: Iterable[Run], csv_path: PathLike | None, png_path: PathLike | None
) -> None:
    """Writes the CSV and the PNG of a table, if their paths are given."""
    runs = list(runs)
    if csv_path:
        write_text(csv_path, csv_table(runs))
    if png_path:
        write_png(png_path, configurations(runs))
