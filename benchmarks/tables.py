"""Writes the tables of README.md, docs/, and papers/ from results/.

    python benchmarks/tables.py                 # writes
    python benchmarks/tables.py --check         # fails if a page is not up to date
    python benchmarks/tables.py --add RUN...    # stores runs of benchmarks/compare.sh

`--add` also stores folders of `jaxaug fewshot`.

A table is between `<!-- begin: NAME -->` and `<!-- end -->`. A run is a folder of
results/SET. Its `item.json` gives the settings, the time, and the machine.
`robustness/` has its scores, with one bit per frame and wording. Intervals over
services, dialogues, and seeds are bootstrapped from these bits. `jaxaug report
results/SET/*` prints all differences, with services fixed.
"""

import argparse
import collections
import datetime
import functools
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Self

import claims
import numpy as np
import readings
import sentences
from jaxtyping import Float

from jaxaug.core.columns import markdown, markdown_head
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.metrics import frames, report
from jaxaug.metrics.bootstrap import (
    FIGURES,
    Bootstrap,
    dialogue_sums,
    figures_of,
    holm,
)
from jaxaug.metrics.frames import FrameTable
from jaxaug.metrics.report_verb import read_all
from jaxaug.metrics.sensitivity import VARIANTS as WORDINGS
from jaxaug.metrics.statistics import (
    Difference,
    Statistics,
    difference_cell,
    statistics_of,
    with_intervals,
)

