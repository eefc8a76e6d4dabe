"""Nearest known names, and what they may cost."""

import difflib
import random
import time

import pytest

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import check_keys, suggestion


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
