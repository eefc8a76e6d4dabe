"""Rewords descriptions by reordering their words.

Services word the same slot differently: "check in date" and "date to check in", or
"number of people" and "number of people in the hotel". A model without pretraining
learns that these are equal from services with both wordings. The words come only from
the description and its service.
"""

import dataclasses
import functools
import re

from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import (
    ORIGINAL,
    ServiceSpec,
    SlotSpec,
    services,
    services_of,
)

_OF = re.compile(r"(\w+) of the (\w+)")
_PARTICLES = ("in", "out", "up", "off")
_BEFORE = re.compile(rf"(\w+) (?:({'|'.join(_PARTICLES)}) )?(date|time)")
_TO = re.compile(r"(date|time|place|city|person|room) to (\w+)(?: (\w+))?( the \w+)?")
_TAILS = ("of the {n}", "in the {n}", "at the {n}", "for the {n}", "on the {n}")
_TURNED, _TAILED, _CUT = 0.3, 0.35, 0.15


def reworded_service(draw: Draw, spec: ServiceSpec, noun: str) -> ServiceSpec:
    """Returns the service with some reworded descriptions; all stay distinct."""
    taken = {_text(slot) for slot in spec.slots} | _of_unseen_services()
    slots = []
    for slot in spec.slots:
        text = reworded(draw, _text(slot), noun)
        if text not in taken:
            taken.add(text)
            name, _ = slot.wordings[ORIGINAL]
            slot = dataclasses.replace(slot, wordings={ORIGINAL: (name, text)})
        slots.append(slot)
    return dataclasses.replace(spec, slots=tuple(slots))


def _text(slot: SlotSpec) -> str:
    return slot.wordings[ORIGINAL][1]


@functools.cache
def _of_unseen_services() -> frozenset[str]:
    """Returns the words that occur only in descriptions of unseen services."""
    everything, train = (
        {_text(slot) for spec in specs for slot in spec.slots}
        for specs in (services(), services_of("train"))
    )
    return frozenset(everything - train)


def reworded(draw: Draw, text: str, noun: str) -> str:
    """Returns a description with another word order, with or without its owner."""
    text = _turned(draw, text) if draw.chance(_TURNED) else text
    belongs = re.search(r" (?:of|in|at|for|on) the \w+$", text)
    if belongs and draw.chance(_CUT):
        return text[: belongs.start()]
    if not belongs and noun not in text.split() and draw.chance(_TAILED):
        return _with_owner(draw, text, noun)
    return text


def _turned(draw: Draw, text: str) -> str:
    """Returns the words in another order if the description has a known form."""
    if match := _OF.fullmatch(text):
        thing, owner = match.groups()
        return f"{owner} {thing}"
    if match := _BEFORE.fullmatch(text):
        verb, particle, kind = match.groups()
        action = f"{verb} {particle}" if particle else verb
        return draw.pick((f"{kind} to {action}", f"{kind} of {action}"))
    if match := _TO.fullmatch(text):
        kind, verb, particle, owner = match.groups()
        if particle is None or particle in _PARTICLES:
            action = f"{verb} {particle}" if particle else verb
            return f"{action} {kind}{' of' + owner if owner else ''}"
    return text


def _with_owner(draw: Draw, text: str, noun: str) -> str:
    words = text.split()
    if words[0] in ("is", "are", "will"):
        # "is it private", "are pets allowed"
        if words[1] == "it":
            return " ".join([words[0], "the", noun, *words[2:]])
        return f"{text} in the {noun}"
    if words[0] in ("has", "allows"):
        return f"the {noun} {text}"
    return f"{text} {draw.pick(_TAILS).format(n=noun)}"