ROOT = Path(__file__).resolve().parent.parent
MINISGD = ROOT / "results/minisgd"
SGD = ROOT / "results/sgd"
SGD_MINI = ROOT / "results/sgd_mini"
QUEUE = ROOT / "papers/jaxaug_papers/tree/queue.jsonl"
ITEM = "item.json"
QUEUE_HEADER = (
    "| training set | order | steps | seeds | JGA original | JGA v1-5 (95% interval) "
    "| unseen services | SS | SS all | device |"
)
COMPARED = ("sgd", "eda_6x", "tree_6x", "aug_6x", "sgdx_6x")
README = ("sgd", "edadraw_6x", *COMPARED[1:])
MORE = ("sgd", "tree_2x", "tree_4x", "tree_6x", "apertium_6x")
SELECTED = (
    "sgd",
    "edadraw_6x",
    "eda_6x",
    *(f"pool{one}_6x" for one in ("tree", "spread", "random", "faithful")),
)
CURRICULA = ("mixture", "random", "gradual", "cyclic", "inverse")
ON_SGD = ("sgd", "edadraw_6x", "gramtree_6x", "gramspread_6x", "sgdx_6x")
ALL = ("sgd", "apertium_6x", "tree_2x", "eda_6x", "tree_4x", *COMPARED[2:])
Key = tuple[str, str, int]
_RESAMPLES = 4_000
FEWSHOT = ROOT / "results/fewshot"
VARIANTS = ROOT / "papers/jaxaug_papers/minisgd/variants"
# The sets of runs in results/minisgd: their labels in tables, and their commands.
#
# The sets, folders, and mixtures are called `tree` whatever selected their variants.
# `SELECTORS` names the selector: `spread` is greedy max-min, and `tree` is the
# traversal of Algorithm 3 of Coca et al. (`walk = "rounds"`).
SETS = {
    "sgd": "originals only",
    "eda_6x": "+ five variants by EDA, draws that differ",
    "edadraw_6x": "+ five variants by EDA, one draw each, others per seed",
    "sgd_familiar": "originals only, `--familiar`",
    "sgd_corpus": "originals only, `mini` trained on the corpus",
    "tree_6x_corpus": "+ five shipped, `mini` trained on the corpus",
    "tree_6x_exercises": "+ five shipped, this `mini`, with exercises from the corpus",
    "tree_6x_familiar": "+ five shipped, `--familiar`",
    "tree_6x_consistent": "+ five shipped, consistency",
    "tree_6x_weight03": "consistency, weight 0.3",
    "tree_6x_weight1": "consistency, weight 1",
    "tree_6x_weight10": "consistency, weight 10",
    "tree_6x_mean1": "consistency, mean, weight 1",
    "tree_6x_weight1_long": "consistency, weight 1, 3,000 steps",
    "tree_6x_long": "+ five shipped, 3,000 steps",
    "many_16x": "+ fifteen by the grammar and `spread`",
    "many_16x_familiar": "+ fifteen by the grammar and `spread`, `--familiar`",
    "many_16x_likelihood": "+ fifteen by the grammar and `spread`, `--familiar`, "
    "likelihood of N=4",
    "tree_6x_worst": "+ five shipped, worst wordings",
    "tree_6x_worst_familiar": "+ five shipped, worst wordings, `--familiar`",
    "many_16x_worst": "+ fifteen by the grammar and `spread`, worst wordings",
    "many_16x_worst_familiar": "+ fifteen by the grammar and `spread`, worst wordings, "
    "`--familiar`",
    "many_16x_worst_likelihood": "+ fifteen by the grammar and `spread`, worst "
    "wordings, `--familiar`, likelihood of N=4",
    "tree2_6x": "+ five by `grammar_tree.py:0` (`spread`, any probability)",
    "sound5_6x": "+ five by `grammar_tree.py` (`spread`, least probability 0.5)",
    "sound8_6x": "+ five by `grammar_tree.py:0.8` (`spread`)",
    "reworder_6x": "+ five by the model of rewordings, or else the grammar (`spread`, "
    "least probability 0.5)",
    "pool_6x": "+ five by `pool_tree.py:0.5` (`spread`)",
    "pooltree_6x": "+ five of one pool by Algorithm 3, J <= 0.75 and one J = 0",
    "poolspread_6x": "+ five of this pool by `spread`",
    "poolrandom_6x": "+ five of this pool at random",
    "poolfaithful_6x": "+ the five most faithful of this pool",
    "gramtree_6x": "+ five by the grammar and Algorithm 3, J <= 0.75 and one J = 0",
    "gramspread_6x": "+ five by the grammar and `spread`",
    "mixture": "all levels as a mixture, equal rates",
    "random": "all levels in random order, rates of `cyclic`",
    "gradual": "gradual: originals, then v1 to v5",
    "cyclic": "cyclic: gradual, twice",
    "inverse": "inverse: v5 to v1, then originals",
    "apertium_6x": "+ five by back-translation by rules",
    "tree_2x": "+ v1 of the shipped",
    "tree_4x": "+ v1 to v3 of the shipped",
    "tree_6x": "+ five shipped: earlier grammar, `spread`",
    "aug_6x": "+ five written by hand",
    "sgdx_6x": "+ v1-5 themselves (oracle)",
}
# First digits of the digest of stored variants -> their selector.
SELECTORS = {"cfe8ff9b": "`spread`", "54839714": "`tree`, Jaccard <= 0.95"}
# Pairs of sets, of which the first one should be better.
GAINS = (
    ("tree_6x_familiar", "tree_6x"),
    ("sgd_familiar", "sgd"),
    ("many_16x", "tree_6x"),
    ("many_16x_familiar", "tree_6x_familiar"),
    ("tree_6x_consistent", "tree_6x"),
    ("tree_6x_worst", "tree_6x"),
    ("tree_6x_worst_familiar", "tree_6x_familiar"),
    ("many_16x_worst_familiar", "many_16x_familiar"),
    ("many_16x_likelihood", "many_16x_familiar"),
)
# Pairs of orders of training.
ORDERS = tuple((one, "mixture") for one in CURRICULA[1:])
_ON_SGD = (
    "with JAXAUG_DATA_DIR=SGD_SMALL and WITH='--gin_file=configs/runs/sgd_mini.gin "
    "--accept_truncation': "
)
_TRAIN = "python -m t5x.train --gin_file=configs/d3st_aug.gin"
_LONG = "--gin.TRAIN_STEPS=3000 --gin.EVAL_PERIOD=3000"
_CONSISTENCY = (
    f"{_TRAIN} --gin_file=configs/runs/consistency.gin --gin.CONSISTENCY_WEIGHT"
)
# Ends of the names of sets -> commands; {} is the format, d3st or t5dst. "" is for the
# other sets.
COMMANDS = {
    "familiar": "jaxaug robustness RUN --out OUT --familiar",
    "likelihood": "jaxaug robustness RUN --out OUT --familiar --wordings 4 --combine "
    "likelihood",
    "tree_6x_worst": f"{_TRAIN} --gin_file=configs/runs/worst.gin",
    "many_16x_worst": f"{_TRAIN} --gin_file=configs/runs/worst.gin "
    "--gin.MIXTURE_OR_TASK_NAME='d3st_many_16x'",
    **{
        f"{one}_corpus": "python -m t5x.train --gin_file=configs/"
        f"pretrain_mini_written.gin, then {_TRAIN} --gin.INITIAL_CHECKPOINT_PATH=... "
        f"--gin.MIXTURE_OR_TASK_NAME='d3st_{one}'"
        for one in ("sgd", "tree_6x")
    },
    "exercises": f"{_TRAIN} --gin_file=configs/runs/with_exercises.gin "
    "--gin.INITIAL_CHECKPOINT_PATH=...",
    "consistent": f"{_CONSISTENCY}=3.0",
    "weight03": f"{_CONSISTENCY}=0.3",
    "weight1": f"{_CONSISTENCY}=1.0",
    "weight10": f"{_CONSISTENCY}=10.0",
    "mean1": f"{_CONSISTENCY}=1.0 --gin.CONSISTENCY_TERM='mean'",
    "weight1_long": f"{_CONSISTENCY}=1.0 {_LONG}",
    "6x_long": f"{_TRAIN} {_LONG}",
    "many_16x": "jaxaug augment --variants 15 --out DATA/variants/many, then "
    f"{_TRAIN} --gin.MIXTURE_OR_TASK_NAME='d3st_many_16x'",
    **{
        f"{name}_6x": f"jaxaug augment --config configs/augment/{config} --out "
        f"DATA/{name}, then JAXAUG_VARIANTS_DIR=DATA/{name} FORMAT={{}} "
        f"SETS={name}_6x benchmarks/compare.sh"
        for name, config in {
            "tree2": "grammar_tree.py:0",
            "sound5": "grammar_tree.py",
            "sound8": "grammar_tree.py:0.8",
            "reworder": "reworder_tree.py (commit eab8b318)",
            "pool": "pool_tree.py:0.5",
            "pooltree": "pool_tree.py:0.5,pool,tree",
            "poolspread": "pool_tree.py:0.5,pool,spread",
            "poolrandom": "pool_tree.py:0.5,pool,random",
            "poolfaithful": "pool_tree.py:0.5,pool,faithful",
            "gramtree": "grammar_tree.py:0.5,tree",
            "gramspread": "grammar_tree.py:0.5,spread",
            "apertium": "apertium.py:5",
        }.items()
    },
    "edadraw_6x": "for each SEED and k: jaxaug augment --config papers/jaxaug_papers/"
    "tree/configs/augment/eda_draw.py:N --out OUT/N (N = 5 SEED + k), OUT/N/v1 to "
    "DATA/SEED/edadraw/vk, then JAXAUG_VARIANTS_DIR=DATA/SEED/edadraw FORMAT={} "
    "SETS=edadraw_6x benchmarks/compare.sh SEED",
    "": "FORMAT={} SETS=... benchmarks/compare.sh",
}


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--add", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--to", type=Path, default=MINISGD, help="folder of results for --add"
    )
    parser.add_argument(
        "--variants", type=Path, help="the variants of the runs, if not shipped"
    )
    parser.add_argument("--commit", help="commit of the runs (default: the checkout's)")
    arguments = parser.parse_args()
    try:
        for run in arguments.add or ():
            add(run, arguments.to, arguments.commit, arguments.variants)
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


