"""Writes the tables of README.md, docs/, and papers/ from results/.

    python benchmarks/tables.py                 # writes
    python benchmarks/tables.py --check         # fails if a page is not up to date
    python benchmarks/tables.py --add RUN...    # stores runs of benchmarks/compare.sh

`--add` also stores folders of `jaxaug fewshot`.

A table is between `<!-- begin: NAME -->` and `<!-- end -->`. A run is a folder of
results/SET. Its `item.json` gives the settings, the time, and the machine.
`robustness/` has its scores, with one bit per frame and wording. Intervals over
dialogues and seeds are bootstrapped from these bits. `jaxaug report results/SET/*`
prints all differences.
"""

import argparse
import collections
import datetime
import functools
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import claims
import decoders
import numpy as np
import readings
import settle
import stored
from services import ServiceBootstrap
from sets import COMMANDS, GAINS, GUARDED, SELECTORS, SETS

from jaxaug.core.errors import UserError
from jaxaug.metrics import frames, report
from jaxaug.metrics.bootstrap import Bootstrap, holm
from jaxaug.metrics.report_verb import read_all
from jaxaug.metrics.statistics import (
    Difference,
    Statistics,
    difference_cell,
    p_cell,
    statistics_of,
    with_intervals,
)

ROOT = Path(__file__).resolve().parent.parent
MINISGD = ROOT / "results/minisgd"
SGD = ROOT / "results/sgd"
QUEUE = ROOT / "benchmarks/sgd_queue.jsonl"
ITEM = "item.json"
QUEUE_HEADER = (
    "| training set | order | steps | seeds | JGA original | JGA v1-5 (95% interval) "
    "| unseen services | SS | SS all | device |"
)
COMPARED = ("sgd", "eda_6x", "tree_6x", "aug_6x", "sgdx_6x")
MORE = ("sgd", "tree_2x", "tree_4x", "tree_6x", "apertium_6x")
Key = tuple[str, str, int]


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--add", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--commit", help="commit of the runs (default: the checkout's)")
    arguments = parser.parse_args()
    try:
        for run in arguments.add or ():
            add(run, MINISGD, arguments.commit)
        stale = {page: text for page, text in pages() if page.read_text() != text}
        if arguments.check and stale:
            names = ", ".join(str(page.relative_to(ROOT)) for page in stale)
            raise UserError(f"{names}: run `python benchmarks/tables.py`.")
        for page, text in stale.items():
            page.write_text(text, encoding="utf-8")
    except UserError as error:
        sys.exit(f"tables.py: error: {error}")


def pages() -> Iterator[tuple[Path, str]]:
    """Yields each page that has tables, and its text with tables of current results.

    The tables of claims come last, because their numbers must be on the other pages.

    Raises:
        UserError: a table has no end, or an unknown name.
    """
    folders = (ROOT / "docs", *sorted((ROOT / "papers/jaxaug_papers").glob("*")))
    others = (page for folder in folders for page in sorted(folder.glob("*.md")))
    texts = {page: page.read_text("utf-8") for page in (ROOT / "README.md", *others)}
    texts = {page: text for page, text in texts.items() if "<!-- begin: " in text}
    last = {
        f"claims-{paper}": functools.partial(claims.table, paper, trackers, texts)
        for paper in ("tree", "pcc", "dips")
    }
    known = (*TABLES, *last)
    for tables in (TABLES, last):
        for page, text in texts.items():
            texts[page] = _written(page, text, tables, known)
    yield from texts.items()


