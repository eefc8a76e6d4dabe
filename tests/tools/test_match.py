"""Scores of calls: exact ones by hand, and states as SGD's metric scores them."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.data.dialogue import State
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.metrics import dst
from jaxaug.metrics.slot_scores import Reference
from jaxaug.tools import match
from jaxaug.tools.match import ABSENT, Call, Expected, score, score_state

WEATHER = Expected("weather", {"city": ("New York, NY", "NYC"), "days": (3, ABSENT)})
NESTED = Expected("book", {"guest": ({"name": ("Ann",), "age": (30, ABSENT)},)})
LIST = Expected("show", {"parts": (["a b", "c"],), "all": (True,)})


@pytest.mark.parametrize(
    ("expected", "arguments", "exact"),
    [
        (WEATHER, {"city": "NYC"}, 1),
        (
            WEATHER,
            {"city": "new york ny", "days": 3.0},
            1,
        ),  # 3.0 is an integer in JSON.
        (WEATHER, {"city": "NYC", "days": "3"}, 0),
        (WEATHER, {"city": "NYC", "days": True}, 0),
        (WEATHER, {"days": 3}, 0),
        (WEATHER, {"city": "NYC", "unit": "c"}, 0),
        (WEATHER, {"city": ["NYC"]}, 0),
        (NESTED, {"guest": {"name": "ann"}}, 1),
        (NESTED, {"guest": {"name": "Ann", "age": 31}}, 0),
        (NESTED, {"guest": {"name": "Ann", "room": 1}}, 0),
        (NESTED, {"guest": "Ann"}, 0),
        (LIST, {"parts": ["A-B", "c"], "all": True}, 1),
        (LIST, {"parts": ["c", "a b"], "all": True}, 0),
        (LIST, {"parts": ["a b"], "all": True}, 0),
        (LIST, {"parts": ["a b", "c"], "all": 1}, 0),
        (Expected("f", {"x": (1,)}), {"x": True}, 0),
        (Expected("f", {"x": ([1],)}), {"x": [True]}, 0),
        (Expected("f", {"x": ("a", ABSENT, "")}), {"x": ""}, 1),
        (Expected("f", {"x": ("a", ABSENT)}), {"x": ""}, 0),
        (Expected("f", {"x": ()}), {"x": 1}, 0),
    ],
)
def test_arguments_by_hand(expected, arguments, exact):
    assert score([expected], [Call(expected.name, arguments)], False).score == exact


def test_tools_number_and_order():
    one, two = Expected("f", {"x": (1,)}), Expected("f", {"x": (2,)})
    calls = [Call("f", {"x": 2}), Call("f", {"x": 1})]
    assert score([one, two], calls, False).score == 1
    for told, parts in (
        (calls[:1], {("f", "x"): 0, ("f", ""): 0}),
        ([*calls, Call("g", {})], {("f", "x"): 1, ("f", ""): 1, ("g", ""): 0}),
        ([], {("f", "x"): 0, ("f", ""): 0}),
    ):
        found = score([one, two], told, False)
        assert found.score == 0 and dict(found.parts) == parts, told
    assert score([], [], False).score == 1
    assert score([], calls, False).score == 0


def test_a_listed_number_is_no_flag():
    expected = Expected("f", {"x": (1,)}, {"x"})
    assert score([expected], [Call("f", {"x": True})], True).score == 0
    assert score([expected], [Call("f", {"x": 1})], True).score == 1


@given(st.data())
def test_the_assignment_by_brute_force(data):
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 5))
    part = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    table = [
        [{"a": data.draw(part), "b": data.draw(part)} for _ in range(columns)]
        for _ in range(rows)
    ]

    def cost(places):
        pairs = zip(table, places, strict=True)
        return sum(2e6 if n is None else match._cost(row[n]) for row, n in pairs)

    found = match._assigned(table)
    taken = [place for place in found if place is not None]
    assert len({*taken}) == len(taken) == min(rows, columns)
    every = itertools.permutations([*range(columns), *[None] * rows], rows)
    assert math.isclose(cost(found), min(map(cost, every)), abs_tol=1e-6)


def test_fuzzy_scores_are_those_of_values():
    expected = Expected("f", {"name": ("Roma Bar",), "kind": ("bar",)}, {"kind"})
    # token_sort_ratio of "bar roma" and "roma": 2 * 4 / (8 + 4).
    for kind, fuzzy, wanted in (
        ("bar", True, 0.67),
        ("Bar", True, 0),
        ("bar", False, 0),
    ):
        given_calls = [Call("f", {"name": "Roma", "kind": kind})]
        assert score([expected], given_calls, fuzzy).score == wanted


SLOTS = {"city": False, "kind": True, "time": False}
_SERVICE = Service(
    "S", "s", tuple(Slot(n, n, c, ("a", "b")) for n, c in SLOTS.items()), ()
)
_VALUES = st.sampled_from(["a", "b", "a b", "7 pm", "7 in the evening"])
_STATES = st.dictionaries(
    st.sampled_from([*SLOTS]), st.lists(_VALUES, min_size=1, max_size=2).map(tuple)
)


@given(_STATES, st.dictionaries(st.sampled_from([*SLOTS, "unknown"]), _VALUES))
def test_states_score_as_joint_goal_accuracy(annotated, predicted):
    reference = Reference("d", 0, "S", State("NONE", (), annotated))
    told = State("NONE", (), {name: (value,) for name, value in predicted.items()})
    metric = dst.frame_scores([reference], [told], Schema((_SERVICE,)))
    accepted = {n: v[:1] if SLOTS[n] else v for n, v in annotated.items()}
    expected = Expected("S", accepted, {"kind"})
    found = score_state(expected, [Call("S", predicted)], SLOTS, True)
    assert math.isclose(found.score, metric.values[dst.JGA][0])


def test_values_of_states_are_texts():
    expected = Expected("S", {"city": ("2",), "kind": ("True",)}, {"kind"})
    calls = [Call("T", {}), Call("S", {"city": [2], "kind": True, "time": None})]
    assert score_state(expected, calls, SLOTS, True).score == 1
    assert score_state(Expected("S", {}), [], SLOTS, True).score == 1
