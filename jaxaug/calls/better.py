"""Chooses better descriptions on half of the cases; checks them on the other half."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxaug.calls import measure, wordings
from jaxaug.calls.cases import Case, Source
from jaxaug.calls.measure import Figure, Replies
from jaxaug.calls.models import Model
from jaxaug.calls.wordings import ORIGINAL, Text, Wordings
from jaxaug.data.schema import Schema
from jaxaug.metrics.bootstrap import Bootstrap, Group


@dataclass(frozen=True, slots=True)
class Better:
    """Better descriptions, and their effect on cases that were not used to choose them.

    Attributes:
        texts: maps a description to its better text.
        schema: schema of the tools with these texts.
        cases: number of cases that the check uses.
        given: accuracy of the original descriptions on these cases, as a fraction.
        advised: accuracy of the better descriptions on them, as a fraction.
        difference: `advised` - `given`, with its 95% interval.
    """

    texts: dict[Text, str]
    schema: Schema
    cases: int
    given: float
    advised: float
    difference: Figure


def find(
    source: Source,
    asked: Wordings,
    replies: Replies,
    model: Model,
    prepared: Callable[[Sequence[Case]], Sequence[Case]],
    done: Callable[[], Any] = lambda: None,
) -> Better:
    """Returns better descriptions and their effect.

    Groups of cases alternate: the first, third, ... choose the descriptions from the
    replies so far. The model is asked again about the other groups.

    Args:
        source: the tools and their cases.
        asked: the cases under each wording.
        replies: the replies to them.
        model: the model to ask.
        prepared: function that adds solved examples to cases.
        done: function that is called after each case.
    """
    groups = list(dict.fromkeys(case.group for case in source.cases))
    chooses = set(groups[::2])
    halves = {
        name: [place for place, case in enumerate(cases) if case.group in chooses]
        for name, cases in asked.items()
    }
    first = {name: [asked[name][place] for place in halves[name]] for name in asked}
    told = {name: [replies[name][place] for place in halves[name]] for name in asked}
    texts = {
        (one.tool, one.argument): one.best[0]
        for one in measure.measure(first, told).descriptions
        if one.best[1] > one.given
    }
    schema = wordings.advised(source, texts)
    rest = [n for n, case in enumerate(source.cases) if case.group not in chooses]
    reworded = wordings.with_tools(source, schema)
    cases = [reworded[place] for place in rest]
    fuzzy = all(case.is_state for case in source.cases)
    before = [
        measure.outcome(source.cases[n], replies[ORIGINAL][n], fuzzy).score
        for n in rest
    ]
    answers = model(prepared(cases), done) if texts else []
    after = [
        measure.outcome(case, reply, fuzzy).score
        for case, reply in zip(cases, answers, strict=bool(texts))
    ] or before
    return Better(texts, schema, len(rest), *_compared(cases, before, after))


def _compared(
    cases: Sequence[Case], before: Sequence[float], after: Sequence[float]
) -> tuple[float, float, Figure]:
    if not cases:
        return np.nan, np.nan, Figure(None, None, None)
    _, place = np.unique([case.group for case in cases], return_inverse=True)
    sums = np.array([[np.bincount(place, row)] for row in (before, after)])
    counts = np.array([[np.bincount(place)]] * 2, float)
    found = Bootstrap(sums, counts, lambda s, c: s / c)
    change = found.difference(Group("", (1,), ("",)), Group("", (0,), ("",)))
    ends = (None if np.isnan(n[0]) else float(n[0]) for n in (change.low, change.high))
    return (
        float(np.mean(before)),
        float(np.mean(after)),
        Figure(float(change.value[0]), *ends),
    )
