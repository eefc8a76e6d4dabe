"""Names of a variant that two slots or intents of a service would share."""

import dataclasses
from collections.abc import Sequence

from jaxaug.augment import descriptions
from jaxaug.augment.result import Result


def distinct_names(results: Sequence[Result]) -> list[Result]:
    """Where two slots or intents of a service would get one name, one keeps its own."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, result in enumerate(results):
        one = result.description
        if one.kind in ("slot_name", "intent_name"):
            groups.setdefault((one.id.rpartition("/")[0], one.kind), []).append(place)
    found = list(results)
    for places in groups.values():
        for number in range(len(found[places[0]].selected)):
            _separate(found, places, number)
    return found


def _separate(results: list[Result], places: Sequence[int], number: int) -> None:
    """Gives names of one variant back until all differ; the own ones do."""
    while True:
        taken: dict[str, int] = {}
        for place in places:
            one, text = results[place].description, results[place].selected[number]
            changed = text != one.text
            name = descriptions.name_of(text, one.name) if changed else one.name
            other = taken.setdefault(name, place)
            if other != place:
                loser = place if changed else other
                result = results[loser]
                own = list(result.selected)
                own[number] = result.description.text
                results[loser] = dataclasses.replace(
                    result, selected=tuple(own), kept=result.kept + 1
                )
                break
        else:
            return
