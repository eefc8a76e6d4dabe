"""Chooses better descriptions on half of the cases; checks them on the other half."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jaxaug.data.schema import Schema
from jaxaug.metrics.bootstrap import Figure, paired
from jaxaug.tools import measure, wordings
from jaxaug.tools.cases import Case, Source
from jaxaug.tools.measure import Replies
from jaxaug.tools.models import Reply
from jaxaug.tools.wordings import CONTROL, ORIGINAL, Text, Wordings


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

    @property
    def is_gain(self) -> bool:
        """True if the interval of the difference is above 0."""
        return bool(self.texts) and (self.difference.low or 0) > 0


def find(
    source: Source,
    asked: Wordings,
    replies: Replies,
    ask: Callable[[Sequence[Case]], Sequence[Sequence[Reply]]],
) -> Better:
    """Returns better descriptions and their effect.

    Groups of cases alternate: the first, third, ... choose the descriptions from the
    replies so far. The model is asked again about the other groups.

    Args:
        source: the tools and their cases.
        asked: the cases under each wording.
        replies: the replies to them.
        ask: returns the replies to cases, for each repeat.
    """
    groups = [case.group for case in source.cases]
    chooses = set(list(dict.fromkeys(groups))[::2])
    chosen = [n for n, group in enumerate(groups) if group in chooses]
    rest = [n for n, group in enumerate(groups) if group not in chooses]
    fuzzy = all(case.is_state for case in source.cases)
    first = {name: [cases[n] for n in chosen] for name, cases in asked.items()}
    told = {name: [[row[n] for n in chosen] for row in replies[name]] for name in asked}
    found = measure.described(first, measure.outcomes(first, told, fuzzy))
    texts = {
        (one.tool, one.argument): one.best[0]
        for one in found
        if one.best[1] > one.given
    }
    schema = wordings.advised(source, texts)

    def accuracy(
        cases: Sequence[Case], answers: Sequence[Sequence[Reply]]
    ) -> np.ndarray:
        every = measure.outcomes({"": cases}, {"": answers}, fuzzy)[""]
        return np.array([[one.score for one in row] for row in every]).mean(axis=0)

    known = [*replies[ORIGINAL], *replies[CONTROL]]
    if not rest:
        return Better(texts, schema, 0, np.nan, np.nan, Figure(None, None, None))
    reworded = wordings.with_tools(source, schema)
    cases = [reworded[n] for n in rest]
    before = after = accuracy(
        [source.cases[n] for n in rest], [[row[n] for n in rest] for row in known]
    )
    if texts:
        after = accuracy(cases, ask(cases))
    clusters = np.unique([case.group for case in cases], return_inverse=True)[1]
    change = paired(after, before, clusters)
    means = float(before.mean()), float(after.mean())
    return Better(texts, schema, len(rest), *means, change)
