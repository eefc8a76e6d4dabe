"""Features of a text and its rewording: frames, phrases, mistakes, and roles."""

import math

import pytest

from jaxaug.augment.judge import features, phrases
from jaxaug.augment.judge.features import Pair


@pytest.mark.parametrize(
    ("kind", "text", "inside"),
    [
        ("intent", "help the user book a flight", "book a flight"),
        ("intent", "When somebody wants to book a flight", "book a flight"),
        ("intent", "the user would like to book a flight", "book a flight"),
        ("intent", "request to book a flight", "book a flight"),
        ("intent", "to book a flight", "book a flight"),
        ("service", "Service that lets you fix bikes", "fix bikes"),
        ("service", "Platform on which you can fix bikes", "fix bikes"),
        ("service", "App to fix bikes", "fix bikes"),
        ("service", "Helps people fix bikes", "fix bikes"),
        ("slot", "hotel city that the user wants", "hotel city"),
        ("slot", "requested hotel city", "hotel city"),
        ("slot", "seats to look for", "seats"),
        ("slot", "tells if it is new or not", "whether it is new"),
        ("slot", "flag for whether it is new", "whether it is new"),
        ("slot", "is it new?", "is it new"),
        # These descriptions name their topic.
        ("intent", "help a neighbor", "help a neighbor"),
        ("intent", "request a refund", "request a refund"),
        ("slot", "person who wants to go", "person who wants to go"),
        ("slot", "requested", "requested"),
    ],
)
def test_frames(kind, text, inside):
    assert phrases.inside(kind, text) == inside
    assert phrases.is_framed(kind, text) is (inside != text.rstrip("?"))


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


def both(kind, first, second):
    parts = phrases.of_slot if kind == "slot" else phrases.of_order
    return parts(first), parts(second)


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("is the event outside", "whether it is a event outside", 1),
        ("name of the inn", "name of an inn", 0),
        ("time of it", "the time of an hour", 0),
        ("time of it", "the time of a user", 0),
        ("time of it", "the time of a unit", 0),
        ("time of it", "the time of an uninsured ride", 0),
        ("time of it", "the time of an user", 1),
        ("date of the visit", "day when you visited", 1),
        ("date of delivery", "when delivery was done", 1),
        ("date of delivery", "when the delivery is needed", 0),
        ("place to collect it", "location to where you collect it", 1),
        ("date to send it", "day to which you send it", 1),
        ("date of the visit", "what day of the visit", 1),
        ("type of event", "what type of event", 0),
        ("date when it was sent", "day when it was sent", 0),
    ],
)
def test_grammar(first, second, count):
    assert features.count(*both("slot", first, second)) == count


@pytest.mark.parametrize(
    ("kind", "first", "second", "count"),
    [
        ("slot", "drop off date", "when you drop off a date", 1),
        ("slot", "drop off date", "when you drop off", 0),
        ("slot", "person who gives it", "who gives it to a person", 1),
        ("slot", "city of the hotel", "which city the hotel is in", 0),
        ("slot", "person to pay", "who pays you", 1),
        ("slot", "person to pay", "someone who is to pay", 1),
        ("slot", "person to meet", "someone to meet you", 1),
        ("slot", "person to meet", "who you meet", 0),
        ("slot", "person to meet", "who to meet", 0),
        ("slot", "check in date", "date of the check out", 1),
        ("slot", "date of check in or check out", "when to check in or out", 0),
        ("slot", "is it private", "is it public", 1),
        ("intent", "rent a car", "lease your car", 1),
        ("intent", "send parcels", "mail your parcels", 0),
    ],
)
def test_roles(kind, first, second, count):
    assert features.other_roles(*both(kind, first, second)) == count


@pytest.mark.parametrize(
    ("original", "candidate", "trivial"),
    [
        ("name of the movie", "the name of a movie", True),
        ("pick up date", "pickup date", True),
        ("pick up date", "pick up the date", True),
        ("drop-off date", "dropoff date", True),
        ("is it furnished", "whether it is furnished", False),
        ("type of car", "car type", False),
        ("type of car", "type of vehicle", False),
        ("city of it", "city of it that the user wants", False),
    ],
)
def test_trivial_edits(original, candidate, trivial):
    assert features.is_trivial(Pair("slot", original, candidate)) is trivial


@pytest.mark.parametrize(
    ("kind", "original", "candidate", "row"),
    [
        ("slot", "kind of bike to fix", "bike kind to fix", [0, 0, 0, 0]),
        ("intent", "track my bag", "lets you track my bag", [0, 0, 0, 1]),
        ("intent", "book a bus", "help the user book a bus", [0, 0, 0, 0]),
        ("slot", "type of car", "vehicle type", [0, 0, 0, 0]),
        ("slot", "type of car", "car of the type", [1, 0, 0, 0]),
        ("slot", "city of the hotel", "hotel city of the", [0, 0, 1, 0]),
        ("slot", "name of the doctor", "name of the doctor's wife", [0, 0, 0, 0]),
        ("intent", "book a flight", "fly a flight", [0, 0, 0, 0]),
        ("intent", "find a hotel", "get to a hotel", [0, 0, 0, 0]),
        ("service", "find and book flights", "book flights", [0, 0.8571, 0, 0]),
        ("service", "book doctor visits", "doctor visiting a book", [2, 0, 0, 0]),
        ("intent", "plan meetings", "organize meetings", [0, 0, 0, 0]),
        ("slot", "drop off date", "when you drop off a date", [1, 0, 0, 0]),
        ("slot", "date of the visit", "day when you visited", [0, 0, 1, 0]),
    ],
)
def test_features_of_words(kind, original, candidate, row):
    (found,) = features.words([Pair(kind, original, candidate)])
    words = len(original.split())
    assert found == pytest.approx([*row, math.log(words)], abs=1e-4)


def test_no_pairs():
    assert features.words([]).shape == (0, len(features.WORDS))
