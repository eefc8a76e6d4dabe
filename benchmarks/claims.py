"""The tables of docs/results.md: claims of the papers, and stored results.

`results/claims.toml` has the claims; its head explains the templates. A claim whose
setup has one training seed cannot hold, and a claim whose setup resamples nothing stays
open. A number needs stored data or a source. `settle` has the hours that would settle
the open claims, and `decoders` the decoders on Twitter's pairs.
"""

import csv
import functools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import sentences
from scipy import special

from jaxaug.core.errors import UserError
from jaxaug.metrics import power, report
from jaxaug.metrics.bootstrap import FIGURES, holm
from jaxaug.metrics.statistics import ALPHA, HEADLINE, Statistics, p_cell
from jaxaug.metrics.statistics import Difference as TrackerDifference
from jaxaug_papers.shared.seeds import Difference, difference, spread

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = ROOT / "results/claims.toml"
FEWSHOT = ROOT / "results/fewshot"
FEWSHOT_RUNS = tuple(json.loads((FEWSHOT / "runs.json").read_text()))
_TEMPLATE = re.compile(r"\{(\w+):([^:{}]+(?::[^:{}]+)*?)\}")
OPEN = ("not run", "not settled", "same direction", "opposite direction", "mixed")
"""Beginnings of the verdicts that need no interval."""
TESTED = {True: 448, False: 12_250}
"""Number of test sentences: of COVID-Q, and of HuffPost."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TRACKERS = ("mini", "more", "selectors", "t5dst", "sgd")
Compared = Callable[[str], tuple[list[report.Run], Statistics]]


@functools.cache
def claims() -> dict[str, Any]:
    """Returns the setups and the claims."""
    return tomllib.loads(CLAIMS.read_text(encoding="utf-8"))


def table(paper: str, compared: Compared, pages: Mapping[Path, str]) -> list[str]:
    """Returns the claims of a paper.

    Args:
        paper: `tree`, `pcc`, or `dips`.
        compared: `mini` or `sgd` -> runs and statistics of the stored trackers.
        pages: page -> its text with current tables; other sources are read.

    Raises:
        UserError: see `check`.
    """
    rows = ["| claim | paper | ours | setup | verdict |", "|---|---|---|---|---|"]
    for claim in claims()["claim"]:
        if claim["paper"] == paper:
            check(claim, pages)
            check_holds(claim, compared)
            ours = _filled(claim["ours"], compared)
            cells = [claim["claim"], claim["theirs"], ours]
            rows.append(f"| {' | '.join([*cells, claim['setup'], claim['verdict']])} |")
    return rows


def check(claim: Mapping[str, str], pages: Mapping[Path, str]) -> None:
    """Checks the verdict and the numbers of a claim.

    Raises:
        UserError: it holds with one seed, it is decided although its setup resamples
            neither seeds nor units, or a number has no source.
    """
    where = f"results/claims.toml: {claim['claim']!r}"
    if re.search(r"\bholds\b", claim["verdict"]) and _setup(claim)["seeds"] == 1:
        raise UserError(
            f"{where} holds with one training seed. A verdict needs several: say so."
        )
    resampled = _setup(claim)["resamples"]
    if not resampled and not claim["verdict"].startswith(OPEN):
        raise UserError(
            f"{where} is decided ({claim['verdict']!r}), but setup {claim['setup']} "
            f"resamples neither seeds nor units. Begin the verdict with one of {OPEN}."
        )
    text = _TEMPLATE.sub("", claim["ours"])
    sources = [ROOT / name for name in claim.get("source", "").split()]
    texts = [pages[one] if one in pages else one.read_text() for one in sources]
    known = set(_NUMBER.findall("\n".join(texts)))
    for number in _NUMBER.findall(_labels_removed(text)):
        if number not in known:
            raise UserError(
                f"{where}: {number} is neither a stored result nor on the page "
                f"{claim.get('source', '(no source)')}. Add its data, or its source."
            )


def _labels_removed(text: str) -> str:
    labels = r"distinct-\d|BLEU-\d|equation \d|SmolLM2(-135M)?|v1-5|T5DST|D3ST|T5|F1"
    return re.sub(rf"{labels}|G x 100", "", text)


def _setup(claim: Mapping[str, str]) -> Mapping[str, Any]:
    return claims()["setup"][claim["setup"]]


def setups(compared: Compared) -> list[str]:
    """Returns the table of setups, with the difference that each could have shown."""
    rows = ["| setup | model and data | training seeds | intervals resample | shows |"]
    rows.append("|---|---|---|---|---|")
    for name, one in claims()["setup"].items():
        seeds = str(one["seeds"]) if one["seeds"] else "-"
        cells = [name, one["what"], seeds, one["resampled"], _shows(one, compared)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _shows(setup: Mapping[str, Any], compared: Compared) -> str:
    kind = setup.get("power")
    if kind is None:
        return setup["shows"]
    if isinstance(kind, list):
        points = [
            # The deviation of these differences with this standard error.
            smallest(one.error * math.sqrt(setup["seeds"]), setup["seeds"])
            for run in kind
            for title, table in fewshot(run).items()
            if title
            for _, one in _differences(run, title, table)
        ]
    else:
        place = FIGURES.index(HEADLINE)
        points = [
            power.smallest_difference(
                HEADLINE, one.variances, one.seeds, float(one.variances.number[place])
            )
            for one in compared(kind)[1].differences
        ]
    low, high = 100 * min(points), 100 * max(points)
    return f"{low:.1f} points" if f"{low:.1f}" == f"{high:.1f}" else (
        f"{low:.1f} to {high:.1f} points"
    )  # fmt: skip


def smallest(deviation: float, number: int) -> float:
    """Returns the smallest mean of paired differences shown with probability 80%.

    Args:
        deviation: standard deviation of the differences.
        number: number of differences.
    """
    freedom, error = number - 1, deviation / math.sqrt(number)
    critical = special.stdtrit(freedom, 0.975)
    low, high = 0.0, 100 * error
    for _ in range(60):
        middle = (low + high) / 2
        shown = 1 - special.nctdtr(freedom, middle / error, critical)
        low, high = (middle, high) if shown < power.POWER else (low, middle)
    return high


def _filled(text: str, compared: Compared) -> str:
    def cell(found: re.Match) -> str:
        kind, rest = found[1], found[2].split(":")
        if len(rest) not in (2, 3):
            raise UserError(f"{found[0]}: expected {{KIND:NAME:NAME}}.")
        if kind == "fewshot":
            return _fewshot_cell(*rest)
        if kind == "schema":
            return _schema_cell(*rest)
        if kind in sentences.STORES:
            return sentences.cell(sentences.STORES[kind], *rest)
        return _tracker_cell(*compared(kind), *rest)

    return _TEMPLATE.sub(cell, text)


def _tracker_cell(
    runs: Sequence[report.Run],
    statistics: Statistics,
    name: str,
    figure: str,
    ends: str = "",
) -> str:
    first, _, second = name.partition(" - ")
    if not second:
        run = _found(runs, first)
        low, high = (100 * end for end in run.intervals[figure])
        text = report.cell(run, figure).partition(" ")[0]
        return f"{text} ({low:.1f} to {high:.1f})" if ends else text
    one, sign = _tracker_difference(statistics, first, second)
    place = FIGURES.index(figure)
    value, low, high = (
        100 * sign * float(part[place])
        for part in (one.interval.value, one.interval.low, one.interval.high)
    )
    return f"{value:+.1f} ({min(low, high):.1f} to {max(low, high):.1f})"


def _tracker_difference(
    statistics: Statistics, first: str, second: str
) -> tuple[TrackerDifference, int]:
    """Returns the difference of two sets, and the sign that makes it first - second."""
    for one in statistics.differences:
        names = [_short(one.first), _short(one.second)]
        if sorted(names) == sorted([first, second]):
            return one, 1 if names == [first, second] else -1
    raise UserError(f"results/claims.toml: no stored runs of {first} - {second}.")


def check_holds(claim: Mapping[str, str], compared: Compared) -> None:
    """Checks that a verdict "holds" about trackers has a difference that does.

    Raises:
        UserError: no difference in `ours` has a corrected p below 0.05.
    """
    named = [
        (found[1], *found[2].split(":"))
        for found in _TEMPLATE.finditer(claim["ours"])
        if " - " in found[2] and found[1] in _TRACKERS
    ]
    if not named or not re.search(r"\bholds\b", claim["verdict"]):
        return
    for kind, name, figure in named:
        first, _, second = name.partition(" - ")
        one, _ = _tracker_difference(compared(kind)[1], first, second)
        if one.corrected[FIGURES.index(figure)] < ALPHA:
            return
    raise UserError(
        f"results/claims.toml: {claim['claim']!r} holds, but no difference that it "
        f"names has a corrected p below {ALPHA}. Say that it is not settled."
    )


def _found(runs: Sequence[report.Run], name: str) -> report.Run:
    for run in runs:
        if _short(run.name.partition(" (mean")[0]) == name:
            return run
    raise UserError(f"results/claims.toml: no stored runs of {name!r}.")


def _short(name: str) -> str:
    """Returns the set of a run's name, without format, seed, steps, and digest."""
    set_of = report.split_seed(name)[0].partition("_")[2]
    return re.sub(r"(-[0-9a-f]{8})?(-\d+steps)?$", "", set_of)


