"""Synonyms: their possible places and forms."""

import pytest

from jaxaug.augment.grammar.engine import reword
from jaxaug.augment.grammar.rules import Context
from jaxaug.augment.grammar.senses import table

INTENT = Context("intent")
FLAG = Context(is_flag=True)


def texts(text: str, context: Context | None = None) -> list[str]:
    return [one.text for one in reword(text, context, 400)]


def about(words: str, kind: str = "slot", siblings: str = "") -> Context:
    return Context(kind, frozenset(siblings.split()), frozenset(words.split()))


@pytest.mark.parametrize(
    ("source", "context", "result"),
    [
        # A noun of two words changes as a whole.
        ("value of the gift card", None, "value of the gift voucher"),
        # A possessive and a plural keep their form.
        ("the hotel's phone number", None, "the accommodation's phone number"),
        ("number of parcels", None, "number of packages"),
        # An uncountable noun has no article.
        ("book a hotel", INTENT, "book accommodation"),
        # Several words for a verb take its form.
        ("book a table", INTENT, "lets you make a booking for a table"),
        # A phrase is replaced unchanged in any place.
        ("check the price per night", INTENT, "check the price a night"),
        # An adjective after a form of be.
        ("is the street lamp dangerous", FLAG, "is the street lamp hazardous"),
        # The words of the service count in the singular too.
        ("name of the stylist", about("salons hair"), "name of the hairdresser"),
        # Synonyms of WordNet.
        ("number of elevators", None, "number of lifts"),
        ("prohibit the use of the pool", INTENT, "forbid the use of the pool"),
    ],
)
def test_a_synonym_takes_the_form_of_its_word(source, context, result) -> None:
    assert result in texts(source, context)


@pytest.mark.parametrize(
    ("source", "context", "wrong"),
    [
        ("date to book the table", None, "made a booking"),
        ("find hotels in a city", INTENT, "accommodation there are"),
        ("amount of money to send", about("bank"), "amount of funds"),
        ("type of the gift card", None, "gift map"),
        ("title of the book", about("x", siblings="volume"), "volume"),
        ("date of the return flight", about("flights"), "way back flight"),
        ("name of the doctor", about("book doctor visits"), "title of the doctor"),
        # WordNet's nouns replace heads only.
        ("number of the story archive", None, "tale archive"),
        ("title of the position", about("find jobs", siblings="x"), "spot"),
    ],
)
def test_synonyms_do_not_break_phrases(source, context, wrong) -> None:
    found = texts(source, context)
    assert found
    assert not [text for text in found if wrong in text]


def test_neighbors_get_different_words() -> None:
    found = [text for text in texts("find a restaurant in a city", INTENT)]
    eating = {"restaurant", "eatery", "dining spot", "dining place"}
    cities = {"city", "town"}
    pairs = {
        (one, two) for t in found for one in eating for two in cities
        if one in t and f" {two}" in t
    }  # fmt: skip
    assert len(pairs) >= 6


def test_the_table_has_the_words_of_many_domains() -> None:
    pairs = sum(map(len, table().values()))
    assert pairs > 1700
    assert sum(one.of_heads for senses in table().values() for one in senses) > 700
    for senses in table().values():
        for one in senses:
            assert one.old != one.new
            assert not one.needed & one.refused
