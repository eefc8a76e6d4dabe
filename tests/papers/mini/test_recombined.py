"""Services that recombine parts of the train services."""

import re

from jaxaug_papers.mini import pretraining, recombined
from jaxaug_papers.mini.invented import value_list
from jaxaug_papers.minisgd.world import ORIGINAL, services, services_of

COUNT = 300


def made():
    lexis = pretraining.lexis()
    return [recombined.service(i, 0, lexis, value_list) for i in range(COUNT)]


def text_of(slot):
    return slot.wordings[ORIGINAL][1]


def known_texts():
    return {text_of(slot) for spec in services_of("train") for slot in spec.slots}


def test_parts_come_from_several_train_services_and_from_no_other():
    found = made()
    owner = {text_of(s): spec.name for spec in services_of("train") for s in spec.slots}
    mixed = [
        spec
        for spec in found
        if len({owner[t] for s in spec.slots if (t := text_of(s)) in owner}) > 1
    ]
    assert len(mixed) > COUNT / 5
    others = {text_of(s) for spec in services() for s in spec.slots} - known_texts()
    assert not {text_of(slot) for spec in found for slot in spec.slots} & others


def test_words_are_kept_in_some_services_and_replaced_in_others():
    known = known_texts()
    kept = [[text_of(s) in known for s in spec.slots] for spec in made()]
    assert sum(map(all, kept)) > COUNT / 4
    assert sum(not any(flags) for flags in kept) > COUNT / 10


def test_a_word_is_replaced_alike_in_descriptions_and_utterances():
    """A word has the same replacement in "city of the hotel" and "which city"."""
    checked = 0
    for spec in made():
        for slot in spec.slots:
            where = re.fullmatch(r"city of the (\w+)|(\w+) of the hotel", text_of(slot))
            if where is None:
                continue
            noun = text_of(slot).split()[0]
            asked = " ".join(slot.concept.ask)
            assert ("city" in asked) == (noun == "city")
            checked += noun != "city" and noun in asked
    assert checked


def test_required_slots_of_intents_can_be_said():
    for spec in made():
        names = [slot.name for slot in spec.slots]
        assert len(set(names)) == len(names)
        phrases = [set(s.concept.tell + s.concept.yes) for s in spec.slots]
        for intent in spec.intents:
            assert {*intent.required, *intent.optional} <= set(names)
            assert not set(intent.required) & set(intent.optional)
            for name in (*intent.required, *intent.optional):
                assert phrases[names.index(name)]
        for slot in spec.slots:
            assert len(set(slot.values)) == len(slot.values)
