"""Measures how well the likelihood of a language model separates good rewordings.

    jaxaug models fetch smollm2
    python benchmarks/fluency.py [--model smollm2]

Reads the labelled pairs of `papers/jaxaug_papers/tree/readings` and
`results/grammar/readings.tsv`. For each file and each bad label, it prints the area
under the ROC curve of the metric `fluency` (0.5 is chance). The second area is over
pairs of equal originals, which a ranking compares. Then it prints how many texts of
each label a threshold drops.
"""

import argparse
import csv
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxaug.augment.judge import measures

ROOT = Path(__file__).resolve().parents[1]
READINGS = ROOT / "papers/jaxaug_papers/tree/readings"
GOOD, BAD = "faithful", ("changed", "broken")
THRESHOLDS = (-1.0, -2.0, -3.0)


class Pair(NamedTuple):
    """A labelled pair: the name of its set, original, text, label."""

    name: str
    original: str
    text: str
    label: str


def read_all() -> Iterator[Pair]:
    """The pairs of all files; of two readers those on which both agree."""
    for row in _rows(READINGS / "candidates.tsv"):
        name = f"candidates.tsv, {row['source']}"
        yield Pair(name, row["original"], row["candidate"], row["label"])
    for file, text in (("judge.tsv", "candidate"), ("minisgd_tree.tsv", "text")):
        for row in _rows(READINGS / file):
            if (row["first"] == GOOD) is (row["second"] == GOOD):
                yield Pair(file, row["original"], row[text], row["first"])
    for row in _rows(ROOT / "results/grammar/readings.tsv"):
        yield Pair("readings.tsv", row["original"], row["text"], row["label"])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def area(good: Sequence[float], bad: Sequence[float]) -> tuple[float, int]:
    """Returns the wins of good over bad values, ties as halves, and the pairs."""
    wins = [0.5 * ((g > b) + (g >= b)) for g in good for b in bad]
    return sum(wins), len(wins)


def table(pairs: Sequence[Pair], values: Sequence[float]) -> list[str]:
    """Lines about one set."""
    lines = []
    for bad in BAD:
        groups: dict[str, dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        every: dict[str, list[float]] = defaultdict(list)
        for pair, value in zip(pairs, values, strict=True):
            groups[pair.original][pair.label].append(value)
            every[pair.label].append(value)
        whole, count = area(every[GOOD], every[bad])
        inside = [area(group[GOOD], group[bad]) for group in groups.values()]
        won, compared = map(sum, zip(*inside, strict=True))
        lines.append(
            f"  {bad}: {len(every[bad])}, area {whole / max(count, 1):.2f}; of equal "
            f"originals {won / max(compared, 1):.2f} ({compared} comparisons)"
        )
    total = Counter(pair.label for pair in pairs)
    for bound in THRESHOLDS:
        lost = Counter(p.label for p, v in zip(pairs, values, strict=True) if v < bound)
        shares = ", ".join(f"{k} {lost[k]} of {total[k]}" for k in (GOOD, *BAD))
        lines.append(f"  fluency < {bound:g} drops {shares}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    metric = measures.find("fluency", model=parser.parse_args().model)
    for name, group in itertools.groupby(
        sorted(read_all()), key=lambda pair: pair.name
    ):
        pairs = list(group)
        values = metric([p.original for p in pairs], [p.text for p in pairs])
        print(
            "\n".join(
                [
                    f"{name}: {len(pairs)} pairs",
                    *table(pairs, np.asarray(values).tolist()),
                ]
            )
        )


if __name__ == "__main__":
    main()
