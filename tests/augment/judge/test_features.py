import math

import pytest

from jaxaug.augment.judge import features
from jaxaug.augment.judge.features import Pair


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
