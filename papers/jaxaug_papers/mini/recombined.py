"""Services that recombine parts of MiniSGD's train services.

They teach the language of MiniSGD's users, while `invented` teaches reading. A service
has slots of several original services, so that a model cannot identify a slot by its
position or its neighbors. Only original wordings are used; aug1..aug5 are reserved for
fine-tuning. Some content words are replaced by made-up words.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxaug_papers.mini.invented_words import Fresh, Lexis
from jaxaug_papers.mini.overlap import STOP_WORDS
from jaxaug_papers.minisgd.concepts import Concept
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import (
    ORIGINAL,
    IntentSpec,
    ServiceSpec,
    SlotSpec,
    services_of,
)

# Shares of replaced content words; a word is replaced in all texts of a service.
_REPLACED = (0.0, 0.0, 0.2, 0.5, 1.0)
_STRANGERS = (0, 0, 1, 1, 2, 3)
_OWN_VALUES = 0.8
_PHRASES = ("tell", "yes", "no", "ask", "wonder")

Rewrite = Callable[[str], str]


def service(
    index: int, seed: int, lexis: Lexis, values: Callable[[Fresh], tuple[str, ...]]
) -> ServiceSpec:
    """Returns the recombined service of an index; it depends only on the arguments."""
    draw = Draw(f"recombined/{seed}/service/{index}")
    fresh = Fresh(lexis, draw, _value_words())
    known = services_of("train")
    base = draw.pick(known)
    intents = draw.sample(base.intents, draw.pick(range(1, len(base.intents) + 1)))
    needed = [base.slot(n) for n in _united(intent.required for intent in intents)]
    others = [slot for slot in base.slots if slot not in needed and draw.chance(0.6)]
    strangers = [slot for spec in known if spec != base for slot in spec.slots]
    for slot in draw.sample(strangers, draw.pick(_STRANGERS)):
        if not alike(slot, [*needed, *others]):
            others.append(slot)
    rewrite = rewriting(fresh, draw.pick(_REPLACED))
    chosen = draw.sample([*needed, *others], len(needed) + len(others))
    names = {slot.name: f"slot{n}" for n, slot in enumerate(chosen)}
    told = [names[s.name] for s in chosen if s.concept.tell or s.concept.yes]
    return ServiceSpec(
        name=f"Invented{index}_1",
        splits=("train",),
        weight=1,
        descriptions={ORIGINAL: rewrite(base.descriptions[ORIGINAL])},
        intents=tuple(
            _intent(intent, n, names, told, rewrite) for n, intent in enumerate(intents)
        ),
        slots=tuple(_slot(slot, names, rewrite, values, fresh) for slot in chosen),
    )


@functools.cache
def _value_words() -> frozenset[str]:
    """Returns the words of values, which are not used as replacements."""
    return frozenset(
        word.lower()
        for spec in services_of("train")
        for slot in spec.slots
        for value in slot.values
        for word in value.split()
    )


def _united(groups: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for group in groups for name in group))


def alike(slot: SlotSpec, others: Sequence[SlotSpec]) -> bool:
    """Returns whether users could confuse the slot with one of the others."""
    return any(
        slot.name == other.name
        or slot.concept.noun == other.concept.noun
        or set(slot.concept.tell + slot.concept.yes)
        & set(other.concept.tell + other.concept.yes)
        for other in others
    )


def rewriting(fresh: Fresh, share: float) -> Rewrite:
    """Returns a function that replaces words of a text, consistently across texts.

    Stop words, words of one or two letters, and the syntax of the simulator stay.

    Args:
        share: probability that a distinct word is replaced, 0 to 1.
    """
    instead: dict[str, str] = {}

    def word(match: re.Match[str]) -> str:
        found = match[0].lower()
        if found in STOP_WORDS or len(found) < 3:
            return match[0]
        if found not in instead:
            instead[found] = fresh() if fresh.draw.chance(share) else match[0]
        return instead[found]

    # "{v}" and "(seat|seats)" are syntax of the simulator.
    return lambda text: re.sub(r"(?<![{\w])[A-Za-z]+(?![}\w])", word, text)


def _slot(
    slot: SlotSpec,
    names: dict[str, str],
    rewrite: Rewrite,
    values: Callable[[Fresh], tuple[str, ...]],
    fresh: Fresh,
) -> SlotSpec:
    concept = _concept(slot.concept, rewrite)
    found = tuple(map(fresh.lexis.allowed, slot.values))
    if slot.is_flag:
        found = slot.values
    elif slot.is_categorical:
        found = tuple(map(rewrite, found))
    elif not fresh.draw.chance(_OWN_VALUES):
        found = values(fresh)
        concept = dataclasses.replace(concept, role="", same=())
    name = names[slot.name]
    text = rewrite(slot.wordings[ORIGINAL][1])
    return SlotSpec(
        name=name,
        concept=concept,
        values=found,
        is_categorical=slot.is_categorical,
        before="",  # The other slot may have other values.
        wordings={ORIGINAL: (name, text)},
    )


def _concept(concept: Concept, rewrite: Rewrite) -> Concept:
    texts: dict[str, Any] = {
        key: tuple(map(rewrite, getattr(concept, key))) for key in _PHRASES
    }
    # Offers depend on words that may be replaced.
    texts["suggest"] = tuple(map(rewrite, concept.offer))
    return dataclasses.replace(concept, noun=rewrite(concept.noun), **texts)


def _intent(
    intent: IntentSpec,
    number: int,
    names: dict[str, str],
    told: Sequence[str],
    rewrite: Rewrite,
) -> IntentSpec:
    required = [names[name] for name in intent.required]
    optional = [name for name in told if name not in required]
    return IntentSpec(
        name=f"Intent{number}",
        is_transactional=intent.is_transactional,
        required=tuple(required),
        optional=tuple(optional),
        wordings={ORIGINAL: (f"Intent{number}", rewrite(intent.wordings[ORIGINAL][1]))},
        openers=tuple(map(rewrite, intent.openers)),
    )