def _written(
    page: Path,
    text: str,
    tables: Mapping[str, Callable[[], list[str]]],
    known: Sequence[str],
) -> str:
    """Returns the text of a page with these tables; checks its names of tables."""
    pattern = re.compile(r"<!-- begin: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
    if text.count("<!-- begin: ") != len(pattern.findall(text)):
        raise UserError(f"{page}: a table has no `<!-- end -->`. Add it.")

    def table(found: re.Match) -> str:
        name = found[1]
        if name not in known:
            raise UserError(f"{page}: no table is named {name!r}: {list(known)}.")
        if name not in tables:
            return found[0]
        lines = "\n".join(tables[name]())
        return f"<!-- begin: {name} -->\n{lines}\n<!-- end -->"

    return pattern.sub(table, text)


def add(run: Path, results: Path, commit: str | None = None) -> None:
    """Stores the results of a finished run on MiniSGD, or of `jaxaug fewshot`.

    Raises:
        UserError: the run has no robustness report, or its name lacks set and seed.
    """
    if (run / "results.csv").exists():
        finished = (run / "results.csv").stat().st_mtime
        day = datetime.date.fromtimestamp(finished).isoformat()
        return stored.add_fewshot(run, {**stored.environment(commit), "date": day})
    named = re.fullmatch(r"(\w+?)_(\w+)-seed(\d+)", run.name)
    if not named or named[2] not in SETS:
        raise UserError(f"{run}: not FORMAT_SET-seedN with a set of {list(SETS)}.")
    found = report.read_runs(run)[0]
    source = Path(found.place)
    folder = results / run.name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / report.REPORT_FOLDER).mkdir(parents=True)
    scores = json.loads(source.read_text(encoding="utf-8"))
    for wording, services in scores["per_variant"].items():
        groups = {name: s for name, s in services.items() if name.startswith("#")}
        scores["per_variant"][wording] = groups
    target = folder / report.REPORT_FOLDER / source.name
    target.write_text(json.dumps(scores) + "\n", encoding="utf-8")
    shutil.copy(frames.frames_file(source), frames.frames_file(target))
    finished = source.stat().st_mtime
    about = {
        "name": run.name,
        "set": f"{named[1]}_{named[2]}",
        "seed": int(named[3]),
        "steps": int(source.stem.rpartition("-")[2]),
        "config": json.loads((run / "config_digest.json").read_text())["digest"],
        "variants": stored.variants_digest(named[2]),
        "command": next(
            command for end, command in COMMANDS.items() if named[2].endswith(end)
        ),
        **stored.environment(commit),
        "date": datetime.date.fromtimestamp(finished).isoformat(),
    }
    (folder / ITEM).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def compared(
    names: Sequence[str] = COMPARED, form: str = "d3st"
) -> tuple[list[report.Run], Statistics]:
    """Returns statistics of configurations of results/minisgd, in the given order."""
    folders = [
        path.parent
        for name in names
        for path in sorted(MINISGD.glob(f"{form}_{name}-seed*/{ITEM}"))
    ]
    return _statistics(folders)


def _statistics(
    folders: Sequence[Path], bootstrap: type[Bootstrap] = Bootstrap
) -> tuple[list[report.Run], Statistics]:
    if not folders:
        return [], statistics_of([])
    runs = read_all([str(folder) for folder in folders])
    statistics = statistics_of(runs, bootstrap=bootstrap)
    rows = with_intervals([*runs, *report.aggregate_seeds(runs)], statistics)
    return report.configurations(rows), statistics


@functools.cache
def trackers(kind: str) -> tuple[list[report.Run], Statistics]:
    """Returns the stored trackers that claims name: `mini`, `more`, `t5dst`, `sgd`."""
    if kind == "sgd":
        places = [path.parent for path in sorted(SGD.glob(f"*/{ITEM}"))]
        return _statistics(places, ServiceBootstrap)
    if kind == "more":
        return compared(MORE)
    return compared(form="d3st" if kind == "mini" else "t5dst")


def _label(run: report.Run) -> str:
    name = report.split_seed(run.name.partition(" (mean")[0])[0]
    return SETS[name.partition("_")[2]]


def short_table(names: Sequence[str] = COMPARED) -> list[str]:
    """Returns the table of training schemas and the three main metrics."""
    rows = ["| training schemas | JGA, originals | JGA, v1-5 | SS (lower is better) |"]
    rows.append("|---|---|---|---|")
    columns = ("jga_orig", "jga_v1_5", "ss_jga")
    for run in compared(names)[0]:
        cells = [report.cell(run, column).split()[0] for column in columns]
        rows.append("| " + " | ".join([_label(run), *cells]) + " |")
    return rows


