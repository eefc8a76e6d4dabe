"""Labeled pairs for the judge: the corpus of rewordings, damaged texts, and readings.

An example of the corpus is good if it is one of the five rewordings. It is bad if it is
a near miss, a text of another part of the same service, or a damaged text.
"""

import csv
import functools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxaug.augment import descriptions
from jaxaug.augment.judge.features import Pair
from jaxaug.augment.language import inflection
from jaxaug.core import cache_folder
from jaxaug.data import folders, minisgd, rewordings
from jaxaug.data.schema import read_schema

ROOT = Path(__file__).resolve().parents[1]
READINGS = ROOT / "papers/jaxaug_papers/tree/readings"
GOOD, BAD = (
    ("faithful", "trivial", "same"),
    ("changed", "broken", "unfaithful", "damaged"),
)
CORPUS, PACKS = "corpus", "results/judge"
GIVEN, NEAR, OTHER, DAMAGED = "given", "near miss", "other part", "damaged"
# Of PACKS; the others only fit and test the regression.
TRAINED_PACKS = ("1", "2", "5", "6")
FOLDS = 3
HELD = 0  # the fold that the network does not see
# Domains that several files name differently.
_SAME = {
    "Find campsites and reserve pitches for tents and caravans": "campsite",
    "Have clothes washed and ironed": "laundry",
    "Hire tools and garden machines by the day": "tools",
    "Learn to drive with licensed instructors": "driving",
    "Find charging points for electric cars and pay for them": "charging",
    "Order blood tests and read the results": "laboratory",
    "Request services from your town council": "council",
    "Visit museums and buy tickets for exhibitions": "museum",
    "Blood donation appointments and donor records": "blood donation",
    "Manage blood and plasma donation appointments and screen donors for eligibility": (
        "blood donation"
    ),
    "Rent and manage allotment garden plots run by the city council": "allotments",
    "Community seed library and allotment garden association that lends seeds and rents"
    " out plots": "allotments",
    "Rent berths in marinas and manage stays of boats": "moorings",
    "Find and reserve berths and mooring buoys in harbors along the coast": "moorings",
}
# Domains of MiniSGD with the names of candidates.tsv.
_MINISGD = {
    "couriers": "parcels", "homes": "apartments", "books": "library",
    "meetings": "calendar", "payments": "banks",
}  # fmt: skip
_PREPOSITIONS = (
    "of", "for", "in", "on", "at", "to", "from", "with", "by", "about", "into",
)  # fmt: skip
_FUNCTION = (*_PREPOSITIONS, "the", "a", "an", "is", "are", "be", "that", "which", "it")


class Example(NamedTuple):
    """A pair with its label.

    Attributes:
        pair: kind, text, and rewording.
        good: whether the rewording is well formed and faithful.
        source: its file, or `CORPUS`.
        group: domain, which folds do not divide.
        how: how the rewording was made.
        is_trained: whether the network is trained on it.
    """

    pair: Pair
    good: bool
    source: str
    group: str
    how: str = ""
    is_trained: bool = True


def of_corpus(split: str, seed: int) -> list[Example]:
    """Returns examples of a split, drawn anew for each seed.

    Each record gives two rewordings, a near miss, a damaged text, and either the other
    near miss or a text of another part of the service.
    """
    rng = random.Random(f"{split} {seed}")
    records = rewordings.split(split)
    others: dict[tuple[str, str], list[rewordings.Record]] = {}
    for one in records:
        others.setdefault((one.service, one.kind), []).append(one)
    found = []
    for one in records:
        good = [one.text, *one.good]
        near, further = rng.sample(one.bad, 2)
        pairs = [
            (_some(one.text, [t for t in good if t != chosen], rng), chosen, GIVEN)
            for chosen in rng.sample(one.good, 2)
        ]
        pairs.append((_some(one.text, good, rng), near, NEAR))
        beside = [other for other in others[one.service, one.kind] if other is not one]
        if beside and rng.random() < 0.4:
            other = rng.choice(beside)
            pairs.append((one.text, rng.choice([other.text, *other.good]), OTHER))
        else:
            pairs.append((one.text, further, NEAR))
        broken = damaged(rng.choice(good), rng)
        if broken and one.kind != "name":
            pairs.append((one.text, broken, DAMAGED))
        found += [
            Example(Pair(one.kind, text, new), how == GIVEN, CORPUS, one.service, how)
            for text, new, how in pairs
        ]
    return found


def _some(text: str, others: list[str], rng: random.Random) -> str:
    """Returns the text, or three times in ten another one."""
    return text if rng.random() < 0.7 else rng.choice(others)


def of_damage(split: str, seed: int) -> list[Example]:
    """Returns pairs of a rewording, and pairs of a damaged one; two of each text."""
    rng = random.Random(f"{split} {seed}")
    found = []
    for one in rewordings.split(split):
        text, other = rng.sample([one.text, *one.good], 2)
        broken = damaged(other, rng)
        if broken and one.kind != "name":
            for candidate, is_good in ((other, True), (broken, False)):
                pair = Pair(one.kind, text, candidate)
                how = GIVEN if is_good else DAMAGED
                found.append(Example(pair, is_good, CORPUS, one.service, how))
    return found