def add(
    run: Path,
    results: Path,
    commit: str | None = None,
    variants: Path | None = None,
) -> None:
    """Stores the results of a finished run of compare.sh, or of `jaxaug fewshot`.

    Raises:
        UserError: the run has no robustness report, or its name lacks set and seed.
    """
    if (run / "results.csv").exists():
        finished = (run / "results.csv").stat().st_mtime
        day = datetime.date.fromtimestamp(finished).isoformat()
        return add_fewshot(run, {**environment(commit), "date": day})
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
        "variants": variants_digest(variants or VARIANTS / named[2].partition("_")[0]),
        "command": _ON_SGD * (results == SGD_MINI) + command_of(named[1], named[2]),
        **environment(commit),
        "date": datetime.date.fromtimestamp(finished).isoformat(),
    }
    (folder / ITEM).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def command_of(form: str, name: str) -> str:
    """Returns the command of a set in a format."""
    found = next(text for end, text in COMMANDS.items() if name.endswith(end))
    return found.replace("{}", form).replace("SETS=...", f"SETS={name}")


def variants_digest(folder: Path) -> str:
    """Returns the digest of a set's variants; "" for originals and SGD-X."""
    files = sorted(folder.glob("v*/train/schema.json"))
    return digest_of([json.loads(file.read_text()) for file in files]) if files else ""


