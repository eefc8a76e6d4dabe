"""Writes the table of docs/sgd.md from results/sgd, the results of benchmarks/sgd_queue.py.

    python benchmarks/sgd_page.py            # writes
    python benchmarks/sgd_page.py --check    # fails if the page is not up to date

A row is a configuration: the mean over its seeds, a 95% interval over dialogues and seeds
(bootstrap), and the seeds of the queue that were not run. `jaxaug report results/sgd/*`
prints all differences with Holm's correction.
"""

import argparse
import collections
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxaug.metrics import report
from jaxaug.metrics.report_verb import read_all
from jaxaug.metrics.statistics import statistics_of, with_intervals

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- begin: benchmarks/sgd_page.py -->", "<!-- end -->"
HEADER = (
    "| training set | order | steps | seeds | JGA original | JGA v1-5 (95% interval) "
    "| unseen services | SS | device |"
)
Key = tuple[str, str, int]


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, default=ROOT / "docs/sgd.md")
    parser.add_argument("--results", type=Path, default=ROOT / "results/sgd")
    parser.add_argument(
        "--queue", type=Path, default=ROOT / "benchmarks/sgd_queue.jsonl"
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"sgd_page.py: error: {arguments.page}: lacks {BEGIN} ... {END}.")
    made = "\n".join(table(arguments.results, arguments.queue))
    new = f"{before}{BEGIN}\n{made}\n{END}{after}"
    if arguments.check and new != text:
        sys.exit(f"sgd_page.py: error: {arguments.page}: run benchmarks/sgd_page.py.")
    if not arguments.check:
        arguments.page.write_text(new, encoding="utf-8")


def table(results: Path, queue: Path) -> list[str]:
    """Returns the lines of the table: configurations of the queue, then others."""
    lines = queue.read_text(encoding="utf-8").splitlines()
    wanted: dict[Key, list[int]] = collections.defaultdict(list)
    for item in map(json.loads, lines):
        wanted[key_of(item)].append(item["seed"])
    finished: dict[str, dict[Key, list[dict]]] = collections.defaultdict(dict)
    for path in sorted(results.glob("*/item.json")):
        item = json.loads(path.read_text(encoding="utf-8"))
        finished[item["variants"]].setdefault(key_of(item), []).append(item)
    figures = figures_of([path.parent for path in sorted(results.glob("*/item.json"))])
    rows = [HEADER, "|" + "---|" * (HEADER.count("|") - 1)]
    for key, seeds in wanted.items():
        found = [runs[key] for runs in finished.values() if key in runs]
        rows += [row(key, runs, seeds, figures) for runs in found or [[]]]
    for runs in finished.values():
        for key in runs.keys() - wanted.keys():
            rows.append(row(key, runs[key], [], figures))
    return rows


def key_of(item: Mapping) -> Key:
    """Returns what all seeds of a configuration share, without the variants' version."""
    return item["set"], item.get("order", "mixture"), item["steps"]


def figures_of(folders: Sequence[Path]) -> dict[str, report.Run]:
    """Configuration, as `split_seed` names it -> its figures with intervals."""
    if not folders:
        return {}
    runs = read_all([str(folder) for folder in folders])
    rows = with_intervals([*runs, *report.aggregate_seeds(runs)], statistics_of(runs))
    return {
        report.split_seed(row.name.partition(" (mean")[0])[0]: row
        for row in report.configurations(rows)
    }


def row(
    key: Key,
    runs: Sequence[Mapping],
    seeds: Sequence[int],
    figures: Mapping[str, report.Run],
) -> str:
    """Returns one line of the table."""
    name, order, steps = key
    done = sorted(run["seed"] for run in runs)
    missing = sorted(set(seeds) - set(done))
    text = ", ".join(map(str, done)) or "none"
    if missing:
        text += f" (not run: {', '.join(map(str, missing))})"
    if not runs:
        cells = ["not run"] * 4 + [""]
    else:
        found = figures[report.split_seed(runs[0]["name"])[0]]
        low, high = found.intervals.get("jga_v1_5", (float("nan"),) * 2)
        devices = sorted({run["device"] for run in runs})
        cells = [
            report.cell(found, "jga_orig"),
            f"{report.cell(found, 'jga_v1_5')} ({100 * low:.1f} to {100 * high:.1f})",
            report.cell(found, "jga_v1_5_unseen"),
            report.cell(found, "ss_jga"),
            ", ".join(devices),
        ]
        if version := runs[0]["variants"]:
            name = f"{name} {version[:8]}"
    return "| " + " | ".join([name, order, f"{steps:,}", text, *cells]) + " |"


if __name__ == "__main__":
    main()
