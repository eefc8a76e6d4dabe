import numpy as np
import pytest

from jaxaug.augment.judge import measures, small_models


def test_length():
    found = small_models.length(["a b c d", "a", ""], ["a b", "a b c", "a"])
    assert found.tolist() == [0.5, 3.0, 1.0]


def test_how():
    sources = ["City of the bus", "Number of seats", "Number of seats", "City"]
    found = small_models.how(
        sources, ["How many buses", "How many seats", "Seats", "However"]
    )
    assert found.tolist() == [1, 0, 0, 0]


def test_commands_stay_commands():
    candidates = ["car you rent", "get a car", "adding a car", "car rental find"]
    found = small_models.keeps_command("rent a car", candidates)
    assert found == [False, True, False, False]
    candidates = ["Book of a flight", "Reserve a seat on a plane"]
    assert small_models.keeps_command("Book a flight", candidates) == [False, True]
    assert small_models.keeps_command("City of the bus", ["Town of the bus"]) == [True]


@pytest.mark.parametrize(
    "text",
    [
        "Boolean flag indicating if pets are allowed",
        "Boolean flag indicating whether pets are allowed",
        "Boolean flag whether pets are allowed",
        "A flag that says if pets are allowed",
        "Indicates whether pets are allowed",
        "if pets are allowed",
        "Whether pets are allowed",
    ],
)
def test_flags_are_plain(text):
    assert small_models.plain(text) == "whether pets are allowed"


@pytest.mark.parametrize("text", ["Flag of the country", "Date of the trip", "Iffy"])
def test_other_texts_stay(text):
    assert small_models.plain(text) == text


def test_similarity_is_of_plain_texts(monkeypatch):
    seen = []

    def measure(sources, candidates):
        seen.append((sources, candidates))
        return np.ones(len(sources))

    monkeypatch.setattr(measures, "find", lambda name, **options: measure)
    assert small_models.similarity()(["Boolean flag if x"], ["If x"]).tolist() == [1.0]
    assert seen == [(["whether x"], ["whether x"])]


def test_trivial_candidates():
    found = small_models.trivial(
        ["pick up date"] * 2, ["pickup date", "date of pickup"]
    )
    assert found.tolist() == [1, 0]
