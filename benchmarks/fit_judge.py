"""Fits the judge of `jaxaug augment judge`, and estimates its quality.

    python benchmarks/fit_judge.py                              # the grammar's judge
    python benchmarks/fit_judge.py --labelled judged.tsv [--level NAME]    # all judges
    python benchmarks/fit_judge.py --labelled judged.tsv --rules

`judged.tsv` has no header. Its columns are label (faithful, trivial, changed, broken),
kind, original, and candidate, separated by tabs. The file of this project is not in the
repository. Other labels of a model's candidates are in
`papers/jaxaug_papers/tree/readings`: `judge.tsv` (where both annotators agree) and
`candidates.tsv`. The labels of the grammar's candidates are in the latter and in
`results/grammar/readings.tsv`. The program writes
`jaxaug/augment/judge/coefficients.json`. The same files and models give the same bytes.

The program prints the tables of docs/judge.md. For each pair, fitting and the choice of
strength and threshold exclude the domain of the pair. The last row of a model's judge
evaluates it on the `test` part of `candidates.tsv`, which is never used for fitting.
`--rules` only prints the number of pairs of each label that each rule and feature
matches. Models: `jaxaug models fetch minilm smollm2`.
"""

import argparse
import csv
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxaug.augment import descriptions
from jaxaug.augment.judge import features, filters, fitting, measures, verdicts
from jaxaug.augment.judge.features import SLOT, Pair
from jaxaug.augment.judge.fitting import Aim, Labelled, Linear
from jaxaug.augment.judge.verdicts import GRAMMAR, SAMPLES, Sight
from jaxaug.core import cache_folder
from jaxaug.data import folders, minisgd
from jaxaug.data.schema import read_schema

GOOD, TRIVIAL, BAD = "faithful", "trivial", ("changed", "broken")
LABELS = (GOOD, *BAD, TRIVIAL)
TEST = "test"
AIM = Aim(0.8, 0.8)
# Regularization of the grammar's judge; ten times more or less changes little.
STRENGTH = 0.005
READ = "readings.tsv"
# Sets of readings.tsv that were made and read after the weights were fitted.
READ_AFTER = (
    "pool, pest control, observatory (read by its author)",
    "bee hive records, chess tournaments",
    "allotment gardens, piano tuning, drone flight permits",
)
# Shares of wrong texts for which the table gives the share of places that stay filled.
WRONG = (0.15, 0.1, 0.05)
LEAST = (0.7, 0.8, 0.9)
# Maximum number of judged pairs of MiniSGD.
MOST = 2000
ROOT = Path(__file__).resolve().parents[1]
READINGS = ROOT / "papers/jaxaug_papers/tree/readings"
HEAD = (
    "| judge | pairs | faithful kept | changed or broken of kept | "
    "changed or broken dropped |"
)
TITLES = {
    verdicts.WORDS: "rules",
    verdicts.SIMILARITY: "rules + MiniLM",
    verdicts.MODEL: "rules + MiniLM + SmolLM2",
}


class Item(NamedTuple):
    """A labeled pair.

    Attributes:
        file: name of the source file in the tables.
        source: one of `verdicts.SOURCES`.
        domain: domain of the text; folds do not divide domains.
        label: one of `LABELS`.
        pair: labeled pair.
    """

    file: str
    source: str
    domain: str
    label: str
    pair: Pair

    @property
    def is_test(self) -> bool:
        """The pair is only for the final test."""
        return self.file.endswith(TEST)


def read_all(labelled: Path | None, readings: Path) -> list[Item]:
    """Returns the pairs of all files, or without `labelled`, of the grammar."""
    found = [
        Item(READ, GRAMMAR, row["context"], row["label"], _pair(row, "text"))
        for row in _rows(ROOT / "results/grammar" / READ)
        if row["label"] in LABELS and row["set"] not in READ_AFTER
    ]
    for row in _rows(readings / "candidates.tsv"):
        file = f"candidates.tsv, {row['part']}"
        found.append(Item(file, row["source"], row["domain"], row["label"], _pair(row)))
    if labelled is None:
        return [item for item in found if item.source == GRAMMAR]
    known = _domains()
    for line in labelled.read_text("utf-8").splitlines():
        label, *texts = line.split("\t")
        pair = Pair(*texts)
        domain = known.get(pair.original.casefold(), pair.original)
        found.append(Item(labelled.name, SAMPLES, domain, label, pair))
    for row in _rows(readings / "judge.tsv"):
        if (row["first"] == GOOD) is (row["second"] == GOOD):
            domain = known.get(row["original"].casefold(), row["original"])
            found.append(Item("judge.tsv", SAMPLES, domain, row["first"], _pair(row)))
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _pair(row: Mapping[str, str], column: str = "candidate") -> Pair:
    return Pair(row["kind"], row["original"], row[column])


