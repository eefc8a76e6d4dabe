"""Selection of the candidates that become the variants of descriptions."""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxaug.augment import decisions, descriptions, tree
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decided
from jaxaug.augment.descriptions import Description
from jaxaug.core.errors import UserError
from jaxaug.paraphrase.candidates import Candidate


@dataclass(frozen=True)
class Judged:
    """A candidate with its metrics and reasons.

    Attributes:
        candidate: text, count, settings.
        values: metric -> value; empty if not measured.
        dropped: reasons; empty if the candidate may be selected.
    """

    candidate: Candidate
    values: Mapping[str, float]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """The result for one description.

    Attributes:
        description: the description in the schema.
        judged: its candidates, the most common first.
        selected: texts of its variants, v1 first. With too few candidates, the first
            ones are the original text.
        kept: number of variants that keep the original because there are too few
            candidates.
        ranking: ranking by a tree.
    """

    description: Description
    judged: tuple[Judged, ...]
    selected: tuple[str, ...]
    kept: int
    ranking: tree.Ranking | None = None


SELDOM, CONSTRAINT = "seldom", "constraint"
"""Reasons of the selection, with `decisions.REJECTED`; constraints follow a colon."""
REASONS = (SELDOM, CONSTRAINT, decisions.REJECTED)


def results(
    config: Config,
    items: Sequence[Description],
    judged: Mapping[str, Sequence[Judged]],
    decided: Mapping[str, Decided],
) -> list[Result]:
    """Selects the variants of all descriptions of a schema.

    Args:
        judged: id -> candidates.
        decided: id -> decisions of people, for the descriptions that have any.

    Raises:
        UserError: people chose a name that another slot or intent has.
    """
    found = [
        select(config, one, judged[one.id], decided.get(one.id, decisions.NOTHING))
        for one in items
    ]
    _separate_names(found)
    for result in found:
        key = result.description.id
        for number, text in decided.get(key, decisions.NOTHING).pinned.items():
            if result.selected[number - 1] != text:
                raise UserError(
                    f"{decisions.FILE}: {key}: v{number} is decided to be {text!r}, "
                    "which another slot or intent of the service is called too. Decide "
                    "for another name."
                )
    return found


def select(
    config: Config,
    description: Description,
    judged: Sequence[Judged],
    decided: Decided = decisions.NOTHING,
) -> Result:
    """Returns the texts of the variants of one description, the most similar first.

    Texts that people accepted or typed have a fixed place. The ranking fills the other
    places, without the texts that people refused.
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


def _separate_names(results: list[Result]) -> None:
    """Gives names back until no two slots or intents of a service have one name."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, result in enumerate(results):
        one = result.description
        if one.kind in ("slot_name", "intent_name"):
            groups.setdefault((one.id.rpartition("/")[0], one.kind), []).append(place)
    for places in groups.values():
        for number in range(len(results[places[0]].selected)):
            while _give_back(results, places, number):
                pass


def _give_back(results: list[Result], places: Sequence[int], number: int) -> bool:
    """Gives one name of a variant back if two are equal; the original names differ."""
    taken: dict[str, int] = {}
    for place in places:
        one, text = results[place].description, results[place].selected[number]
        changed = text != one.text
        name = descriptions.name_of(text, one.name) if changed else one.name
        other = taken.setdefault(name, place)
        if other != place:
            loser = place if changed else other
            own = list(results[loser].selected)
            own[number] = results[loser].description.text
            kept = results[loser].kept + 1
            results[loser] = dataclasses.replace(
                results[loser], selected=tuple(own), kept=kept
            )
            return True
    return False