def attack_table() -> list[str]:
    """Returns JGA under attack: mean and standard deviation over the stored runs."""
    names = ("original", "random", "worst of random", "searched")
    rows = [
        "| run | originals | random | worst of random | searched |",
        "|---" * 5 + "|",
    ]
    for name in ("tree_6x", "tree_6x_worst"):
        files = sorted((ROOT / "results/robustness").glob(f"attack_{name}-seed*.json"))
        found = [json.loads(file.read_text())["jga"] for file in files]
        values = [[100 * one[wording] for one in found] for wording in names]
        cells = [f"{fmean(one):.1f} ({stdev(one):.1f})" for one in values]
        rows.append("| " + " | ".join([f"`d3st_{name}`", *cells]) + " |")
    return rows


def minisgd_table(form: str = "d3st", names: Sequence[str] = COMPARED) -> list[str]:
    """Returns every figure of the compared sets, with deviations and an interval.

    Sets without a stored run are listed as not run.
    """
    rows = ["| training schemas | " + " | ".join(report.COLUMNS.values()) + " |"]
    rows.append("|" + "---|" * (1 + len(report.COLUMNS)))
    found = {_label(run): run for run in compared(names, form)[0]}
    for label in map(SETS.__getitem__, names):
        cells = ["not run"] if label not in found else []
        for column in report.COLUMNS if label in found else ():
            run = found[label]
            text = report.cell(run, column)
            if column == "jga_v1_5":
                text += f" ({_ends(run)})"
            cells.append(text)
        empty = [""] * (len(report.COLUMNS) - len(cells))
        rows.append("| " + " | ".join([label, *cells, *empty]) + " |")
    return rows


def minisgd_differences() -> list[str]:
    """Returns the differences of all pairs of the compared sets, in points."""
    columns = ("jga_orig", "jga_v1_5", "jga_v1_5_seen", "jga_v1_5_unseen", "ss_jga")
    header = ["difference", *(report.COLUMNS[name] for name in columns), "p (Holm)"]
    rows = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]

    def line(one: Difference) -> str:
        names = [SETS[name.partition("_")[2]] for name in (one.first, one.second)]
        cells = [difference_cell(one, column) for column in columns]
        title = f"{names[0]} - {names[1]}".replace("+ ", "")
        return "| " + " | ".join([title, *cells, p_cell(one.p_holm)]) + " |"

    return rows + [line(one) for one in compared()[1].differences]