def environment(commit: str | None) -> dict[str, Any]:
    """Returns the commit, the machine and the versions."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    if commit is None:
        done = subprocess.run(git, check=False, capture_output=True, text=True)
        commit = done.stdout.strip()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line for line in lines if line.startswith("model name")), "")
    return {
        "commit": commit,
        "machine": f"{os.cpu_count()} cores of {processor.partition(': ')[2]}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("jax", "flax")},
    }


def add_fewshot(folder: Path, about: Mapping[str, Any], store: Path = FEWSHOT) -> None:
    """Stores the table of a finished run of `jaxaug fewshot`.

    Args:
        folder: what the run wrote, named as by its config.
        about: commit, machine, versions, and date.
        store: results/fewshot.
    """
    name = folder.name
    config, _, data = name.partition("_") if name[:5] == "table" else (name, "", "")
    config = f"{config}.py{':' if data else ''}{data}"
    command = f"jaxaug fewshot --config configs/fewshot/{config} --data_dir data"
    shutil.copy(folder / "results.csv", store / f"{name}.csv")
    shutil.copy(folder / "right.npz", store / f"{name}.npz")
    path = store / "runs.json"
    runs = json.loads(path.read_text()) if path.exists() else {}
    runs[name] = {"command": command, **about}
    path.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n")


class ServiceBootstrap(Bootstrap):
    """A bootstrap over services, dialogues, and seeds.

    The wordings of a schema belong to services, so a figure of v1-5 depends on the
    choice of services, too. A resample draws services and dialogues with replacement,
    and each frame counts the product of its two numbers (Owen, 2007, the pigeonhole
    bootstrap). Such intervals are too wide rather than too narrow.

    The units of sums and counts are cells, service by service: a cell has the frames of
    one service in one dialogue. t has the degrees of freedom of the services that
    define a figure.
    """

    def __init__(
        self,
        sums: Float[np.ndarray, "runs means cells"],
        counts: Float[np.ndarray, "runs means cells"],
        *others: Any,
        services: int,
    ):
        """Draws services and dialogues; `others` are arguments of `Bootstrap`."""
        self._services = services
        super().__init__(sums, counts, *others)
        each = (a.reshape(*a.shape[:2], services, -1).sum(-1) for a in (sums, counts))
        defined = self._figures(*(np.moveaxis(one, -1, 0) for one in each))
        self._defining = (~np.isnan(defined)).sum(axis=0)

    @classmethod
    def of_frames(
        cls,
        tables: Sequence[FrameTable],
        resamples: int = _RESAMPLES,
        seed: int = 0,
        chunk: int = 1 << 23,
    ) -> Self:
        """Creates a bootstrap of `FIGURES`; all tables must have the same frames."""
        first = tables[0]
        services, dialogues = len(first.services), len(first.dialogues)
        cells = np.arange(services * dialogues).astype(str)
        place = first.service * dialogues + first.dialogue
        parts = [
            dialogue_sums(replace(one, dialogues=cells, dialogue=place))
            for one in tables
        ]
        sums, counts = (np.array(each) for each in zip(*parts, strict=True))
        highest = np.array(
            [math.sqrt(len(WORDINGS)) if "ss_" in name else 1.0 for name in FIGURES]
        )
        others = (figures_of, highest, resamples, seed, chunk)
        return cls(sums, counts, *others, services=services)

    def _draw(
        self,
        sums: Float[np.ndarray, "runs means cells"],
        counts: Float[np.ndarray, "runs means cells"],
        rows: int,
    ) -> None:
        services, shape = self._services, sums.shape[:2]
        cells = np.concatenate([sums, counts]).reshape(-1, sums.shape[-1])
        dialogues = cells.shape[1] // services
        columns = cells.reshape(-1, dialogues).T.copy()
        rng = np.random.default_rng(self._seed)

        def drawn(size: int, number: int) -> Float[np.ndarray, "number size"]:
            even = np.full(size, 1 / size)
            return rng.multinomial(size, even, number).astype(float)

        for start in range(0, self.resamples, rows):
            number = min(rows, self.resamples - start)
            by_service = (drawn(dialogues, number) @ columns).reshape(
                number, -1, services
            )
            totals = np.einsum("rcs,rs->rc", by_service, drawn(services, number))
            both = totals.reshape(number, 2, *shape)
            self._draws[start : start + number] = self._figures(both[:, 0], both[:, 1])


def compared(
    names: Sequence[str] = COMPARED, form: str = "d3st", results: Path = MINISGD
) -> tuple[list[report.Run], Statistics]:
    """Returns statistics of stored configurations, in the given order."""
    folders = [
        path.parent
        for name in names
        for path in sorted(results.glob(f"{form}_{name}-seed*/{ITEM}"))
    ]
    return _statistics(folders)


def _statistics(folders: Sequence[Path]) -> tuple[list[report.Run], Statistics]:
    if not folders:
        return [], statistics_of([])
    runs = read_all([str(folder) for folder in folders])
    statistics = statistics_of(runs, _RESAMPLES, bootstrap=ServiceBootstrap)
    rows = with_intervals([*runs, *report.aggregate_seeds(runs)], statistics)
    return report.configurations(rows), statistics


@functools.cache
def trackers(kind: str) -> tuple[list[report.Run], Statistics]:
    """Returns the stored trackers that claims name: `mini`, `more`, `t5dst`, `sgd`."""
    if kind == "sgd":
        return compared(ON_SGD, results=SGD_MINI)
    if kind in ("more", "selectors"):
        return compared(MORE if kind == "more" else SELECTED)
    return compared(form="d3st" if kind == "mini" else "t5dst")


def _label(run: report.Run, runs: Sequence[report.Run] = ()) -> str:
    """Returns the label of a set, with its seeds if other sets of `runs` have more."""
    name = report.split_seed(run.name.partition(" (mean")[0])[0]
    label = SETS[name.partition("_")[2]]
    few, most = _seeds(run), max(map(_seeds, runs), default=0)
    return f"{label} ({few} seed{'s' * (few > 1)})" if few < most else label


def _seeds(run: report.Run) -> int:
    return int(run.name.partition(" (mean of ")[2].rstrip(")") or 1)


def short_table(names: Sequence[str] = COMPARED) -> list[str]:
    """Returns the table of training schemas and the main metrics."""
    rows = ["| training schemas | JGA, originals | JGA, v1-5 | SS | SS all |"]
    rows.append("|---|---|---|---|---|")
    columns = ("jga_orig", "jga_v1_5", "ss_jga", "ss_jga_all_frames")
    runs = compared(names)[0]
    for run in runs:
        cells = [report.cell(run, column).split()[0] for column in columns]
        rows.append("| " + " | ".join([_label(run, runs), *cells]) + " |")
    return rows


def suite_table() -> list[str]:
    """Returns the measurements of models on the suites of graded wordings."""
    names = ("original", "g1", "g2", "g3", "g4", "g5")
    heads = ["model", "cases", *names, "excess", "noise", "p"]
    rows = [markdown_head(heads)]
    text = (ROOT / "results/robustness/sensitivity.jsonl").read_text("utf-8")
    for one in map(json.loads, text.splitlines()):
        if not (one.get("about") or {}).get("suite"):
            continue
        result, right = one["result"], one["exact"]["accuracy"]
        low, high = (100 * end for end in result["interval"])
        cells = [one["model"].partition(",")[0], str(result["cases"])]
        cells += [f"{100 * right[name]:.1f}" for name in names]
        cells += [f"{100 * result['excess']:.1f} ({low:.1f} to {high:.1f})"]
        cells += [f"{100 * result['within']:.1f}", f"{result['p']:.3f}"]
        rows.append(markdown(cells))
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


def minisgd_table(
    form: str = "d3st", names: Sequence[str] = ALL, results: Path = MINISGD
) -> list[str]:
    """Returns the main figures of some sets, with deviations and an interval.

    Sets without a stored run are listed as not run.
    """
    columns = {k: v for k, v in report.COLUMNS.items() if k not in WORDINGS}
    rows = ["| training schemas | " + " | ".join(columns.values()) + " |"]
    rows.append("|" + "---|" * (1 + len(columns)))
    runs = compared(names, form, results)[0]
    found = {_label(run): run for run in runs}
    for label in map(SETS.__getitem__, names):
        cells = ["not run"] if label not in found else []
        for column in columns if label in found else ():
            run = found[label]
            text = report.cell(run, column)
            if column == "jga_v1_5":
                text += f" ({_ends(run)})"
            cells.append(text)
        empty = [""] * (len(columns) - len(cells))
        if label in found:
            label = _label(found[label], runs)
        rows.append("| " + " | ".join([label, *cells, *empty]) + " |")
    return rows


def gains_table(
    pairs: Sequence[tuple[str, str]] = GAINS,
    form: str = "d3st",
    results: Path = MINISGD,
) -> list[str]:
    """Returns the differences of pairs in points, over the seeds that both have.

    All rows are one family of Holm's correction, in each column.
    """
    columns = {"jga_orig": "originals", "jga_v1_5": "v1-5", "ss_jga": "SS"}
    columns["ss_jga_all_frames"] = "SS all"
    rows = ["| " + " | ".join(["set", "against", "seeds", *columns.values()]) + " |"]
    rows.append("|---" * 7 + "|")
    differences: list[Difference] = []
    numbers = []
    for names in pairs:
        found = [
            {
                path.name.rpartition("-")[2]
                for path in results.glob(f"{form}_{one}-seed*")
            }
            for one in names
        ]
        seeds = sorted(set.intersection(*found))
        places = [results / f"{form}_{one}-{seed}" for one in names for seed in seeds]
        differences += _statistics(places)[1].differences
        numbers.append(len(seeds))
    each = np.array([one.interval.p for one in differences]).T
    corrected = np.array([holm(p) for p in each]).T
    for names, one, p, number in zip(
        pairs, differences, corrected, numbers, strict=True
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
    """Returns the table of finished configurations, then a line of the others."""
    wanted: dict[Key, list[int]] = collections.defaultdict(list)
    for item in map(json.loads, queue.read_text(encoding="utf-8").splitlines()):
        wanted[key_of(item)].append(item["seed"])
    folders = [path.parent for path in sorted(results.glob(f"*/{ITEM}"))]
    finished: dict[tuple[Key, str], list[dict]] = collections.defaultdict(list)
    for folder in folders:
        item = json.loads((folder / ITEM).read_text(encoding="utf-8"))
        finished[key_of(item), item["variants"]].append(item)
    figures = {
        report.split_seed(row.name.partition(" (mean")[0])[0]: row
        for row in _statistics(folders)[0]
    }
    rows = [QUEUE_HEADER, "|" + "---|" * (QUEUE_HEADER.count("|") - 1)]
    rows += [
        queue_row(key, runs, wanted[key], figures)
        for (key, _), runs in finished.items()
    ]
    done = {key for key, _ in finished}
    left = [f"{k[0]} ({k[1]}, {k[2]:,} steps)" for k in wanted if k not in done]
    return [*rows, "", f"Not run: {', '.join(left)}."] if left else rows


def key_of(item: Mapping) -> Key:
    """Returns the shared name of a configuration's seeds, without variant digests."""
    return item["set"], item.get("order", "mixture"), item["steps"]


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
    text = ", ".join(map(str, done))
    if missing:
        text += f" (not run: {', '.join(map(str, missing))})"
    found = figures[report.split_seed(runs[0]["name"])[0]]
    cells = [
        report.cell(found, "jga_orig"),
        f"{report.cell(found, 'jga_v1_5')} ({_ends(found)})",
        report.cell(found, "jga_v1_5_unseen"),
        report.cell(found, "ss_jga"),
        report.cell(found, "ss_jga_all_frames"),
        ", ".join(sorted({run["device"] for run in runs})),
    ]
    if digest := runs[0]["variants"]:
        selector = SELECTORS.get(digest[:8])
        name = f"{name} {digest[:8]}" + f" ({selector})" * bool(selector)
    return "| " + " | ".join([name, order, f"{steps:,}", text, *cells]) + " |"