@functools.cache
def fewshot(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Returns title of a table -> row -> scores, of a stored run.

    Scores are one bit for each seed and test sentence, [seeds, tests], if NAME.npz
    exists; otherwise the accuracies of the seeds. The title "" has the rows of all
    tables.

    Raises:
        UserError: it is not stored.
    """
    path = FEWSHOT / f"{name}.csv"
    if not path.exists():
        raise UserError(f"{path}: no such file. Store the run's results.csv there.")
    bits = path.with_suffix(".npz")
    right = {}
    if bits.exists():
        stored = np.load(bits)
        unpacked = np.unpackbits(stored["right"], axis=-1, count=int(stored["tests"]))
        right = dict(zip(stored["methods"], unpacked, strict=True))
    found: dict[str, dict[str, np.ndarray]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            seeds = [key for key in row if key.startswith("seed")]
            values = np.array([float(row[key]) for key in seeds])
            values = right.get(row["method"], values)
            found.setdefault(row["table"], {})[row["method"]] = values
            found.setdefault("", {})[row["method"]] = values
    return found


def _reference(run: str, title: str) -> str:
    with (FEWSHOT / f"{run}.csv").open(encoding="utf-8", newline="") as file:
        return next(r["reference"] for r in csv.DictReader(file) if r["table"] == title)


def _fewshot_cell(name: str, row: str) -> str:
    first, _, second = row.partition(" - ")
    rows = fewshot(name)[""]
    for one in filter(None, (first, second)):
        if one not in rows:
            raise UserError(f"results/fewshot/{name}.csv: no row {one!r}: {[*rows]}.")
    if not second:
        return spread(rows[first]).partition(" ")[0]
    found = _difference(name, rows[first], rows[second])
    low, high = (100 * (found.mean + s * found.half_width) for s in (-1, 1))
    return f"{100 * found.mean:+.1f} ({low:.1f} to {high:.1f})"


def _schema_cell(place: str, column: str) -> str:
    """Returns a figure of a stored report of `jaxaug augment`, x 100.

    Args:
        place: report, scheme, and variant, such as `eda/EDA/v5`.
        column: column of the report.
    """
    name, scheme, variant = place.split("/")
    path = ROOT / f"results/variants/{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (row["scheme"], row["variant"]) == (scheme, variant):
                return f"{100 * float(row[column]):.1f}"
    raise UserError(f"{path}: no variant {variant!r} of {scheme!r}.")


def _difference(run: str, first: np.ndarray, second: np.ndarray) -> Difference:
    """Returns `first` - `second` over seeds and test sentences together.

    Some runs store only accuracies. Their variance over test sentences is its upper
    bound: the two methods differ on a share of at most p + q of the sentences, and of
    2 - p - q, for accuracies p and q.
    """
    if first.ndim == 2:
        return difference(first, second)
    both = float(first.mean() + second.mean())
    gap = float(first.mean() - second.mean())
    number = TESTED["covidclu" in run]
    return difference(first, second, (min(both, 2 - both) - gap**2, number))


def _differences(
    run: str, title: str, table: Mapping[str, np.ndarray]
) -> list[tuple[str, Difference]]:
    """Returns (row, its difference to the reference) of a stored table."""
    reference = _reference(run, title)
    return [
        (row, _difference(run, values, table[reference]))
        for row, values in table.items()
        if row != reference
    ]


def fewshot_table(name: str) -> list[str]:
    """Returns the tables of a stored few-shot run, with the figures of the paper.

    All differences of the run are one family of Holm's correction. A pair of rows in
    two tables is one difference.
    """
    about = json.loads((FEWSHOT / "runs.json").read_text(encoding="utf-8"))[name]
    with (FEWSHOT / "paper.csv").open(encoding="utf-8", newline="") as file:
        paper = {
            row["row"]: row["accuracy"]
            for row in csv.DictReader(file)
            if row["table"] == name
        }
    tables = {title: rows for title, rows in fewshot(name).items() if title}
    others = {
        frozenset((row, _reference(name, title))): one.p
        for title, rows in tables.items()
        for row, one in _differences(name, title, rows)
    }
    corrected = dict(zip(others, holm(np.array([*others.values()])), strict=True))
    rows = [
        f"`{about['command']}`, {about['date']}:", "",
        ("| | paper | accuracy | difference | 95% interval | "
        f"p (Holm, all {len(others)} differences) |"),
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for title, found in tables.items():
        reference = _reference(name, title)
        theirs = paper.get(reference, "")
        rows.append(f"| {reference} | {theirs} | {spread(found[reference])} | | | |")
        for row, one in _differences(name, title, found):
            low, high = (100 * (one.mean + s * one.half_width) for s in (-1, 1))
            cells = [
                f"{row} - {reference}", paper.get(row, ""), spread(found[row]),
                f"{100 * one.mean:+.1f}", f"{low:+.1f} to {high:+.1f}",
                p_cell(float(corrected[frozenset((row, reference))])),
            ]  # fmt: skip
            rows.append(f"| {' | '.join(cells)} |")
    return rows


DISTILLED = ROOT / "results/pcc/distilled.jsonl"


def distilled() -> list[str]:
    """Returns the scores of PCC's distilled M and G: mean ± deviation over seeds."""
    lines = DISTILLED.read_text(encoding="utf-8").splitlines()
    columns: dict[tuple[str, bool], list[dict]] = {}
    for one in map(json.loads, lines):
        columns.setdefault((one["data"], one["mismatched"]), []).append(one)
    labels = {False: "released labels", True: "and mismatched pairs"}
    names = [f"{data}, {labels[mismatched]}" for data, mismatched in columns]
    rows = [f"| | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    scores = list(dict.fromkeys(key for runs in columns.values() for key in runs[0]))
    for score in scores[scores.index("pairs") + 1 :]:
        cells = [
            spread(np.array([run[score] for run in runs])) if score in runs[0] else ""
            for runs in columns.values()
        ]
        rows.append(f"| {score} | {' | '.join(cells)} |")
    return rows


CLASSIFY = ROOT / "results/classify"


def classify_table(name: str) -> list[str]:
    """Returns the stored text of `jaxaug classify` without its stars.

    The stars rest on seeds alone, and the test sets are fixed.
    """
    text = (CLASSIFY / f"{name}.txt").read_text(encoding="utf-8")
    lines = text.rstrip("\n").replace("] *", "]  ").splitlines()
    return ["", *(f"    {line}".rstrip() for line in lines), ""]


SGD = ROOT / "results/sgd"
QUEUE = ROOT / "papers/jaxaug_papers/tree/queue.jsonl"
DOLLARS_GPU = 3.0
"""Assumed price of an hour of an H100 or H200."""
# T5 base has 248 M weights and SmolLM2 135 M: a position costs that much more.
_BASE = 248 / 135
# Of one core: the PCC page, and the header of configs/paraphrase_lstm.gin.
_HUFF_FILES, _HUFF_HOURS = 2, 2.5
_AMAZON_HOURS = 12
_PERSONA_MINUTES = 50
_LSTM_MINUTES = 45
# Three people vote on Tables 6 and 10, 800 questions each, ten seconds a vote.
_VOTES, _SECONDS_A_VOTE = 3 * 2 * 800, 10


def settle() -> list[str]:
    """Returns what would settle the open claims, with hours from measured runs."""
    items = [json.loads(p.read_text()) for p in sorted(SGD.glob("*/item.json"))]
    queue = [json.loads(line) for line in QUEUE.read_text().splitlines()]
    done = {(one["set"], one["steps"], one["seed"], one["order"]) for one in items}
    left = [
        one
        for one in queue
        if (one["set"], one["steps"], one["seed"], one.get("order", "mixture"))
        not in done
    ]
    step = _mean(one["train_seconds"] / one["steps"] for one in items)
    rest = _mean(one["compile_seconds"] + one["evaluate_seconds"] for one in items)
    seconds = sum(one["steps"] * step + rest for one in left)
    speed = _mean(one["positions_per_second"] for one in items) / _BASE
    base = 100_000 * 32 * (1024 + 256) / speed
    votes = _VOTES * _SECONDS_A_VOTE / 3600
    levels = _HUFF_FILES * _HUFF_HOURS
    rows = [
        "| open | command | hardware | hours | dollars | arithmetic |",
        "|---|---|---|---|---|---|",
        _row(
            "SmolLM2 on SGD: seeds, EDA, oracle, orders, T5DST",
            "`jaxaug_papers.tree.queue`", "one H200", seconds / 3600, DOLLARS_GPU,
            f"{len(left)} runs; {step:.2f} s a step and {rest:.0f} s to compile and "
            "evaluate (`results/sgd`); the set `tree` needs the variants of commit "
            "6246824a",
        ),
        _row(
            "Table 2 of the tree's paper, 9 rows of D3ST, three seeds",
            "`papers/jaxaug_papers/tree/paper.sh`", "one H200", 27 * base / 3600,
            DOLLARS_GPU,
            f"27 runs of at most 100,000 x 32 x 1,280 positions, {speed:,.0f} a "
            f"second: SmolLM2's {speed * _BASE:,.0f} by the ratio of weights",
        ),
        _row(
            "PCC's own paraphrases on HuffPost", "`jaxaug levels`, then "
            "`jaxaug fewshot`", "one CPU core", levels, 0.0,
            f"{_HUFF_FILES} files of {_HUFF_HOURS} hours",
        ),
        _row(
            "G, T: three seeds of the LSTM of 3,750 steps", "`--gin_file=configs/runs/"
            "quora_small.gin`, then `jaxaug classify`", "one CPU core",
            3 * _LSTM_MINUTES / 60, 0.0,
            f"3 trainings of {_LSTM_MINUTES} minutes; decoding is not measured",
        ),
        _row(
            "Amazon with paraphrases", "the same", "one CPU core",
            2 * _AMAZON_HOURS, 0.0, f"2 files of {_AMAZON_HOURS} hours",
        ),
        _row(
            "P: SmolLM2 with the originals, variants, and PCC, three seeds",
            "`--gin_file=configs/runs/personachat_lora.gin`", "one CPU core with AMX",
            9 * _PERSONA_MINUTES / 60, 0.0,
            f"9 runs of {_PERSONA_MINUTES} minutes, from the file's header",
        ),
        _row(
            "Tables 6 and 10 of PCC", "`jaxaug papers ab`", "three people", votes, None,
            f"{_VOTES:,} votes of {_SECONDS_A_VOTE} s (assumed)",
        ),
    ]  # fmt: skip
    return rows


def _row(
    name: str, command: str, hardware: str, hours: float, price: float | None, how: str
) -> str:
    dollars = "-" if price is None else f"{hours * price:,.0f}"
    cells = [name, command, hardware, f"{hours:,.1f}", dollars, how]
    return f"| {' | '.join(cells)} |"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


STORE = ROOT / "results/decoders"
# Kumar et al. (2019), Tables 3 and 4: BLEU, METEOR, and distinct-1 to 4 on Twitter.
# Its DiPS selects at every step.
TWITTER = {
    "SBS": ("51.1", "23.5", "20.0", "30.9", "38.1", "44.6"),
    "DBS": ("47.1", "22.1", "25.8", "40.7", "48.2", "53.9"),
    "VAE-SVG": ("46.7", "25.2", "19.3", "28.2", "33.3", "37.2"),
    "RbM": ("47.7", "29.3", "-", "-", "-", "-"),
    "DPP final": ("44.8", "21.4", "25.6", "41.4", "51.1", "59.0"),
    "SSR final": ("41.3", "20.0", "26.6", "43.7", "54.0", "62.4"),
    "DiPS step": ("55.3", "30.1", "28.3", "46.6", "56.7", "64.5"),
    "DiPS final": ("-",) * 6,
}
DECODER_COLUMNS = {
    "BLEU": "BLEU",
    "METEOR of the first": "METEOR",
    **{f"distinct-{n}": f"distinct-{n}" for n in range(1, 5)},
}


def decoders(name: str, store: Path = STORE) -> list[str]:
    """Returns the paper's figures next to stored ones, or "not run".

    Args:
        name: name of the stored rows.
        store: folder with `NAME.jsonl`, of which the last line of a row counts.
    """
    path = store / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {row["row"]: row for row in map(json.loads, lines)}
    titles = [f"{title} paper | ours" for title in DECODER_COLUMNS.values()]
    rows = [
        f"| model | {' | '.join(titles)} |",
        "|---" * (1 + 2 * len(DECODER_COLUMNS)) + "|",
    ]
    for model, paper in TWITTER.items():
        own = found.get(model)
        cells = [model]
        for theirs, column in zip(paper, DECODER_COLUMNS, strict=True):
            cells += [theirs, _cell(own, column) if own else "not run"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _cell(row: dict, column: str) -> str:
    """Returns mean and deviation over the sets of pairs; "-" without the column."""
    if column not in row["columns"]:
        return "-"
    values = [one[row["columns"].index(column)] for one in row["seeds"]]
    mean = f"{fmean(values):.1f}"
    return f"{mean} ± {stdev(values):.1f}" if len(values) > 1 else mean
