"""Writes the synonyms of the rewording grammar that labels confirm.

    python benchmarks/confirm_senses.py

Reads the labels of `results/grammar/readings.tsv` and of
`papers/jaxaug_papers/tree/readings`, and derives each text again. A synonym is
confirmed if it occurs in a right text, and in six times as many right texts as wrong
ones. Writes `jaxaug/augment/grammar/confirmed.txt`. For each set of readings it
prints how many texts have confirmed synonyms alone, and how many of them are right,
without the labels of the set itself.
"""

import collections
import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxaug.augment.grammar import engine
from jaxaug.augment.grammar.context import Context

ROOT = Path(__file__).resolve().parent.parent
READINGS = ROOT / "results/grammar/readings.tsv"
TREE = ROOT / "papers/jaxaug_papers/tree/readings"
TABLE = ROOT / "jaxaug/augment/grammar/confirmed.txt"
RIGHT = ("faithful", "trivial")
_TIMES, _MANY = 6, 1500
_WORD = re.compile(r"[^\W\d_]+")
_HEADER = """\
# Synonyms of senses.txt and wordnet.txt that labels confirm; written by
# benchmarks/confirm_senses.py, not by hand.
"""


class Text(NamedTuple):
    """A labeled text: name of its set, whether it is right, names of its synonyms."""

    of: str
    is_right: bool
    synonyms: frozenset[str]


def main() -> None:
    """Runs the program."""
    texts = list(derived())
    names = sorted(confirmed(texts))
    TABLE.write_text(_HEADER + "".join(f"{name}\n" for name in names))
    print(f"{len(texts):,} texts, {len(names)} confirmed synonyms: {TABLE.name}")
    print("| set | texts | right | with confirmed synonyms alone | right |")
    print("|---|---|---|---|---|")
    for name in dict.fromkeys(text.of for text in texts):
        others = confirmed([text for text in texts if text.of != name])
        own = [text for text in texts if text.of == name]
        kept = [text for text in own if text.synonyms <= others]
        print(f"| {name} | {len(own)} | {share(own)} | {len(kept)} | {share(kept)} |")


def share(texts: Sequence[Text]) -> str:
    """Returns the share of right texts in per cent."""
    return f"{sum(t.is_right for t in texts) / len(texts):.0%}" if texts else "-"


def confirmed(texts: Sequence[Text]) -> set[str]:
    """Returns the names of the synonyms that the labels of these texts confirm."""
    right: collections.Counter[str] = collections.Counter()
    wrong: collections.Counter[str] = collections.Counter()
    for text in texts:
        (right if text.is_right else wrong).update(text.synonyms)
    return {name for name, count in right.items() if count >= _TIMES * wrong[name]}


def derived() -> Iterator[Text]:
    """Yields the labeled texts that the grammar still derives."""
    known: dict[tuple[str, str, str], dict[str, engine.Steps]] = {}
    for of, context, kind, original, text, label in labeled():
        key = original, kind, context
        if key not in known:
            known[key] = _results(*key)
        steps = known[key].get(text.lower())
        if steps is not None:
            names = {part for step, _ in steps for part in step.split(", ")}
            synonyms = frozenset(name for name in names if " -> " in name)
            yield Text(of, label in RIGHT, synonyms)


def _results(original: str, kind: str, context: str) -> dict[str, engine.Steps]:
    words = frozenset(_WORD.findall(context.lower()))
    found: dict[str, engine.Steps] = {}
    for is_flag in (True, False) if kind == "slot" else (False,):
        place = Context(kind, service=words, is_flag=is_flag)
        for one in engine.reword(original, place, _MANY):
            found.setdefault(one.text.lower(), one.steps)
    return found


def labeled() -> Iterator[tuple[str, str, str, str, str, str]]:
    """Yields set, context, kind, original, text, and label of every reading."""
    for row in _rows(READINGS):
        if row["label"] != "original":
            names = ("set", "context", "kind", "original", "text", "label")
            yield tuple(row[name] for name in names)  # type: ignore[misc]
    for row in _rows(TREE / "candidates.tsv"):
        if row["source"] == "grammar":
            name = f"{row['domain']}, candidates"
            text = row["original"], row["candidate"]
            yield name, "", row["kind"], *text, row["label"]
    for row in _rows(TREE / "minisgd_tree.tsv"):
        yield "MiniSGD", "", row["kind"], row["original"], row["text"], row["first"]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


if __name__ == "__main__":
    main()
