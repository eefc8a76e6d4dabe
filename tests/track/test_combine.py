"""Combination of answers under several wordings: exact results on scripted answers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.data.schema import Service, Slot
from jaxaug.formats.records import Parsed
from jaxaug.track import combine
from jaxaug.track.combine import Agreement, Other
from jaxaug.track.options import Robust


def service(*descriptions):
    """Returns a service with slots `city` and `kind`."""
    city, kind = descriptions
    return Service(
        "E_1",
        "",
        (Slot("city", city, False, ()), Slot("kind", kind, True, ("a", "b"))),
        (),
    )


def state(city=None, kind=None, intent="NONE", asked=()):
    """Returns a state with the given values."""
    values = {"city": city, "kind": kind}
    return Parsed({s: (v,) for s, v in values.items() if v}, intent, asked)


def test_every_slot_is_voted_for_by_itself():
    answers = [
        state("oslo", "a", "Find", ("kind",)),
        state("Oslo ", None, "Buy", ("city", "kind")),
        state("rome", "b", "Buy"),
        state("rome", None, "Find", ("city",)),
        state("rome", None, "Buy", ("kind",)),
    ]
    found = combine.vote(answers)
    assert found == state("rome", None, "Buy", ("kind",))


def test_of_equals_the_earliest_wording_is_taken():
    assert combine.vote([state("oslo"), state("rome")]) == state("oslo")
    assert combine.vote([state(), state("rome")]) == state()
    # Letter case and spaces are ignored; the earliest spelling is kept.
    answers = [state("rome"), state("New  York"), state("new york")]
    assert combine.vote(answers) == state("New  York")


def test_agreement_tells_who_differs_and_how():
    services = [
        service("a", "k"),
        service("b", "l"),
        service("c", "m"),
        service("d", "n"),
    ]
    answers = [state("oslo"), state("Oslo", "a"), state("rome"), state()]
    found = combine.agreement(state("oslo"), answers, services)
    assert found == {
        "city": Agreement(0.5, (Other(2, "c", ("rome",)), Other(3, "d", ()))),
        "kind": Agreement(0.75, (Other(1, "l", ("a",)),)),
    }
    assert found["kind"].as_json() == {
        "share": 0.75,
        "others": [{"wording": 1, "description": "l", "values": ["a"]}],
    }


def test_candidates_are_distinct_and_the_vote_is_the_first():
    answers = [
        state("oslo", "a"),
        state("rome", "b"),
        state("rome", "a"),
        state("Oslo", "a"),
    ]
    assert combine.candidates(answers) == [state("oslo", "a"), state("rome", "b"),
                                           state("rome", "a")]  # fmt: skip
    mixed = [state("oslo", "a"), state("rome", "b"), state("oslo", "b")]
    assert combine.candidates([*mixed, state(None, "b"), state("oslo")])[0] == state(
        "oslo", "b"
    )


STATES = st.sampled_from(
    [state(c, k) for c, k in itertools.product((None, "oslo", "rome"), (None, "a"))]
)


@given(STATES, st.lists(STATES, max_size=2))
def test_three_that_agree_settle_the_vote_of_five(first, others):
    assert combine.agree([first] * 3)
    assert combine.vote([first] * 3) == combine.vote([first] * 3 + others)


def test_intents_and_requests_count_for_agreement():
    assert not combine.agree([state("oslo"), state("oslo", intent="Find")])
    assert not combine.agree([state("oslo"), state("oslo", asked=("kind",))])
    assert combine.agree([state("oslo"), state("OSLO")])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("oslo", True),
        ("New  york", True),
        ("st. mary's", True),
        ("st mary s", True),
        ("11:30", True),
        ("dontcare", True),
        ("rn", False),
        ("york city", False),
        ("slo", False),
        ("", True),
    ],
)
def test_values_that_occur_in_no_turn(value, said):
    texts = ["A turn in OSLO, to New York!", "At St. Mary's, 11:30?"]
    found = combine.unsaid(state(value, "a"), service("", ""), texts)
    assert found == ([] if said else ["city"])


def test_categorical_values_need_not_be_said():
    assert combine.unsaid(state("oslo", "b"), service("", ""), ["oslo"]) == []
    assert combine.unsaid(state("oslo", "b"), service("", ""), ["rome"]) == ["city"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"wordings": -1}, "--wordings is -1: give a whole number from 0"),
        ({"wordings": 2, "min_confidence": 1.5}, "min_confidence is 1.5: give"),
        (
            {"wordings": 2, "min_confidence": float("nan")},
            "is nan: give a finite number from 0 to 1",
        ),
        ({"wordings": 2, "combine": "votes"}, "Did you mean 'vote'"),
        ({"unsaid": "remove"}, "keep, mark, drop"),
        ({"wordings": 2, "early": True}, "Give at least 3 wordings"),
        ({"wordings": 2, "uncertain": "drop"}, "Set min_confidence"),
        ({"min_confidence": 0.5}, "Set wordings"),
        ({"combine": "likelihood"}, "Set wordings"),
        ({"source": "variants/mine"}, "Set wordings"),
    ],
)
def test_options_that_cannot_work_are_refused(options, told):
    with pytest.raises(UserError, match=told):
        Robust(**options)
