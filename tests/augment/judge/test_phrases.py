import pytest

from jaxaug.augment.judge import phrases


@pytest.mark.parametrize(
    ("text", "heads", "asks"),
    [
        ("type of car", ("type",), ""),
        ("the car type", ("type",), ""),
        ("car of the type", ("car",), ""),
        ("pick up date", ("date",), ""),
        ("date you pick up", ("date",), ""),
        ("pick up a date", ("pick",), ""),
        ("to pick up date", (), ""),
        ("check in date", ("date",), ""),
        ("check with date", ("check",), ""),
        ("doctor in the hospital", ("doctor",), ""),
        ("the doctor's wife", ("wife",), ""),
        ("", (), ""),
        ("where to collect the parcel", (), phrases.PLACE),
        ("when the flight is due", (), phrases.TIME),
        ("how many people", (), phrases.COUNT),
        ("how much the ticket costs", (), phrases.PRICE),
        ("what the ticket costs", (), phrases.PRICE),
        ("what the movie is called", (), phrases.NAME),
        ("what type of vehicle", (), phrases.KIND),
        ("which city you leave from", (), phrases.PLACE),
        ("what a doctor does", (), None),
        ("Whether pets are allowed", (), phrases.FLAG),
        ("are pets allowed", (), phrases.FLAG),
    ],
)
def test_slots(text, heads, asks):
    phrase = phrases.of_slot(text)
    assert (phrase.heads, phrase.asks) == (heads, asks)


@pytest.mark.parametrize(
    ("text", "heads", "object_"),
    [
        ("Book a flight", ("book",), "flight"),
        ("find and book hotel rooms", ("find", "book"), "rooms"),
        ("book hotels and find them", ("book", "find"), "hotels"),
        ("search for flights", ("search",), "flights"),
        ("let's check the calendar out", ("check",), "calendar"),
        ("start planning meetings", ("planning",), "meetings"),
        ("find the hotel's address", ("find",), "address"),
        ("meet to plan", ("meet",), "plan"),
        ("go", ("go",), ""),
        ("", (), ""),
    ],
)
def test_orders(text, heads, object_):
    phrase = phrases.of_order(text)
    assert (phrase.heads, phrase.object) == (heads, object_)


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ("city of the hotel", "where the hotel is", True),
        ("where the hotel is", "city of the hotel", True),
        ("type of doctor", "what a doctor does", False),
        ("is it furnished", "whether it is furnished", True),
        ("is it furnished", "when it is furnished", False),
        ("city of the hotel", "town of the hotel", None),
        ("pets", "are pets allowed", False),
    ],
)
def test_asked(first, second, asked):
    assert phrases.asked(phrases.of_slot(first), phrases.of_slot(second)) is asked


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ("city", "cities", True),
        ("city", "town", True),
        ("place", "city", True),
        ("city", "location", True),
        ("city", "address", False),
        ("find", "searching", True),
        ("date", "year", False),
        ("delivered", "delivery", True),
        ("visit", "tour", False),
    ],
)
def test_heads_that_name_the_same(first, second, named):
    assert phrases.named(first, second) is named
    assert phrases.named(second, first) is named


def test_words_that_say_something():
    phrase = phrases.of_slot("Place where the hotel's pool is located")
    assert phrase.content == ["place", "hotel", "pool"]
    assert phrases.of_order("please start planning trips").content == [
        "planning",
        "trips",
    ]


def test_slips_and_open_ends():
    assert phrases.of_slot("person to meet someone").repeated == 1
    assert phrases.of_slot("person to meet").repeated == 0
    assert phrases.of_slot("hotel city of the").ends_open
    assert not phrases.of_slot("account to pay from").ends_open