TABLES: dict[str, Callable[[], list[str]]] = {
    "readme": functools.partial(short_table, README),
    "gains": gains_table,
    "curricula": functools.partial(minisgd_table, "d3st", CURRICULA),
    "orders": functools.partial(gains_table, ORDERS),
    "curricula-t5dst": functools.partial(minisgd_table, "t5dst", ("mixture", "cyclic")),
    "sgd-mini": functools.partial(minisgd_table, "d3st", ON_SGD, SGD_MINI),
    "sgd-mini-gains": functools.partial(
        gains_table, tuple((one, "sgd") for one in ON_SGD[1:]), "d3st", SGD_MINI
    ),
    "selectors": functools.partial(short_table, SELECTED),
    "attack": attack_table,
    "corpus": functools.partial(
        short_table,
        ("sgd", "sgd_corpus", "tree_6x", "tree_6x_corpus", "tree_6x_exercises"),
    ),
    "suite-models": suite_table,
    "stricter": functools.partial(
        short_table,
        (
            *("tree_6x", "tree2_6x", "sound5_6x", "sound8_6x"),
            *("reworder_6x", "pool_6x"),
        ),
    ),
    "minisgd": minisgd_table,
    "sgd-queue": queue_table,
    "t5dst": functools.partial(minisgd_table, "t5dst", COMPARED),
    "setups": functools.partial(claims.setups, trackers),
    "settle": claims.settle,
    "readings": readings.table,
    "domains": readings.domains_table,
    "distilled": claims.distilled,
    "decoders-twitter": functools.partial(claims.decoders, "twitter"),
    "decoders-quora": sentences.quora,
    "samplers": sentences.samplers,
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