def _domains() -> dict[str, str]:
    """Returns text of MiniSGD -> domain, with the names of `candidates.tsv`."""
    names = {
        "couriers": "parcels", "homes": "apartments", "books": "library",
        "meetings": "calendar", "payments": "banks",
    }  # fmt: skip
    root = Path(minisgd.materialise(cache_folder.cache_dir()))
    found: dict[str, str] = {}
    for split in folders.SPLITS:
        schema = read_schema(folders.schema_path(root, split))
        for one in descriptions.descriptions(schema, split):
            name = one.service.partition("_")[0].lower()
            found.setdefault(one.text.casefold(), names.get(name, name))
    return found


def labelled(items: Sequence[Item], found: np.ndarray) -> Labelled:
    """Returns the training data of judges: features, and whether pairs are bad."""
    return Labelled(
        found,
        np.array([item.label in BAD for item in items]),
        [item.domain for item in items],
        np.array([bool(verdicts.rules(item.pair)) for item in items]),
    )


def line(level: str, name: str, data: Labelled, kept: np.ndarray) -> str:
    """Returns a row of the table."""
    shares = fitting.shares(kept, data.bad, data.groups)
    wrong = tuple(1.0 - shares.precision[i] for i in (0, 2, 1))
    cells = [
        f"{x:.0%} ({a:.0%} to {b:.0%})"
        for x, a, b in (shares.recall, wrong, shares.dropped)
    ]
    return f"| {TITLES[level]} | {name} | {' | '.join(cells)} |"


def fitted(
    level: str, source: str, items: Sequence[Item], found: np.ndarray
) -> tuple[Linear, list[str]]:
    """Returns the judge of a model's candidates, and its rows of the table."""
    data, aim = labelled(items, found), AIM
    files = np.array([item.file for item in items])
    own = np.array([item.source == source for item in items])
    own &= np.array([item.label != TRIVIAL for item in items])
    test = np.array([item.is_test for item in items])
    learned = data.only(own & ~test)
    judge = fitting.rounded(fitting.train(learned, aim))
    kept = fitting.kept_out_of_fold(learned, aim).astype(float)
    lines = []
    for name in dict.fromkeys(files[own & ~test]):
        chosen = files[own & ~test] == name
        lines.append(line(level, name, learned.only(chosen), kept[chosen]))
    held = data.only(own & test)
    kept = (judge.scores(held.features) <= 0) & ~held.dropped
    return judge, [*lines, line(level, f"candidates.tsv, {TEST}, {source}", held, kept)]


def fitted_sound(
    level: str, items: Sequence[Item], found: np.ndarray
) -> tuple[Linear, list[str]]:
    """Returns the judge of the grammar's candidates, and the tables of its quality."""
    data = labelled(items, found)
    odds = np.zeros(len(items))
    for held_out in fitting.folds(data.groups, len(set(data.groups)), seed=0):
        rest = data.only(~held_out)
        judge = fitting.fit(rest.features, rest.bad, STRENGTH, even=False)
        odds[held_out] = judge.scores(found[held_out])
    read = np.array([item.file == READ for item in items])
    bad, sound = data.bad[read], 1 / (1 + np.exp(odds[read]))
    domains = np.array(data.groups)[read]
    head = ["domain", "texts", "wrong"]
    head += [f"{x}, sound >= {least}" for least in LEAST for x in ("filled", "wrong")]
    rows = [head, ["---"] * len(head)]
    for name in [*dict.fromkeys(domains), ""]:
        own = (domains == name) | (name == "")
        cells = [name or "all", f"{own.sum()}", f"{bad[own].mean():.0%}"]
        for least in LEAST:
            kept = own & (sound >= least)
            wrong = f"{bad[kept].mean():.0%}" if kept.any() else "-"
            cells += [f"{kept.sum() / own.sum():.0%}", wrong]
        rows.append(cells)
    order = np.argsort(-sound, kind="stable")
    shares_wrong = np.cumsum(bad[order]) / np.arange(1, len(bad) + 1)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    shares = (
        (np.flatnonzero(shares_wrong <= most) + 1)[-1:] / len(bad) for most in WRONG
    )
    parts = [
        f"{share[0] if len(share) else 0:.0%} at most {most:.0%} wrong"
        for share, most in zip(shares, WRONG, strict=True)
    ]
    area = fitting.area(odds[read], bad)
    title = f"{TITLES[level]}: area {area:.3f}; filled: {'; '.join(parts)}"
    judge = fitting.fit(found, data.bad, STRENGTH, even=False)
    return fitting.rounded(judge), [title, *lines]


