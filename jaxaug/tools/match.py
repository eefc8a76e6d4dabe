"""Compares calls of tools with the expected ones.

There are two scores. The *exact* score is the abstract-syntax match of the Berkeley
Function Calling Leaderboard (BFCL; Patil et al., 2025). The *fuzzy* score follows joint
goal accuracy of SGD: free texts score between 0 and 1 (`jaxaug.metrics.slot_scores`).
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jaxaug.metrics.slot_scores import match_values
from jaxaug.tools.views import ABSENT, same

# BFCL ignores these characters in texts.
_IGNORED = re.compile(r"[ ,./\-_*^]")
_WRONG = 1e6  # Cost of a wrong call, above all partly right ones.

Accepted = tuple[Any, ...]
"""Accepted values of an argument. An object among them maps names to `Accepted`."""


class Call(NamedTuple):
    """A call that a model makes."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected call.

    Attributes:
        name: name of the tool.
        accepted: maps an argument to its accepted values, which may include `ABSENT`.
        listed: arguments whose values the tool lists. Fuzzy scores compare them
            exactly.
        others: names of tools that are as right as `name`.
    """

    name: str
    accepted: Mapping[str, Accepted]
    listed: Collection[str] = frozenset()
    others: Sequence[str] = ()


class Outcome(NamedTuple):
    """The score of a case.

    Attributes:
        score: score of all calls, from 0 to 1; 1 if all are right.
        parts: maps (tool, argument) to its score. The argument "" stands for the tool
            itself, which is right if it is called exactly when it should be.
    """

    score: float
    parts: Mapping[tuple[str, str], float]


def score(expected: Sequence[Expected], given: Sequence[Call], fuzzy: bool) -> Outcome:
    """Scores calls; their order does not matter.

    A call is right if it has the expected tool and an accepted value for each argument,
    and no argument is missing or unknown. The score of calls is the product of the
    scores of their arguments, or 0 if the number of calls is wrong. Calls of one tool
    are assigned to the expected ones such that this product is greatest.

    Args:
        expected: the right calls; empty if no tool should be called.
        given: the calls of a model.
        fuzzy: whether free texts may match partly.
    """
    parts: dict[tuple[str, str], float] = {}
    total = 1.0 if len(given) == len(expected) else 0.0
    own = {other: one.name for one in expected for other in one.others}
    own |= {one.name: one.name for one in expected}
    given = [Call(own.get(call.name, call.name), call.arguments) for call in given]
    names = [*(one.name for one in expected), *(call.name for call in given)]
    for tool in dict.fromkeys(names):
        wanted = [one for one in expected if one.name == tool]
        calls = [call for call in given if call.name == tool]
        table = [[_parts(one, call, fuzzy) for call in calls] for one in wanted]
        for one, told, place in zip(wanted, table, _assigned(table), strict=True):
            found = dict.fromkeys(one.accepted, 0.0) if place is None else told[place]
            found[""] = float(place is not None)
            total *= math.prod(found.values())
            for name, value in found.items():
                parts[tool, name] = min(value, parts.get((tool, name), 1.0))
        if len(calls) > len(wanted):
            parts[tool, ""] = 0.0
    return Outcome(total, parts)


def _assigned(table: Sequence[Sequence[Mapping[str, float]]]) -> list[int | None]:
    """Returns the best column of each row, all different; None if there are too few.

    The Hungarian method with shortest augmenting paths (Jonker and Volgenant, 1987).

    Args:
        table: scores of the arguments, for each expected and each given call.
    """
    rows, columns = len(table), len(table[0]) if table else 0
    if not columns or rows == columns == 1:
        return [0 if columns else None] * rows
    costs = np.zeros((rows, max(rows, columns)))
    costs[:, :columns] = [[_cost(one) for one in row] for row in table]
    costs[:, columns:] = 2 * _WRONG  # Stands for a call that is missing.
    owner = np.full(costs.shape[1], -1)
    low, high = np.zeros(rows), np.zeros(costs.shape[1])
    for start in range(rows):
        length = np.full(costs.shape[1], np.inf)
        before = np.full(costs.shape[1], -1)
        done = np.zeros(costs.shape[1], bool)
        row, column, size = start, -1, 0.0
        while row >= 0:
            reduced = size + costs[row] - low[row] - high
            shorter = ~done & (reduced < length)
            length[shorter], before[shorter] = reduced[shorter], column
            column = int(np.where(done, np.inf, length).argmin())
            size, done[column] = length[column], True
            row = int(owner[column])
        for place in np.flatnonzero(done):
            if owner[place] >= 0:
                low[owner[place]] += size - length[place]
            high[place] -= size - length[place]
        low[start] += size
        while column >= 0:
            last = int(before[column])
            owner[column] = start if last < 0 else owner[last]
            column = last
    place_of = {int(row): place for place, row in enumerate(owner) if row >= 0}
    return [place_of[n] if place_of[n] < columns else None for n in range(rows)]


def _cost(parts: Mapping[str, float]) -> float:
    """Returns the cost of a pair: a right pair has none, a wrong one more than all."""
    product = math.prod(parts.values())
    if product > 0:
        return -math.log(product)
    return _WRONG - sum(parts.values()) / len(parts)


def score_state(
    expected: Expected, given: Sequence[Call], known: Collection[str], fuzzy: bool
) -> Outcome:
    """Scores a call as a dialogue state.

    The fuzzy score is joint goal accuracy of SGD. The first call of the tool is scored,
    and its unknown arguments are ignored. Numbers and flags are compared as texts, and
    arrays by their first item. A missing call is an empty state.

    Args:
        expected: expected call, whose arguments are the annotated state.
        given: the calls of a model.
        known: names of the arguments of the tool.
        fuzzy: whether free texts may match partly.
    """
    call = next((c for c in given if c.name == expected.name), Call("", {}))
    texts = {name: _text(v) for name, v in call.arguments.items() if name in known}
    state = {name: text for name, text in texts.items() if text}
    told = _parts(expected, Call(call.name, state), fuzzy)
    parts = {(expected.name, name): told[name] for name in told}
    return Outcome(math.prod(told.values()), parts | {(expected.name, ""): 1.0})


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    return "" if value is None or isinstance(value, dict) else str(value).strip()


def _parts(expected: Expected, call: Call, fuzzy: bool) -> dict[str, float]:
    """Returns the score of each argument that is expected or given."""
    return _fields(
        expected.accepted, call.arguments, fuzzy, expected.listed if fuzzy else ()
    )


def _fields(
    wanted: Mapping[str, Accepted],
    given: Mapping[str, Any],
    fuzzy: bool,
    listed: Collection[str] = (),
) -> dict[str, float]:
    found = dict.fromkeys([*wanted, *given], 0.0)
    for name, accepted in wanted.items():
        if name not in given:
            found[name] = float(ABSENT in accepted)
        elif name in listed:
            found[name] = float(any(same(one, given[name]) for one in accepted))
        else:
            values = (_value(one, given[name], fuzzy) for one in accepted)
            found[name] = max(values, default=0.0)
    return found


def _value(wanted: Any, given: Any, fuzzy: bool) -> float:
    if isinstance(wanted, str) and isinstance(given, str):
        if fuzzy:
            return float(match_values([[wanted]], [given])[0])
        return float(plain(wanted) == plain(given))
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return math.prod(_fields(wanted, given, fuzzy).values())
    if isinstance(wanted, list) and isinstance(given, list):
        pairs = zip(wanted, given, strict=False)
        is_long = len(wanted) == len(given)
        return math.prod(_value(*pair, fuzzy) for pair in pairs) if is_long else 0.0
    return float(same(wanted, given))


def plain(text: str) -> str:
    """Returns a text as it is compared: without case, spaces, and some characters."""
    return _IGNORED.sub("", text).lower().replace("'", '"')
