"""Which candidates of a description become its variants."""

import dataclasses
import zlib
from collections.abc import Sequence

from jaxaug.augment import decisions, tree
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decided
from jaxaug.augment.descriptions import Description
from jaxaug.augment.result import Judged, Result

SELDOM, CONSTRAINT = "seldom", "constraint"
"""Reasons of the selection beside `decisions.REJECTED`; constraints follow a colon."""
REASONS = (SELDOM, CONSTRAINT, decisions.REJECTED)


def select(
    config: Config,
    description: Description,
    judged: Sequence[Judged],
    decided: Decided = decisions.NOTHING,
) -> Result:
    """The texts of the variants of one description, the most similar first.

    What people accepted or typed has its place; the rest of the ranking fills the
    others, without what they refused.
    """
    judged = [
        dataclasses.replace(
            one, dropped=(*one.dropped, *_reasons(config, one, decided))
        )
        for one in judged
    ]
    pinned = set(decided.pinned.values())
    free = config.variants - len(decided.pinned)
    if config.select == "tree":
        ranking, judged = _ranked(config, description, judged)
        items = [item for item in ranking.selected if item.text not in pinned]
        ordered = tree.most_similar_first(items[:free], config.spec)
        chosen = [item.text for item in ordered]
    else:
        ranking = None
        chosen = [j.candidate.text for j in judged if not j.dropped]
        chosen = [text for text in chosen if text not in pinned][:free]
        if "jaccard" in config.metrics:
            values = {j.candidate.text: j.values for j in judged}
            chosen.sort(key=lambda text: values[text]["jaccard"])
    kept = free - len(chosen)
    # The original is the most similar to itself, so the order of variants holds.
    selected = decided.texts([*[description.text] * kept, *chosen])
    return Result(description, tuple(judged), selected, kept, ranking)


def _reasons(config: Config, one: Judged, decided: Decided) -> list[str]:
    found = [SELDOM] if one.candidate.count < config.min_count else []
    refused = one.candidate.text in decided.refused
    return [*found, decisions.REJECTED] if refused else found


def _ranked(
    config: Config, description: Description, judged: Sequence[Judged]
) -> tuple[tree.Ranking, list[Judged]]:
    items = [
        tree.Item(j.candidate.text, j.candidate.count, j.values)
        for j in judged
        if not j.dropped
    ]
    # Descriptions of equal texts need not get equal variants.
    seed = zlib.crc32(f"{config.seed} {description.id}".encode())
    ranking = tree.rank(items, config.spec, config.variants, seed)
    broken = {item.text: names for item, names in ranking.dropped}
    return ranking, [
        dataclasses.replace(
            one,
            dropped=(
                *one.dropped,
                *(f"{CONSTRAINT}: {c}" for c in broken.get(one.candidate.text, ())),
            ),
        )
        for one in judged
    ]
