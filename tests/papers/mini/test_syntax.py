"""Descriptions in another order of words."""

import pytest

from jaxaug_papers.mini import pretraining, recombined, syntax
from jaxaug_papers.mini.invented import value_list
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import ORIGINAL, services, services_of

WAYS = {
    "city of the hotel": {"hotel city", "hotel city in the inn", "city"},
    "check in date": {"date to check in", "date of check in",
     "check in date at the inn"},
    "date to pick up the book": {"pick up date of the book", "pick up date"},
    "are pets allowed": {"are pets allowed in the inn"},
    "is it private": {"is the inn private"},
    "has subtitles": {"the inn has subtitles"},
    "number of people": {"number of people in the inn", "number of people for the inn"},
}  # fmt: skip


def ways(text, count=300):
    return {syntax.reworded(Draw(f"{n} {text}"), text, "inn") for n in range(count)}


@pytest.mark.parametrize("text", WAYS)
def test_the_same_words_come_in_other_orders(text):
    found = ways(text)
    assert text in found
    assert WAYS[text] <= found


def test_only_the_grammar_adds_words():
    grammar = {"to", "of", "in", "at", "for", "on", "the", "inn"}
    for spec in services_of("train"):
        for slot in spec.slots:
            text = slot.wordings[ORIGINAL][1]
            for found in ways(text, 60):
                assert set(found.split()) <= {*text.split(), *grammar}


def test_services_never_get_descriptions_of_unseen_ones():
    lexis = pretraining.lexis()
    known, others = (
        {slot.wordings[ORIGINAL][1] for spec in specs for slot in spec.slots}
        for specs in (services_of("train"), services())
    )
    changed = 0
    for index in range(200):
        spec = recombined.service(index, 0, lexis, value_list)
        found = syntax.reworded_service(Draw(str(index)), spec, "inn")
        texts = [slot.wordings[ORIGINAL][1] for slot in found.slots]
        assert not set(texts) & (others - known)
        before = [slot.wordings[ORIGINAL][1] for slot in spec.slots]
        assert len(set(texts)) >= len(set(before))
        changed += texts != before
        # Everything but the descriptions stays.
        assert [s.concept for s in found.slots] == [s.concept for s in spec.slots]
        assert [s.name for s in found.slots] == [s.name for s in spec.slots]
    assert changed > 100


def test_a_description_of_an_unseen_service_is_refused(monkeypatch):
    """Removing "at the event" gives "number of seats", which Buses_1 has too."""
    events = next(spec for spec in services_of("train") if spec.name == "Events_1")
    monkeypatch.setattr(syntax, "reworded", lambda draw, text, noun: "number of seats")
    found = syntax.reworded_service(Draw("0"), events, "inn")
    assert found == events
