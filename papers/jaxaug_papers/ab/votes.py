"""Votes on a sheet, and exact binomial tests of them."""

import collections
import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxaug.core import files
from jaxaug.core.columns import aligned
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.metrics.bootstrap import holm
from jaxaug.metrics.statistics import p_cell
from jaxaug_papers.ab.sheet import Sheet

CHOICES = ("left", "right", "none")
SETTINGS = {"questions": str, "num": int, "seed": int, "digest": str}
"""Fields of `sheet` in a file of votes, and their types."""
_FIX = "Give the file as the sheet saved it."
_LEGEND = """\
p: two-tailed exact binomial test; Holm: corrected for the number of questions. The
first test takes all votes as independent, the second compares pairs by their majority.
agreement: share of the pairs with several votes in which all chose the same file.
kappa: Cohen's, of the choices first, second, and none, mean over pairs of voters.
Choices of `none` are not tested."""


@dataclass(frozen=True)
class Votes:
    """The votes of a voter.

    Attributes:
        kind: `person` or `language model`.
        sheet: `SETTINGS` of the sheet.
        choices: (pair, question) -> one of `CHOICES`.
    """

    voter: str
    kind: str
    sheet: Mapping[str, Any]
    choices: Mapping[tuple[int, int], str]
    path: PathLike


def read(path: PathLike) -> Votes:
    """Returns the votes of a file that the sheet saved, one per question.

    Raises:
        UserError: the file is invalid, or answers a question twice.
    """
    value = _csv(path) if str(path).endswith(".csv") else files.read_json(path, _FIX)
    try:
        sheet = {name: kind(value["sheet"][name]) for name, kind in SETTINGS.items()}
        choices: dict[tuple[int, int], str] = {}
        for vote in value["votes"]:
            place = int(vote["pair"]), int(vote["question"])
            if vote["choice"] not in CHOICES:
                raise UserError(
                    f"{path}: choice {vote['choice']!r}, expected one of "
                    f"{', '.join(CHOICES)}. {_FIX}"
                )
            if place in choices:
                raise UserError(
                    f"{path}: question {place[1]} of pair {place[0]} has two votes. "
                    f"{_FIX}"
                )
            choices[place] = vote["choice"]
        return Votes(str(value["voter"]), str(value["kind"]), sheet, choices, path)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{path}: no votes of a sheet ({reason}). {_FIX}") from None


def _csv(path: PathLike) -> dict[str, Any]:
    rows = list(csv.DictReader(io.StringIO(files.read_text(path, _FIX))))
    about = rows[0] if rows else {}
    same = ("voter", "kind", *SETTINGS)
    for number, row in enumerate(rows, 2):
        for name in same:
            if row.get(name) != about.get(name):
                raise UserError(
                    f"{path}: line {number}: {name} {row.get(name)!r}, expected "
                    f"{about.get(name)!r} as in line 2. Give one file per voter."
                )
    return {**about, "sheet": about, "votes": rows}


def check(sheet: Sheet, all_votes: Sequence[Votes]) -> None:
    """Raises `UserError` unless votes belong to the sheet, one file for each voter."""
    for name, count in collections.Counter(one.voter for one in all_votes).items():
        if count > 1:
            raise UserError(
                f"voter {name!r} has {count} files. Give one file per voter, or change "
                "a name in the file."
            )
    for one in all_votes:
        if one.sheet["digest"] != sheet.digest:
            raise UserError(
                f"{one.path}: votes on the sheet {one.sheet['digest']}, and these "
                f"files make {sheet.digest}. Give the two files of the sheet, in their "
                "order."
            )
        for pair, question in one.choices:
            if not (
                0 <= pair < len(sheet.pairs) and 0 <= question < len(sheet.questions)
            ):
                raise UserError(
                    f"{one.path}: a vote on question {question} of pair {pair}; the "
                    f"sheet has {len(sheet.questions)} questions on {len(sheet.pairs)} "
                    f"pairs. {_FIX}"
                )


