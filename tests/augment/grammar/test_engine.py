"""The rewording grammar: whole texts, and clumsy results by family and by shape."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.grammar import engine, senses
from jaxaug.augment.grammar.engine import reword
from jaxaug.augment.grammar.rules import Context, contexts
from jaxaug.core.errors import UserError
from jaxaug.data import folders, minisgd
from jaxaug.data.schema import Intent, Schema, Service, Slot, read_schema


def texts(text: str, context: Context | None = None, num: int = 100) -> list[str]:
    return [one.text for one in reword(text, context, num)]


def test_the_first_rewordings_of_a_place() -> None:
    assert texts("City of the hotel", num=5) == [
        "City where the hotel is located",
        "Town of the accommodation",
        "City in which the hotel is situated",
        "Town where the accommodation is located",
        "Hotel city",
    ]


def test_a_derivation_ends_with_its_text() -> None:
    for one in reword("date of the concert"):
        assert one.steps[-1][1] == one.text
        assert len({name for name, _ in one.steps}) == len(one.steps) <= 4


def test_every_other_result_changes_all_words() -> None:
    found = reword("find a restaurant in a city", Context("intent"), 4)
    text = "look for a dining place in a town"
    assert found[1].text == text
    names = "find -> look for, restaurant -> dining place, city -> town"
    assert found[1].steps == ((names, text),)


def test_case_and_final_punctuation_follow_the_source() -> None:
    assert "Hotel city." in texts("City of the hotel.")
    assert "hotel city" in texts("city of the hotel")
    assert "Is the parcel insured?" in texts(
        "Whether the parcel is insured.", Context(is_flag=True)
    )


def test_sentences_are_reworded_one_at_a_time() -> None:
    found = texts("Find a doctor. Book a visit.", Context("intent"))
    assert "Finding a doctor. Book a visit." in found
    assert "Find a doctor. Booking a visit." in found


def test_only_inputs_are_requested() -> None:
    wanted = "date requested for the appointment"
    assert wanted in texts("date of the appointment", Context(is_input=True))
    assert wanted not in texts("date of the appointment", Context(is_input=False))


def test_synonyms_depend_on_the_sense_and_on_siblings() -> None:
    intent = Context("intent")
    assert "reserve a room" in texts("book a room", intent)
    assert not any("reserve" in text for text in texts("book of the author"))
    taken = Context("intent", siblings=frozenset({"reserve"}))
    assert "reserve a room" not in texts("book a room", taken)
    assert "film titles" not in texts(
        "movie titles", Context(siblings=frozenset({"film"}))
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x city town", "is not a sense"),
        ("n city", "two words or more"),
        ("n city town iff=hotel", "conditions `if=`"),
    ],
)
def test_a_wrong_table_of_senses_is_refused(
    tmp_path, monkeypatch, line, message
) -> None:
    path = tmp_path / "senses.txt"
    path.write_text(line)
    monkeypatch.setattr(senses, "_FILES", (path,))
    with pytest.raises(UserError, match=f"line 1: .*{message}"):
        senses.table.__wrapped__()


def test_numbers_and_placeholders_survive() -> None:
    for source in ("price in {currency} for 2 adults", "Number of $rooms to book"):
        marks = re.findall(r"\d+|[{$]\w+}?", source)
        found = texts(source)
        assert found
        for text in found:
            assert all(mark in text for mark in marks), text


WORDS = [
    "city", "date", "of", "the", "hotel", "to", "book", "is", "7", "seats", "whether",
    "and", "price", "where", "/", "'", "{x}",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["slot", "intent"])
)
def test_any_words_give_distinct_texts_and_always_the_same(words, kind) -> None:
    source = " ".join(words)
    context = Context(kind, is_flag=len(words) % 2 == 0)
    found = texts(source, context, 30)
    assert found == texts(source, context, 30)
    assert len(set(found)) == len(found) <= 30
    assert source not in found


def test_a_very_long_text_takes_no_long_time() -> None:
    assert texts("date of the hotel and " * 500) == []


def test_nearly_all_texts_of_minisgd_have_rewordings(tmp_path) -> None:
    root = minisgd.materialise(tmp_path)
    schema = read_schema(folders.schema_path(root, "train"))
    found = {
        text: reword(text, of_text[0], 20) for text, of_text in contexts(schema).items()
    }
    few = [text for text, ones in found.items() if len(ones) < 5]
    assert len(few) <= len(found) // 10, few


def test_contexts_name_slots_and_services() -> None:
    flags = ("True", "False")
    slots = (
        Slot("title", "title of the book", False, ()),
        Slot("author", "author of the book", False, ()),
        Slot("overdue", "whether the loan is overdue", True, flags),
    )
    intent = Intent("Find", "find a book", False, ("title",), (), ("overdue",))
    service = Service("Library_1", "Borrow books", slots, (intent,))
    found = contexts(Schema((service,)))
    (title,) = found["title of the book"]
    assert (title.kind, title.is_flag, title.is_input) == ("slot", False, True)
    assert {"author", "overdue"} <= title.siblings and "title" not in title.siblings
    assert {"library", "books"} <= title.service
    (overdue,) = found["whether the loan is overdue"]
    assert overdue.is_flag and not overdue.is_input
    assert Context.of_json(overdue.to_json()) == overdue


def test_when_replaces_a_date_only_if_no_sibling_is_a_time() -> None:
    def asks_when(siblings: list[str]) -> list[str]:
        context = Context("slot", siblings=frozenset(siblings))
        found = reword("date of the visit", context, 300)
        return [one.text for one in found if one.text.startswith("when")]

    assert asks_when(["name"])
    assert not asks_when(["time"])


@pytest.mark.parametrize(
    ("kind", "source", "part"),
    [
        # The subject of "order" is ambiguous.
        ("intent", "track my order", "user"),
        ("slot", "fee for each night", "night fee"),
        ("service", "Learn to drive with licensed teachers", "Learn that"),
        ("slot", "place where the lesson begins", "leaves"),
        ("slot", "length of the boat in meters", "lasts"),
        ("slot", "number of people on board", "part of the board"),
        ("slot", "reason for the rejection", "needed"),
        ("slot", "first day of work", "work initial"),
    ],
)
def test_wrong_rewordings_found_by_readers_are_not_made(
    kind: str, source: str, part: str
) -> None:
    found = texts(source, Context(kind), 300)
    assert found and not [text for text in found if part in text]


def test_a_remark_behind_a_comma_stays() -> None:
    found = texts("Price of the ticket, including taxes")
    assert "How much the ticket costs, including taxes" in found
    assert not [text for text in found if "including taxes" not in text]
    assert "Hotel name as it appears on the bill" in texts(
        "Name of the hotel as it appears on the bill"
    )
    assert "Name, address of the hotel" not in texts("Name, city of the hotel")


def test_one_of_several_sentences_is_no_question() -> None:
    source = "Code that opens the door. It has six digits"
    assert not [one for one in texts(source) if one.startswith(("Which", "What"))]


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
