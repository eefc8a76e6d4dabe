"""Exercises from the corpus of rewordings: one meaning in several wordings.

A prompt has descriptions of slots and intents of one service of the corpus, each under
one of its wordings, as in D3ST. The user says other wordings of some of them with
values. A near miss of a description, which the corpus has too, may stand in the prompt
without a value, or be said without being asked for.
"""

import collections
import functools
import re
from collections.abc import Sequence

from jaxaug.core.text import clean
from jaxaug.data import rewordings
from jaxaug.data.rewordings import Record
from jaxaug_papers.mini import overlap
from jaxaug_papers.mini.exercises import Words
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import ORIGINAL, VARIANTS, services

_LONGEST = 8  # Words; longer texts leave no room for other slots in a prompt.
_NEAR = 0.6
_MATCH = 0.3
_MISS = 0.35
_OPENERS = ("i want to", "please", "can you", "i need to", "")


@functools.cache
def known() -> tuple[tuple[Record, ...], ...]:
    """Returns slots and intents by service, without the texts that MiniSGD tests with.

    A text is left out if the words of one of its wordings have a Jaccard similarity of
    at least 0.6 to a wording of MiniSGD's dev or test services.
    """
    unseen = collections.defaultdict[str, set[frozenset[str]]](set)
    for spec in services():
        if spec.splits == ("train",):
            continue
        given = [item.wordings for item in spec.slots]
        given += [item.wordings for item in spec.intents]
        for wordings in given:
            for words in (_content(wordings[one][1]) for one in (ORIGINAL, *VARIANTS)):
                for word in words:
                    unseen[word].add(words)

    def is_near(text: str) -> bool:
        own = _content(text)
        others = set[frozenset[str]]().union(*(unseen.get(word, ()) for word in own))
        return any(len(own & one) >= _NEAR * len(own | one) for one in others)

    found = collections.defaultdict[str, list[Record]](list)
    for record in rewordings.records():
        texts = (record.text, *record.good)
        if record.kind in ("slot", "intent") and not any(map(is_near, texts)):
            found[record.service].append(record)
    return tuple(tuple(each) for _, each in sorted(found.items()) if len(each) > 2)


def exercise(draw: Draw, word: Words) -> tuple[str, str]:
    """Returns an input and its answer.

    Args:
        draw: random choices.
        word: returns a word that is new in this exercise.
    """
    records = draw.pick(known())
    slots = [one for one in records if one.kind == "slot" and _wordings(one)]
    intents = [one for one in records if one.kind == "intent" and _wordings(one)]
    slots = draw.sample(slots, draw.pick((2, 2, 3, 3, 4)))
    shown = [_wordings(one) for one in slots]
    if len(slots) < 2:
        return exercise(draw, word)
    misses = [miss for one in slots for miss in _short(one.bad)]
    if draw.chance(_MATCH):
        return _match(draw, shown, misses)
    asked = draw.sample(range(len(slots)), draw.pick((1, 1, 2, 2, 3)))
    prompt, state, said = [], {}, []
    for place, (record, wordings) in enumerate(zip(slots, shown, strict=True)):
        first, second = draw.sample(wordings, 2)
        prompt.append(f"{place}={first}")
        values = [*map(_plain, record.values or ())]
        for letter, value in zip("abcdefgh", values, strict=False):
            prompt.append(f"{place}{letter}) {value}")
        if place in asked and values:
            at = draw.pick(range(min(8, len(values))))
            state[place] = f"{place}{'abcdefgh'[at]}"
            said.append(_told(draw, second, values[at]))
        elif place in asked:
            state[place] = " ".join(word() for _ in range(draw.pick((1, 1, 2))))
            said.append(_told(draw, second, state[place]))
    if misses and draw.chance(_MISS):
        miss = draw.pick(misses)
        if draw.chance(0.5):
            prompt.insert(len(prompt), f"{len(slots)}={miss}")
        else:
            said.append(_told(draw, miss, word()))
    said = draw.sample(said, len(said))
    active = ""
    chosen = draw.sample(intents, draw.pick((1, 2)))
    for number, record in enumerate(chosen):
        first, second = draw.sample(_wordings(record), 2)
        prompt.append(f"i{number}={first}")
        if not number:
            active = "i0"
            said.insert(0, f"{draw.pick(_OPENERS)} {second}".strip())
    text = f"{' '.join(prompt)} [user] {' '.join(said)}"
    filled = "".join(f" {place}={state[place]}" for place in sorted(state))
    return text, f"[states]{filled} [intents]{f' {active}' * bool(active)} [req_slots]"


def _match(
    draw: Draw, shown: Sequence[Sequence[str]], misses: Sequence[str]
) -> tuple[str, str]:
    pairs = [draw.sample(wordings, 2) for wordings in shown]
    listed = [first for first, _ in pairs]
    if misses and draw.chance(_MISS):
        listed.append(draw.pick(misses))
    asked = draw.sample(range(len(pairs)), draw.pick((1, 2, 3)))
    prompt = " ".join(f"{place}={text}" for place, text in enumerate(listed))
    said = " ".join(pairs[place][1] for place in asked)
    return f"{prompt} [user] {said}", " ".join(f"{place}=" for place in asked)


def _told(draw: Draw, text: str, value: str) -> str:
    return draw.pick((f"{text} {value}", f"{value} {text}", f"{text} is {value}"))


def _wordings(record: Record) -> list[str]:
    found = _short((record.text, *record.good))
    return found if len(found) > 1 else []


def _short(texts: Sequence[str]) -> list[str]:
    return [_plain(text) for text in texts if len(text.split()) <= _LONGEST]


def _plain(text: str) -> str:
    return clean(re.sub(r"[^\w' ]+", " ", text), True)


def _content(text: str) -> frozenset[str]:
    return frozenset(re.findall("[a-z]+", text.lower())) - overlap.STOP_WORDS
