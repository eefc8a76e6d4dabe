"""The stage of a run in which the judge drops what says something else.

Of what filters and siblings leave, each candidate is judged beside its description (see
`jaxaug.augment.judge.verdicts`); reasons begin with `judge: `.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import verdicts
from jaxaug.augment.judge.features import SLOT, Pair
from jaxaug.augment.result import Judged
from jaxaug.core.shards import Json, Shards, Stage

REASON = "judge"


def judge(
    options: Mapping[str, str],
    descriptions: Sequence[Description],
    judged: Sequence[tuple[Judged, ...]],
    shards: Shards,
) -> list[tuple[Judged, ...]]:
    """The same candidates, and those dropped that the judge does not keep.

    Args:
      options: of `verdicts.judge`.
      descriptions: of the schema.
      judged: candidates of each; those that are dropped already stay as they are.
      shards: of all runs.

    Raises:
      UserError: see `verdicts.judge`.
    """
    stage = Stage(
        "meaning",
        {"judge": verdicts.identity(**options)},
        lambda items: _reasons(verdicts.judge(**options), items),
        "the judge",
    )
    kept = [[one for one in part if not one.dropped] for part in judged]
    items: list[Json] = [
        [_kind(one), one.text, [j.candidate.text for j in part]]
        for one, part in zip(descriptions, kept, strict=True)
    ]
    # Texts that services share are judged once.
    keys = [(kind, text, *texts) for kind, text, texts in items]
    distinct = dict(zip(keys, items, strict=True))
    found = dict(zip(distinct, shards.run(stage, list(distinct.values())), strict=True))
    return [
        _dropped(part, dict(zip(key[2:], found[key], strict=True)))
        for part, key in zip(judged, keys, strict=True)
    ]


def _dropped(
    part: Sequence[Judged], reasons: Mapping[str, Sequence[str]]
) -> tuple[Judged, ...]:
    return tuple(
        dataclasses.replace(
            one,
            dropped=tuple(f"{REASON}: {code}" for code in reasons[one.candidate.text]),
        )
        if not one.dropped
        else one
        for one in part
    )


def _reasons(judge: Any, items: Sequence[Json]) -> list[Json]:
    pairs = [Pair(kind, text, other) for kind, text, texts in items for other in texts]
    found = iter(judge.verdicts(pairs))
    return [[list(next(found).reasons) for _ in texts] for _, _, texts in items]


def _kind(one: Description) -> str:
    """Names of slots are judged as slots, others as they are."""
    return SLOT if one.kind.startswith(SLOT) else one.kind
