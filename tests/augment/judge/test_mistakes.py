import pytest

from jaxaug.augment.judge import features, phrases


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
