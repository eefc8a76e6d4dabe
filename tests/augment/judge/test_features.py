import numpy as np
import pytest

from jaxaug.augment.judge import features
from jaxaug.augment.judge.features import Pair
from jaxaug.augment.judge.round_trip import Trip


def half(first, second):
    """A measure for which all words are equally near."""
    return np.full(len(first), 0.5)


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
        ("slot", "kind of bike to fix", "bike kind to fix", [0, 0, 0, 0, 0, 1, 0, 0]),
        ("slot", "size of the bag", "size of bag", [0, 0, 0, 0, 0, 0, 1, 0]),
        ("intent", "track my bag", "lets you track my bag", [0, 0, 0, 0, 0, 0, 0, 1]),
        ("intent", "book a bus", "help the user book a bus", [0] * 8),
        ("slot", "type of car", "vehicle type", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "type of car", "car of the type", [1, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "city of the hotel", "where the hotel is", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "city of the hotel", "hotel city of the", [0, 0, 0, 0, 1, 0, 0, 0]),
        (
            "slot",
            "name of the doctor",
            "name of the doctor's wife",
            [0, 0, 0, 0.5, 0, 0, 0, 0],
        ),
        ("slot", "number of rooms", "number of bedrooms", [0, 1, 0, 0, 0, 0, 0, 0]),
        ("slot", "are pets allowed", "can be pets allowed", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("intent", "book a flight", "fly a flight", [0, 0.5, 0, 0, 0, 0, 0, 0]),
        ("intent", "find a hotel", "get to a hotel", [0, 0.5, 0, 0, 0, 0, 0, 0]),
        (
            "service",
            "find and book flights",
            "book flights",
            [0, 0, 0.5, 0, 0, 0, 0, 0],
        ),
        (
            "service",
            "book doctor visits",
            "doctor visiting a book",
            [2, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("intent", "plan meetings", "organize meetings", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "drop off date", "when you drop off a date", [1, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "time of the visit", "time of the tour", [0, 0.5, 0, 0, 0, 0, 0, 0]),
        ("slot", "date of the visit", "day when you visited", [0, 0, 0, 0, 1, 0, 0, 0]),
        ("slot", "author of it", "name of the chosen author", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "city of it", "city of its name", [0, 0, 0, 0.5, 0, 0, 0, 0]),
        ("slot", "date of it", "date it takes place", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("slot", "date of it", "date of its place", [0, 0, 0, 0.5, 0, 0, 0, 0]),
    ],
)
def test_features_of_words(kind, original, candidate, row):
    (found,) = features.words([Pair(kind, original, candidate)], half)
    assert found.tolist() == row


def test_without_a_measure_letters_count():
    pair = Pair("slot", "date of the trip", "rate of the trip")
    (found,) = features.words([pair])
    assert found[1] == pytest.approx(1 - 0.75 / 2)


def test_texts_are_compared_without_frames_and_flags():
    pairs = [
        Pair("intent", "book a bus", "When somebody wants to book a bus"),
        Pair(
            "slot", "Boolean flag indicating if it is new", "says if it is new or not"
        ),
        Pair("slot", "date of it", "day of it"),
    ]

    def alike(first, second):
        return np.array([float(a == b) for a, b in zip(first, second, strict=True)])

    assert features.sentences(pairs, alike).tolist() == [[0.0], [0.0], [1.0]]


def test_no_pairs():
    assert features.words([]).shape == (0, len(features.WORDS))


def test_features_of_the_round_trip():
    def trip(sources, outputs):
        return [
            Trip(np.full(len(output), -len(source) / 2.0), np.full(len(output), -3.0))
            for source, output in zip(sources, outputs, strict=True)
        ]

    (row,) = features.trips([Pair("slot", "ab", "abcd")], trip)
    assert row.tolist() == [4 * 1.0, 2 * 2.0, 0.0]
