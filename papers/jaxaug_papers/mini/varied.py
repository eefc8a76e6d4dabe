"""Recombined services with other texts and further slots.

They teach three facts that MiniSGD's train services do not. A slot can be described in
several ways (`syntax`). A date is a date in every slot (`typed`). The first words of a
user need not be words of an intent.
"""

import dataclasses
import re
from collections.abc import Iterable

from jaxaug_papers.mini import recombined, syntax, typed_slot
from jaxaug_papers.mini.invented_words import Fresh, Lexis
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import ORIGINAL, ServiceSpec

_TYPED = (0, 0, 1, 1, 2, 3)
_MOST_SLOTS = 7
_OTHER_OPENERS = 0.3


def service(draw: Draw, spec: ServiceSpec, lexis: Lexis) -> ServiceSpec:
    """Returns the service with reworded slots and additional typed slots."""
    noun = lexis.allowed(spec.descriptions[ORIGINAL].split()[-1])
    spec = syntax.reworded_service(draw, spec, noun)
    fresh = Fresh(lexis, draw, _words(spec))
    slots = list(spec.slots)
    for _ in range(draw.pick(_TYPED)):
        found = typed_slot.slot(fresh, noun, slots, more=True)
        if len(slots) < _MOST_SLOTS and not recombined.alike(found, slots):
            slots.append(found)
    added = tuple(slot.name for slot in slots[len(spec.slots) :])
    intents = [
        dataclasses.replace(intent, optional=(*intent.optional, *added))
        for intent in spec.intents
    ]
    if len(intents) == 1 and draw.chance(_OTHER_OPENERS):
        other = recombined.rewriting(fresh, 1.0)
        openers = tuple(map(other, intents[0].openers))
        intents[0] = dataclasses.replace(intents[0], openers=openers)
    return dataclasses.replace(spec, slots=tuple(slots), intents=tuple(intents))


def _words(spec: ServiceSpec) -> set[str]:
    """Returns the words of the descriptions and phrases of a service."""
    return set(re.findall("[a-z]+", " ".join(_texts(spec)).lower()))


def _texts(spec: ServiceSpec) -> Iterable[str]:
    yield spec.descriptions[ORIGINAL]
    for intent in spec.intents:
        yield from (intent.wordings[ORIGINAL][1], *intent.openers)
    for slot in spec.slots:
        concept = slot.concept
        yield from (
            slot.wordings[ORIGINAL][1],
            *concept.tell,
            *concept.yes,
            *slot.values,
        )
