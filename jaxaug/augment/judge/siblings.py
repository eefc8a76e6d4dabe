"""Detects paraphrases with the meaning of another slot of the same service.

"Departure time of the flight" is as similar to "Arrival time of the flight" as many
good paraphrases, so no threshold drops it. A comparison with the other slots of the
service detects it: it is nearer to one of them.
"""

import collections
from collections.abc import Mapping, Sequence

from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import measures


def beside(descriptions: Sequence[Description]) -> Mapping[str, tuple[str, ...]]:
    """Returns id -> the other texts of the same kind and service.

    Services have none, as a tracker's prompt holds only one service.
    """
    groups: dict[tuple[str, str], dict[str, None]] = collections.defaultdict(dict)
    for one in descriptions:
        groups[_group(one)][one.text] = None
    return {
        one.id: tuple(
            text
            for text in groups[_group(one)]
            if text.casefold() != one.text.casefold()
        )
        for one in descriptions
    }


def nearest(
    metric: measures.Metric, items: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[list[float | None]]:
    """Returns the nearness of candidates to the other texts.

    Args:
        metric: greater is nearer.
        items: (other texts, candidates).

    Returns:
        For each item and each candidate, the greatest value against any of the other
        texts; None without other texts.

    Raises:
        UserError: the metric is not finite for a pair.
    """
    pairs = [
        (other, text) for others, texts in items for text in texts for other in others
    ]
    found = measures.compute(
        {"apart_by": metric}, [a for a, _ in pairs], [b for _, b in pairs]
    )
    values = iter(found["apart_by"])
    return [
        [
            # Seven digits, as for the candidate's own text.
            max((float(f"{next(values):.7g}") for _ in others), default=None)
            for _ in texts
        ]
        for others, texts in items
    ]


def _group(one: Description) -> tuple[str, str]:
    split, service, *_ = one.id.split("/")
    return f"{split}/{service}", one.kind