def hits(
    items: Sequence[Item], names: Sequence[str], found: np.ndarray
) -> Iterator[str]:
    """Yields table lines with the matched pairs of each rule, filter, and feature."""
    counts: dict[str, Counter[tuple[str, str]]] = {}
    totals = Counter((item.source, item.label) for item in items)
    for item, row in zip(items, found, strict=True):
        pair = item.pair
        own = [
            name for name in filters.FILTERS if name != "action" or pair.kind == SLOT
        ]
        (codes,) = filters.reasons(pair.original, [pair.candidate], names=own)
        fired = {*codes, *verdicts.rules(pair)}
        fired |= {name for name, value in zip(names, row, strict=True) if value > 0}
        for name in fired:
            counts.setdefault(name, Counter())[item.source, item.label] += 1
    columns = [(source, label) for source in verdicts.SOURCES for label in LABELS]
    yield "| hits | " + " | ".join(f"{s}: {label}" for s, label in columns) + " |"
    yield "|---" * (1 + len(columns)) + "|"
    for name, count in [("all pairs", totals), *sorted(counts.items())]:
        yield f"| {name} | " + " | ".join(str(count[c]) for c in columns) + " |"


def of_minisgd(judge: verdicts.Judge) -> str:
    """Returns the verdicts on MiniSGD's wordings: of the same and of other items."""
    root = Path(minisgd.materialise(cache_folder.cache_dir()))
    own, others = set[Pair](), set[Pair]()
    for split in folders.SPLITS:
        schema = read_schema(folders.schema_path(root, split))
        originals = descriptions.descriptions(schema, split)
        for variant in folders.variant_names(folders.sgdx_folder(root)):
            path = folders.variant_schema_path(
                folders.sgdx_folder(root), variant, split
            )
            wordings = descriptions.descriptions(read_schema(path), split)
            for one, two in itertools.product(originals, wordings):
                same_kind = one.id.split("/")[:3] == two.id.split("/")[:3]
                if one.text.casefold() != two.text.casefold() and same_kind:
                    pair = Pair(one.kind, one.text, two.text)
                    (own if one.id == two.id else others).add(pair)
    shares = []
    for pairs in (own, others - own):
        order = sorted(pairs, key=lambda p: (p.kind, p.original, p.candidate))
        chosen = random.Random(0).sample(order, min(len(order), MOST))
        kept = np.mean([one.keep for one in judge.verdicts(chosen)])
        shares.append(f"{kept:.1%} of {len(chosen):,}")
    return f"hand-written wordings kept: {shares[0]}; of other items: {shares[1]}"


def main() -> None:
    """Fits the judge and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labelled", type=Path, help="without it, only the grammar's")
    parser.add_argument("--readings", type=Path, default=READINGS)
    parser.add_argument(
        "--level", nargs="+", choices=tuple(TITLES), default=list(TITLES)
    )
    parser.add_argument(
        "--rules", action="store_true", help="print only the table of rules"
    )
    parser.add_argument("--out", type=Path, default=Path(str(measures.COEFFICIENTS)))
    arguments = parser.parse_args()
    items = read_all(arguments.labelled, arguments.readings)
    if arguments.rules:
        items = [item for item in items if not item.is_test]
        found = Sight("minilm")([item.pair for item in items])
        names = verdicts.LEVELS[verdicts.SIMILARITY][: -len(features.SENTENCES)]
        print(*hits(items, names, found[:, : len(names)]), sep="\n")
        return
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    # The other judges stay unchanged.
    judges = {
        level: {source: verdicts.coefficients(level, source) for source in known[level]}
        for level in TITLES
        if level in known
    }
    models = {
        verdicts.WORDS: ("", ""),
        verdicts.SIMILARITY: ("minilm", ""),
        verdicts.MODEL: ("minilm", "smollm2"),
    }
    for level in arguments.level:
        for source in dict.fromkeys(item.source for item in items):
            if source == GRAMMAR and level == verdicts.MODEL:
                continue
            seen = [item for item in items if item.source == source]
            started = time.process_time()
            sight = Sight(*models[level], source=source)
            found = sight([item.pair for item in seen])
            seconds = time.process_time() - started
            if source == GRAMMAR:
                judge, rows = fitted_sound(level, seen, found)
            else:
                judge, rows = fitted(level, source, seen, found)
                rows = [HEAD, "|---|---|---|---|---|", *rows]
            judges.setdefault(level, {})[source] = judge
            print(*rows, sep="\n", flush=True)
            if source == SAMPLES and level != verdicts.MODEL:  # It takes hours.
                print(f"  MiniSGD, {of_minisgd(verdicts.Judge(sight, judge))}")
            print(
                f"  {len(seen)} pairs seen in {seconds:.1f} s of CPU time", flush=True
            )
        ordered = {
            name: {s: judges[name][s] for s in verdicts.SOURCES if s in judges[name]}
            for name in TITLES
            if name in judges
        }
        arguments.out.write_text(verdicts.written(ordered), "utf-8")


if __name__ == "__main__":
    main()
