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

from jaxaug.metrics.slot_scores import match_values

ABSENT = object()
"""Marks an argument that may be left out; stands among its accepted values."""
# BFCL ignores these characters in texts.
_IGNORED = re.compile(r"[ ,./\-_*^]")

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
    """

    name: str
    accepted: Mapping[str, Accepted]
    listed: Collection[str] = frozenset()


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
    scores of their arguments, or 0 if the number of calls is wrong.

    Args:
        expected: the right calls; empty if no tool should be called.
        given: the calls of a model.
        fuzzy: whether free texts may match partly.
    """
    rest = list(given)
    parts: dict[tuple[str, str], float] = {}
    total = 1.0 if len(given) == len(expected) else 0.0
    for one in expected:
        found = [
            (_parts(one, call, fuzzy), call) for call in rest if call.name == one.name
        ]
        if found:
            told, call = max(found, key=lambda pair: math.prod(pair[0].values()))
            rest.remove(call)
        else:
            told = dict.fromkeys(one.accepted, 0.0)
        told[""] = float(bool(found))
        total *= math.prod(told.values())
        for name, value in told.items():
            key = (one.name, name)
            parts[key] = min(value, parts.get(key, 1.0))
    for call in rest:
        parts[call.name, ""] = 0.0
    return Outcome(total, parts)


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
            found[name] = float(given[name] in accepted)
        else:
            found[name] = max(_value(one, given[name], fuzzy) for one in accepted)
    return found


def _value(wanted: Any, given: Any, fuzzy: bool) -> float:
    if isinstance(wanted, str) and isinstance(given, str):
        if fuzzy:
            return float(match_values([[wanted]], [given])[0])
        return float(_plain(wanted) == _plain(given))
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return math.prod(_fields(wanted, given, fuzzy).values())
    if isinstance(wanted, list) and isinstance(given, list):
        pairs = zip(wanted, given, strict=False)
        same = len(wanted) == len(given)
        return math.prod(_value(*pair, fuzzy) for pair in pairs) if same else 0.0
    # In Python True equals 1.
    return float(
        isinstance(wanted, bool) == isinstance(given, bool) and wanted == given
    )


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
