"""Clumsy rewordings, by family and by shape."""

import pytest

from jaxaug.augment.grammar import engine
from jaxaug.augment.grammar.engine import reword
from jaxaug.core.errors import UserError


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("time of the start when the tour begins", "time when the tour starts"),
        ("city that the bus that leaves goes to", "city the bus goes to"),
        ("place where to be located", "place of the hotel"),
        ("day when the cab is to be asked for", "day to call the cab"),
        ("search for for rooms", "search for rooms"),
        ("the a room", "a room"),
        ("person who pays the person", "payer"),
        # A word is lost that changes the meaning.
        ("how much the trip costs", "total price of the trip"),
        ("when bags are accepted", "latest time at which bags are accepted"),
        ("whether pets are allowed", "whether pets are not allowed"),
    ],
)
def test_a_fault_that_the_source_does_not_have(text, source) -> None:
    assert engine.is_clumsy(text, source)


@pytest.mark.parametrize(
    "text",
    ["code that opens the box that you have", "day of the date", "date of the day"],
)
def test_faults_of_the_source_are_ignored(text) -> None:
    assert engine.faults(text)
    assert not engine.is_clumsy(text, text)


def test_a_word_to_keep_has_synonyms() -> None:
    source = "total price excluding taxes, whether or not it is paid"
    text = "full price without taxes, whether it is paid"
    assert not engine.is_clumsy(text, source)


def test_plain_texts_have_no_faults() -> None:
    for text in (
        "city where the hotel is located",
        "how many people the reservation is for",
        "service that lets you find and book rooms",
        "when you want to send the gift",
    ):
        assert engine.faults(text) == frozenset()


def test_no_rewording_is_clumsy() -> None:
    source = "start time of the tour"
    for one in reword(source, None, 200):
        assert not engine.is_clumsy(one.text, source)


def test_a_wrong_table_is_refused(tmp_path, monkeypatch) -> None:
    path = tmp_path / "fluency.txt"
    path.write_text("family a b\nfamilies c d\n")
    monkeypatch.setattr(engine, "_FILE", path)
    with pytest.raises(UserError, match="line 2: 'families c d' is no family"):
        engine._table.__wrapped__()
