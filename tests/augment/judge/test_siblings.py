"""Paraphrases with the meaning of another slot of the service."""

import numpy as np
import pytest

from jaxaug.augment import config as configs
from jaxaug.augment.descriptions import Description, beside
from jaxaug.augment.judge import measures
from jaxaug.core.errors import UserError


def described(id_, kind, text):
    return Description(id_, kind, "Flights_1", "x", text, ())


DESCRIPTIONS = [
    described("train/0/service", "service", "Flights"),
    described("train/0/slot/0", "slot", "arrival time"),
    described("train/0/slot/1", "slot", "departure time"),
    described("train/0/slot/2", "slot", "Arrival time"),
    described("train/0/intent/0", "intent", "find flights"),
    described("train/1/service", "service", "Buses"),
    described("train/1/slot/0", "slot", "departure city"),
    described("test/0/slot/0", "slot", "price"),
]


def shared_words(sources, candidates):
    pairs = zip(sources, candidates, strict=True)
    return np.array([len(set(a.split()) & set(b.split())) for a, b in pairs], float)


def test_others_are_of_the_same_kind_and_service():
    found = beside(DESCRIPTIONS)
    assert found == {
        "train/0/service": (),
        # The third slot has the same text up to letter case.
        "train/0/slot/0": ("departure time",),
        "train/0/slot/1": ("arrival time", "Arrival time"),
        "train/0/slot/2": ("departure time",),
        "train/0/intent/0": (),
        "train/1/service": (),
        "train/1/slot/0": (),
        "test/0/slot/0": (),
    }


def test_the_nearest_other_text_counts():
    items = [
        (["departure time", "seat class"], ["time of departure", "class", "x"]),
        ([], ["anything"]),
        (["price"], []),
    ]
    assert measures.nearness(shared_words, items) == [[2.0, 1.0, 0.0], [None], []]


def test_nothing_to_compare():
    assert measures.nearness(shared_words, [([], []), ([], ["a"])]) == [[], [None]]


def test_values_are_finite():
    with pytest.raises(UserError, match="metric 'apart_by' is nan for source 'b'"):
        measures.nearness(lambda a, b: np.array([1.0, np.nan]), [(["a", "b"], ["c"])])


def test_the_metric_must_be_one_of_the_run():
    with pytest.raises(UserError, match="apart_by='far'.*Add it to metrics"):
        configs.of({"scheme": "paraphrase", "apart_by": "far"}, "here")
