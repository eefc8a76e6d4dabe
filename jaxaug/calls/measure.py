"""Computes accuracy, schema sensitivity, and the descriptions that a model misreads."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from jaxtyping import Float

from jaxaug.calls.cases import Case, arguments_of
from jaxaug.calls.match import Outcome, score, score_state
from jaxaug.calls.models import Reply
from jaxaug.calls.wordings import ORIGINAL, Text, Wordings, texts_of
from jaxaug.metrics.bootstrap import Bootstrap, Group
from jaxaug.metrics.sensitivity import coefficient_of_variation

FIGURES = ("original", "reworded", "ss", "ss_all")
KINDS = ("exact", "fuzzy")
Replies = Mapping[str, Sequence[Reply]]
"""Maps the name of a wording to the replies to its cases."""
Scores = Float[np.ndarray, "wordings cases"]
_ONE = Group("", (0,), ("",))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its 95% interval, as fractions; None if undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Described:
    """Results of one description under each of its texts.

    Attributes:
        tool: name of the tool.
        argument: name of the argument; "" if the description belongs to the tool.
        cases: number of cases that score the argument or the tool.
        options: pairs (text, share) of each wording, the given text first. The share is
            the fraction of these cases in which the argument or the tool was right.
    """

    tool: str
    argument: str
    cases: int
    options: tuple[tuple[str, float], ...]

    @property
    def given(self) -> float:
        """The share of right cases under the given text."""
        return self.options[0][1]

    @property
    def worst(self) -> tuple[str, float]:
        """The text with the smallest share, and the share."""
        return min(self.options, key=lambda one: one[1])

    @property
    def best(self) -> tuple[str, float]:
        """The text with the greatest share, and the share; the given text wins ties."""
        return max(self.options, key=lambda one: one[1])


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of a model.

    Attributes:
        wordings: names of the wordings.
        scores: maps a kind of `KINDS` to the scores [wordings, cases].
        figures: maps a kind to its figures, by their names in `FIGURES`.
        forms: maps the form of a reply to the number of such replies.
        descriptions: descriptions that a case scores, the costliest first. The cost is
            the number of cases that the best text gets right and the worst gets wrong.
        is_state: whether calls were scored as dialogue states. If so, fuzzy scores are
            the joint goal accuracy of SGD.
    """

    wordings: tuple[str, ...]
    scores: Mapping[str, Scores]
    figures: Mapping[str, Mapping[str, Figure]]
    forms: Mapping[str, int]
    descriptions: tuple[Described, ...]
    is_state: bool


def outcome(case: Case, reply: Reply, fuzzy: bool) -> Outcome:
    """Scores a reply; see `jaxaug.calls.match`."""
    if not case.is_state:
        return score(case.expected, reply.calls, fuzzy)
    return score_state(
        case.expected[0], reply.calls, arguments_of(case.tools[0]), fuzzy
    )


def measure(wordings: Wordings, replies: Replies) -> Measured:
    """Measures the replies of a model.

    Args:
        wordings: the cases under each wording.
        replies: the replies to them.
    """
    names = tuple(wordings)
    cases = wordings[ORIGINAL]
    is_state = all(case.is_state for case in cases)
    found: dict[str, list[list[Outcome]]] = {}
    for kind in KINDS:
        found[kind] = [
            [
                outcome(case, reply, kind == "fuzzy")
                for case, reply in zip(wordings[name], replies[name], strict=True)
            ]
            for name in names
        ]
    scores = {
        kind: np.array([[one.score for one in row] for row in rows])
        for kind, rows in found.items()
    }
    groups = [case.group for case in cases]
    main = found["fuzzy" if is_state else "exact"]
    return Measured(
        names,
        scores,
        {kind: figures(table, groups) for kind, table in scores.items()},
        Counter(reply.form for row in replies.values() for reply in row),
        described(wordings, main),
        is_state,
    )


def figures(scores: Scores, groups: Sequence[str]) -> dict[str, Figure]:
    """Returns the figures of `FIGURES` with intervals by a bootstrap over groups.

    Args:
        scores: score of each case under each wording; the first row is the original.
        groups: group of each case; the cases of a group are drawn together.
    """
    others = scores[1:]
    several = len(others) > 1
    variation = np.full(scores.shape[1], np.nan)
    if several:
        variation = coefficient_of_variation(others)
    every = np.where((others == 0).all(axis=0) & several, 0.0, variation)
    values = np.concatenate([scores, variation[None], every[None]])
    _, place = np.unique(groups, return_inverse=True)
    defined = ~np.isnan(values)
    size = int(place.max()) + 1
    sums, counts = (
        np.array([np.bincount(place, row, minlength=size) for row in table])
        for table in (np.where(defined, values, 0.0), defined.astype(float))
    )

    def of_means(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        nothing = np.full_like(sums, np.nan)
        means = np.divide(sums, counts, out=nothing, where=counts > 0)
        number = len(scores)
        reworded = means[..., 1:number].mean(axis=-1) if number > 1 else nothing[..., 0]
        last = (means[..., number], means[..., number + 1])
        return np.stack([means[..., 0], reworded, *last], axis=-1)

    highest = math.sqrt(max(len(others), 1))
    limits = np.array([1.0, 1.0, highest, highest])
    found = Bootstrap(sums[None], counts[None], of_means, limits).interval(_ONE)
    rows = zip(found.value, found.low, found.high, strict=True)
    numbers = ([None if np.isnan(n) else float(n) for n in row] for row in rows)
    return {n: Figure(*row) for n, row in zip(FIGURES, numbers, strict=True)}


def described(
    wordings: Wordings, outcomes: Sequence[Sequence[Outcome]]
) -> tuple[Described, ...]:
    """Returns the results of each description, the costliest first."""
    right: dict[Text, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cases, row in zip(wordings.values(), outcomes, strict=True):
        for case, one in zip(cases, row, strict=True):
            texts = texts_of(case)
            for (tool, argument), value in one.parts.items():
                key = (
                    case.names.get(tool, tool),
                    case.names.get((tool, argument), argument),
                )
                # Tools and arguments that a model invents have no description.
                if texts.get(key):
                    right[key][texts[key]].append(value)
    given: dict[Text, str] = {}
    for case in wordings[ORIGINAL]:
        given |= texts_of(case)
    found = []
    for key, options in right.items():
        first = given[key]
        if first in options:
            ordered = [first, *(text for text in options if text != first)]
            shares = tuple((text, fmean(options[text])) for text in ordered)
            found.append(Described(*key, len(options[first]), shares))
    return tuple(
        sorted(found, key=lambda one: one.cases * (one.worst[1] - one.best[1]))
    )