def gains_table() -> list[str]:
    """Returns the differences of `GAINS` in points, over the seeds that both have.

    All rows are one family of Holm's correction, in each column.
    """
    columns = {"jga_orig": "originals", "jga_v1_5": "v1-5", "ss_jga": "SS"}
    rows = ["| " + " | ".join(["set", "against", "seeds", *columns.values()]) + " |"]
    rows.append("|---" * 6 + "|")
    differences: list[Difference] = []
    numbers = []
    for names in GAINS:
        found = [
            {path.name.rpartition("-")[2] for path in MINISGD.glob(f"d3st_{one}-seed*")}
            for one in names
        ]
        seeds = sorted(set.intersection(*found))
        places = [MINISGD / f"d3st_{one}-{seed}" for one in names for seed in seeds]
        differences += _statistics(places)[1].differences
        numbers.append(len(seeds))
    each = np.array([one.interval.p for one in differences]).T
    corrected = np.array([holm(p) for p in each]).T
    for names, one, p, number in zip(
        GAINS, differences, corrected, numbers, strict=True
    ):
        cells = [SETS[name].removeprefix("+ ") for name in names] + [str(number)]
        cells += [
            difference_cell(replace(one, corrected=p), column) for column in columns
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _ends(run: report.Run) -> str:
    low, high = run.intervals.get("jga_v1_5", (float("nan"),) * 2)
    return f"{100 * low:.1f} to {100 * high:.1f}"


def queue_table(results: Path = SGD, queue: Path = QUEUE) -> list[str]:
    """Returns the lines of the table: configurations of the queue, then others."""
    lines = queue.read_text(encoding="utf-8").splitlines()
    wanted: dict[Key, list[int]] = collections.defaultdict(list)
    for item in map(json.loads, lines):
        wanted[key_of(item)].append(item["seed"])
    finished: dict[str, dict[Key, list[dict]]] = collections.defaultdict(dict)
    for path in sorted(results.glob(f"*/{ITEM}")):
        item = json.loads(path.read_text(encoding="utf-8"))
        finished[item["variants"]].setdefault(key_of(item), []).append(item)
    figures = figures_of([path.parent for path in sorted(results.glob(f"*/{ITEM}"))])
    rows = [QUEUE_HEADER, "|" + "---|" * (QUEUE_HEADER.count("|") - 1)]
    for key, seeds in wanted.items():
        found = [runs[key] for runs in finished.values() if key in runs]
        rows += [queue_row(key, runs, seeds, figures) for runs in found or [[]]]
    for runs in finished.values():
        for key in runs.keys() - wanted.keys():
            rows.append(queue_row(key, runs[key], [], figures))
    return rows


def key_of(item: Mapping) -> Key:
    """Returns the shared name of a configuration's seeds, without variant digests."""
    return item["set"], item.get("order", "mixture"), item["steps"]


def figures_of(folders: Sequence[Path]) -> dict[str, report.Run]:
    """Returns configuration (named by `split_seed`) -> metrics with intervals."""
    if not folders:
        return {}
    rows = _statistics(folders, ServiceBootstrap)[0]
    return {report.split_seed(row.name.partition(" (mean")[0])[0]: row for row in rows}


def queue_row(
    key: Key,
    runs: Sequence[Mapping],
    seeds: Sequence[int],
    figures: Mapping[str, report.Run],
) -> str:
    """Returns one line of the table of the queue."""
    name, order, steps = key
    done = sorted(run["seed"] for run in runs)
    missing = sorted(set(seeds) - set(done))
    text = ", ".join(map(str, done)) or "none"
    if missing:
        text += f" (not run: {', '.join(map(str, missing))})"
    if not runs:
        cells = ["not run"] * 5 + [""]
    else:
        found = figures[report.split_seed(runs[0]["name"])[0]]
        devices = sorted({run["device"] for run in runs})
        cells = [
            report.cell(found, "jga_orig"),
            f"{report.cell(found, 'jga_v1_5')} ({_ends(found)})",
            report.cell(found, "jga_v1_5_unseen"),
            report.cell(found, "ss_jga"),
            report.cell(found, "ss_jga_all_frames"),
            ", ".join(devices),
        ]
        if digest := runs[0]["variants"]:
            selector = SELECTORS.get(digest[:8])
            name = f"{name} {digest[:8]}" + f" ({selector})" * bool(selector)
    return "| " + " | ".join([name, order, f"{steps:,}", text, *cells]) + " |"


TABLES: dict[str, Callable[[], list[str]]] = {
    "readme": short_table,
    "familiar": functools.partial(short_table, GUARDED),
    "gains": gains_table,
    "attack": attack_table,
    "stricter": functools.partial(
        short_table, ("tree_6x", "tree2_6x", "sound5_6x", "sound8_6x")
    ),
    "minisgd": minisgd_table,
    "minisgd-more": functools.partial(minisgd_table, names=MORE),
    "minisgd-differences": minisgd_differences,
    "sgd-queue": queue_table,
    "t5dst": functools.partial(minisgd_table, "t5dst"),
    "setups": functools.partial(claims.setups, trackers),
    "settle": settle.table,
    "readings": readings.table,
    "sound": readings.sound_table,
    "decoders-twitter": functools.partial(decoders.table, "twitter"),
    **{
        f"classify-{name}": functools.partial(claims.classify_table, name)
        for name in ("trec", "snips", "msrp")
    },
    **{
        f"fewshot-{name}": functools.partial(claims.fewshot_table, name)
        for name in claims.FEWSHOT_RUNS
    },
}


if __name__ == "__main__":
    main()