def binomial(wins: int, number: int) -> float:
    """Returns the exact two-tailed p-value of `wins` out of `number` fair coins.

    >>> binomial(9, 10)
    0.021484375
    """
    tail = sum(math.comb(number, i) for i in range(min(wins, number - wins) + 1))
    return min(1.0, 2 * tail / 2**number)


def report(sheet: Sheet, all_votes: Sequence[Votes], names: Sequence[str]) -> str:
    """Returns the table of the questions.

    Votes are tested as in the paper, which takes all of them as independent. Votes on
    the same pair are not, so the majorities of the pairs are tested too.
    """
    counts, majorities, undecided, agreed = [], [], [], []
    for question in range(len(sheet.questions)):
        won = [
            _won(sheet, all_votes, pair, question) for pair in range(len(sheet.pairs))
        ]
        counts.append((sum(a for a, _, _ in won), sum(b for _, b, _ in won)))
        majorities.append(
            (sum(a > b for a, b, _ in won), sum(b > a for a, b, _ in won))
        )
        undecided.append(sum(c for _, _, c in won))
        several = [(a, b) for a, b, _ in won if a + b > 1]
        agreed.append((sum(0 in one for one in several), len(several)))
    tests = [
        np.array([binomial(a, a + b) for a, b in found])
        for found in (counts, majorities)
    ]
    heads = ["", *names, "%", "none", "p", "Holm", "pairs", "p", "Holm"]
    rows = [[*heads, "agreement", "kappa"]]
    corrected = [holm(found) for found in tests]
    for place in range(len(sheet.questions)):
        (a, b), (c, d) = counts[place], majorities[place]
        same, asked = agreed[place]
        share = f"{100 * a / (a + b):.0f} : {100 * b / (a + b):.0f}" if a + b else "NA"
        rows.append(
            [
                *(str(place + 1), str(a), str(b), share, str(undecided[place])),
                *(p_cell(tests[0][place]), p_cell(corrected[0][place])),
                *(f"{c} : {d}", p_cell(tests[1][place]), p_cell(corrected[1][place])),
                f"{100 * same / asked:.0f}%" if asked else "NA",
                _kappa_cell(sheet, all_votes, place),
            ]
        )
    voters = ", ".join(
        f"{one.voter} ({one.kind}, {len(one.choices)})" for one in all_votes
    )
    return "\n".join(
        [
            f"{len(sheet.pairs)} pairs; votes of {voters}",
            *(f"{place}. {text}" for place, text in enumerate(sheet.questions, 1)),
            "",
            aligned(rows),
            "",
            _LEGEND,
        ]
    )


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Returns Cohen's kappa of two voters, or None if chance alone always agrees."""
    number = len(pairs)
    counts = [collections.Counter(side) for side in zip(*pairs, strict=True)]
    chance = sum(counts[0][one] * counts[1][one] for one in counts[0]) if counts else 0
    if chance == number**2:
        return None
    agreed = sum(a == b for a, b in pairs) * number
    return (agreed - chance) / (number**2 - chance)


def _kappa_cell(sheet: Sheet, all_votes: Sequence[Votes], question: int) -> str:
    """Returns the mean kappa over all pairs of voters."""
    found = []
    for voters in itertools.combinations(all_votes, 2):
        choices = [
            (_choice(sheet, voters[0], pair, question),
             _choice(sheet, voters[1], pair, question))
            for pair in range(len(sheet.pairs))
        ]  # fmt: skip
        value = kappa([(a, b) for a, b in choices if a and b])
        found += [] if value is None else [value]
    return f"{sum(found) / len(found):.2f}" if found else "NA"


def _won(
    sheet: Sheet, all_votes: Sequence[Votes], pair: int, question: int
) -> tuple[int, int, int]:
    """Returns the votes for the first file, for the second, and for none."""
    choices = [_choice(sheet, one, pair, question) for one in all_votes]
    return choices.count("first"), choices.count("second"), choices.count("none")


def _choice(sheet: Sheet, votes: Votes, pair: int, question: int) -> str | None:
    """Returns `first`, `second`, or `none`; None if the voter has not answered."""
    choice = votes.choices.get((pair, question))
    if choice in (None, "none"):
        return choice
    return "first" if (choice == "left") == sheet.first_is_left[pair] else "second"
