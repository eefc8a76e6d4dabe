"""Suggestions of similar names, and their cost."""

import difflib
import random
import time

import pytest

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import check_keys, nearest, one_of, suggestion
from jaxaug.paraphrase.samplers import SAMPLERS


def test_many_names_give_the_suggestions_of_difflib():
    rng = random.Random(0)
    known = ["".join(rng.choices("abcde_", k=rng.randint(4, 9))) for _ in range(300)]
    for name in ("abc_d", "eda_", "bcdeabcd", "aaaa_b"):
        near = difflib.get_close_matches(name, sorted(known), n=3)
        assert near and suggestion(name, known) == (
            f"did you mean {' or '.join(map(repr, near))}?"
        )


def test_long_and_many_names_take_no_time():
    known = [f"{'ab' * 2000}{n}" for n in range(50)] + [
        f"slot_{n}" for n in range(3000)
    ]
    start = time.monotonic()
    assert suggestion("ab" * 2000, known).startswith("known: abab")
    for n in range(20):
        assert f"did you mean 'slot_{n}'" in suggestion(f"slots_{n}", known)
    assert time.monotonic() - start < 5


def test_unknown_keys_are_named_with_the_nearest_known_one():
    keys = ("services", "turns")
    check_keys({"turns": 1}, keys, "line 1")
    expected = (
        "line 1: unknown key 'servces'; did you mean 'services'? Correct or remove it."
    )
    with pytest.raises(UserError) as refused:
        check_keys({"turns": 1, "servces": 2}, keys, "line 1")
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("topk", "top_k_top_p"),
        ("top-k", "top_k_top_p"),
        ("bottomk", "bottom_k"),
        ("beam_search", "beam"),
        ("diverse", "diverse_beam"),
        ("GREEDY", "greedy"),
        ("greedi", "greedy"),
    ],
)
def test_the_nearest_name_is_suggested(name, near):
    assert suggestion(name, SAMPLERS) == f"did you mean {near!r}?"


def test_names_far_from_all_get_the_list_of_known_names():
    assert suggestion("zzz", ["b", "a"]) == "known: a, b."
    assert suggestion("zzz", map(str, range(13))).endswith("8, ...")
    assert suggestion("x", []) == "known: none."
    assert suggestion("x" * 10**6, ["a"]) == "known: a."


def test_one_of_lists_the_names_before_the_nearest():
    splits = ["train", "dev", "test"]
    message = "choose one of train, dev, test. Did you mean 'test'?"
    assert one_of("tst", splits, "choose") == message
    assert one_of(None, splits) == "use one of train, dev, test."
    assert nearest("x", splits) == ""
