"""Recombined services with further slots, which user phrases identify."""

import pytest

from jaxaug_papers.mini import pretraining, recombined, typed, varied
from jaxaug_papers.mini.invented import value_list
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import ORIGINAL

SERVICES = 400


@pytest.fixture(scope="module")
def pairs():
    """Returns pairs of a recombined service and its varied form."""
    lexis = pretraining.lexis(["lantern", "trumpet"])
    found = []
    for index in range(SERVICES):
        before = recombined.service(index, 0, lexis, value_list)
        found.append((before, varied.service(Draw(str(index)), before, lexis)))
    return found


def text(slot):
    return slot.wordings[ORIGINAL][1]


def test_slots_come_behind_the_others_and_every_intent_may_tell_them(pairs):
    added = 0
    for before, after in pairs:
        count = len(before.slots)
        assert [s.concept for s in after.slots[:count]] == [
            s.concept for s in before.slots
        ]
        assert [s.name for s in after.slots] == [
            f"slot{n}" for n in range(len(after.slots))
        ]
        new = tuple(slot.name for slot in after.slots[count:])
        for intent, old in zip(after.intents, before.intents, strict=True):
            assert intent.optional == (*old.optional, *new)
            assert intent.required == old.required
        added += len(new)
    assert added > SERVICES / 2


def test_phrases_of_a_new_slot_are_unique(pairs):
    for before, after in pairs:
        assert len({text(slot) for slot in after.slots}) == len(after.slots)
        for number in range(len(before.slots), len(after.slots)):
            others = [*after.slots[:number], *after.slots[number + 1 :]]
            said = {
                t for slot in others for t in (*slot.concept.tell, *slot.concept.yes)
            }
            assert not said & {*after.slots[number].concept.tell}


def test_a_slot_is_identified_by_its_kind_alone(pairs):
    """The phrase "on Monday" means "date of the visits" for "book doctor visits"."""
    found = set()
    for before, after in pairs:
        noun = after.descriptions[ORIGINAL].split()[-1]
        for slot in after.slots[len(before.slots) :]:
            of_it = [
                name
                for name, kind in typed.MORE_KINDS.items()
                if slot.concept.noun in kind.nouns and noun in text(slot).split()
            ]
            if not of_it:
                continue
            found |= {*of_it}
            others = [
                s for s in after.slots if s != slot and {*s.values} & {*slot.values}
            ]
            plain = {*slot.concept.tell} & typed.PLAIN
            assert plain
            assert not any(plain & {*other.concept.tell} for other in others)
    assert {"date", "time", "place", "person"} <= found


def test_users_may_begin_with_words_that_no_intent_has(pairs):
    """Other openers occur only in services with a single intent."""
    changed = 0
    for before, after in pairs:
        for old, new in zip(before.intents, after.intents, strict=True):
            assert len(new.openers) == len(old.openers)
            assert new.wordings == old.wordings
            if new.openers != old.openers:
                changed += 1
                assert len(after.intents) == 1
    assert SERVICES / 20 < changed < SERVICES / 2