def damaged(text: str, rng: random.Random) -> str | None:
    """Returns a text with one mistake, or None if it is too short.

    The mistakes are a lost, doubled, added, or moved word, two swapped words, a wrong
    inflection, and a wrong preposition.
    """
    for _ in range(20):
        words = text.split(" ")
        if len(words) < 3:
            return None
        place = rng.randrange(len(words) - 1)
        function = [i for i, word in enumerate(words) if word.lower() in _FUNCTION]
        how = rng.choice(
            ("lose", "lose function", "double", "swap", "form", "form", "article")
            + ("preposition", "move")
        )
        if how == "lose":
            del words[rng.randrange(len(words))]
        elif how == "lose function" and function:
            del words[rng.choice(function)]
        elif how == "double":
            words.insert(place, words[place].strip(".,?!"))
        elif how == "swap":
            words[place : place + 2] = words[place + 1], words[place]
        elif how == "form":
            words[place] = _other_form(words[place], rng)
        elif how == "article" and words[place + 1].lower() in _FUNCTION:
            words.insert(place + 1, rng.choice(("the", "a", "an")))
        elif how == "preposition":
            places = [i for i in function if words[i].lower() in _PREPOSITIONS]
            if places:
                words[rng.choice(places)] = rng.choice(_PREPOSITIONS)
        elif how == "move":
            words.insert(rng.randrange(len(words)), words.pop(place))
        written = " ".join(words)
        if written.casefold() != text.casefold():
            return written
    return None


def _other_form(word: str, rng: random.Random) -> str:
    if not word.isalpha() or len(word) < 4 or not word.islower():
        return word
    forms = {
        inflection.inflect(one.base, pos, form)
        for one in inflection.readings(word)
        for pos, form in (
            ("n", inflection.PLURAL),
            ("v", inflection.PAST),
            ("v", inflection.GERUND),
            ("", inflection.BASE),
        )
        if one.form != inflection.BASE or one.base == word
    }
    return rng.choice(sorted(forms - {word}) or [word])


def of_readings() -> list[Example]:
    """Returns the labeled outputs of generators, without repetitions.

    Two labels must agree on whether an output is good.
    """
    found: list[Example] = []
    for name in ("readings.tsv", "sound_readings.tsv"):
        for row in _rows(ROOT / "results/grammar" / name):
            labels = [row["label"]]
            found += _example(
                row, "text", labels, "results/grammar", row["context"], "grammar"
            )
    for row in _rows(READINGS / "candidates.tsv"):
        labels = [row["label"]]
        found += _example(
            row, "candidate", labels, "candidates.tsv", row["domain"], row["source"]
        )
    for name, column in (("judge.tsv", "candidate"), ("minisgd_tree.tsv", "text")):
        for row in _rows(READINGS / name):
            labels, group = [row["first"], row["second"]], _domain(row["original"])
            found += _example(row, column, labels, name, group, "model")
    for row in _rows(ROOT / "results/plain/readings.tsv"):
        found += _example(
            row, "text", [row["label"]], "results/plain", row["original"], row["set"]
        )
    for row in _rows(ROOT / "results/judge/readings.tsv"):
        labels, how = row["labels"].split(), row["generator"].split(":")[0]
        found += _example(
            row,
            "text",
            labels,
            PACKS,
            row["service"],
            how,
            row["pack"] in TRAINED_PACKS,
        )
    return list({one.pair: one for one in found}.values())


def of_judged(path: Path) -> list[Example]:
    """Returns the pairs of a file without header: label, kind, original, candidate."""
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return [
        Example(Pair(kind, text, other), label in GOOD, path.name, _domain(text))
        for label, kind, text, other in rows
    ]


def _example(
    row: dict[str, str], column: str, labels: list[str], source: str, group: str,
    how: str, is_trained: bool = True,
) -> list[Example]:  # fmt: skip
    good = {label in GOOD for label in labels}
    if len(good) > 1 or not {*labels} <= {*GOOD, *BAD}:
        return []
    pair = Pair(row["kind"], row["original"], row[column])
    return [Example(pair, good.pop(), source, _SAME.get(group, group), how, is_trained)]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


@functools.cache
def _domains() -> dict[str, str]:
    root = Path(minisgd.materialise(cache_folder.cache_dir()))
    found: dict[str, str] = {}
    for split in folders.SPLITS:
        schema = read_schema(folders.schema_path(root, split))
        for one in descriptions.descriptions(schema, split):
            name = one.service.partition("_")[0].lower()
            found.setdefault(one.text.casefold(), _MINISGD.get(name, name))
    return found


def _domain(text: str) -> str:
    """Returns the domain of a text of MiniSGD."""
    return _domains().get(text.casefold(), text)


def fold(group: str, count: int = FOLDS) -> int:
    """Returns the fold of a domain."""
    return random.Random(re.sub(r"_\d+$", "", group)).randrange(count)


def is_held(one: Example) -> bool:
    """Returns whether a labeled output is no training example of the network."""
    return not one.is_trained or fold(one.group) == HELD
