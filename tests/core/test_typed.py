"""Checks of user input against type annotations."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from jaxaug.core import typed
from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range

Rate = Annotated[float, Range(0, 1)]


@dataclasses.dataclass
class Kind:
    count: int = 1
    rate: float = 1.0
    name: str = ""
    flag: bool = False
    names: tuple[str, ...] = ()
    pair: tuple[int, float] = (1, 1.0)
    texts: Sequence[str] = ()
    table: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    free: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    maybe: int | None = None
    path: str | os.PathLike[str] = ""
    rule: str | Callable[..., Any] = ""


@pytest.mark.parametrize(
    "fields",
    [
        {"count": 3, "rate": 2, "name": "x", "flag": True},
        {"count": np.int64(3), "rate": np.float32(0.5)},
        {"names": ["a", "b"], "pair": [1, 2], "texts": ("a",)},
        {"table": {"a": {"b": 1}}, "free": {"a": object()}},
        {"maybe": None, "path": os.path, "unknown": 7} | {"path": "x"},
        {"maybe": 3, "rule": max},
        {"rate": 10**400},
    ],
)
def test_right_types(fields):
    typed.check(fields, Kind, "here")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": 1.0}, "here: count=1.0: expected a whole number."),
        ({"count": True}, "here: count=True: expected a whole number."),
        ({"count": None}, "here: count=None: expected a whole number."),
        ({"rate": "1"}, "here: rate='1': expected a finite number."),
        ({"rate": float("inf")}, "here: rate=inf: expected a finite number."),
        ({"rate": float("nan")}, "here: rate=nan: expected a finite number."),
        ({"name": b"x"}, "here: name=b'x': expected a text."),
        ({"flag": 1}, "here: flag=1: expected True or False."),
        ({"names": "ab"}, "here: names='ab': expected a tuple (each item a text)."),
        ({"names": [1]}, "here: names=[1]: expected a tuple (each item a text)."),
        ({"pair": (1,)},
         "here: pair=(1,): expected (a whole number, a finite number)."),
        ({"table": {"a": 1}},
         ("here: table={'a': 1}: expected a mapping (each key a text, each value "
         "a mapping (each key a text, each value a finite number)).")),
        ({"free": {1: 2}},
         ("here: free={1: 2}: expected a mapping (each key a text, each value "
         "anything).")),
        ({"maybe": "x"}, "here: maybe='x': expected a whole number or None."),
        ({"path": 1}, "here: path=1: expected a text or a path."),
        ({"rule": 1}, "here: rule=1: expected a text or a function."),
    ],
)  # fmt: skip
def test_wrong_types(fields, message):
    with pytest.raises(UserError) as error:
        typed.check(fields, Kind, "here")
    assert str(error.value) == message


def test_arguments_of_a_function():
    def function(text: str, *, number: int = 1, **options: Any) -> str:
        return text * number

    typed.check({"text": "a", "number": 2, "other": None}, function, "here")
    with pytest.raises(UserError, match="here: number='2': expected a whole number"):
        typed.check({"number": "2"}, function, "here")


def test_seeds():
    for seed in (0, 7, 2**32 - 1, np.int32(3)):
        typed.check_seed(seed, "--seed")
    for seed in (-1, 2**32, 2**63, 10**400, 1.0, True, "1"):
        with pytest.raises(
            UserError, match="give a whole number from 0 to 4,294,967,295"
        ):
            typed.check_seed(seed, "--seed")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("x", int, "x"),
        ("0.5", float, 0.5),
        ("TRUE", bool, True),
        ("3", str, "3"),
        ("a, b", Sequence[str], ["a", "b"]),
        ("1,2", tuple[int, ...], [1, 2]),
        ("3", int | Sequence[str], 3),
        ("fr,ru", int | Sequence[str], ["fr", "ru"]),
        ("none", int | None, None),
        ("x", int | None, "x"),
        ("a/b", str | os.PathLike[str] | None, "a/b"),
        ('{"a": 1}', Mapping[str, int], {"a": 1}),
        ("{", Mapping[str, int], "{"),
    ],
)
def test_texts_are_converted_by_annotation(text, kind, value):
    found = typed.parsed(text, kind)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_whole_numbers_fit_into_64_bits(number):
    with pytest.raises(
        UserError,
        match=r"here: count=.*: expected a whole number \(at most 64 bits\)\.$",
    ):
        typed.check({"count": number}, Kind, "here")
    typed.check({"count": 2**63 - 1}, Kind, "here")


def test_a_mapping_of_a_command_line_is_read_by_the_one_json_reader():
    for text in ('{"a": 1, "a": 2}', "[" * 100_000, '{"a": ' + "1" * 5000 + "}"):
        assert typed.parsed(text, Mapping[str, Any]) == text
    assert typed.parsed('{"a": 1}', Mapping[str, Any]) == {"a": 1}


@dataclasses.dataclass(frozen=True)
class Rates:
    low: Annotated[float, Range(0, 1)] = 0.5
    above: Annotated[int, Range(0, above=True)] = 1
    weights: Annotated[tuple[float, ...], Range(0)] = (1.0,)
    mode: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"low": -0.1}, "here: low=-0.1: expected a finite number from 0 to 1."),
        ({"low": "x"}, "here: low='x': expected a finite number from 0 to 1."),
        ({"above": 0}, "here: above=0: expected a whole number above 0."),
        ({"weights": [1, -1]}, "here: weights=[1, -1]: expected a tuple (each item a "),
        ({"mode": "c"}, "here: mode='c': expected 'a' or 'b'."),
    ],
)
def test_bounds(fields, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        typed.made(Rates, fields, "here")


def test_options_are_made_of_fields_that_are_given():
    assert typed.made(Rates, {"low": 1, "weights": [0, 2]}, "") == Rates(1, 1, (0, 2))


def test_a_flat_function_takes_and_lists_the_fields():
    @typed.flat(Rates)
    def function(first, *, options: Rates, last=3):
        return first, options, last

    assert function(1, low=0.25, last=4) == (1, Rates(0.25), 4)
    assert function(1) == (1, Rates(), 3)
    assert list(inspect.signature(function).parameters) == [
        "first", "low", "above", "weights", "mode", "last",
    ]  # fmt: skip
    with pytest.raises(UserError, match="test_typed: low=2: expected a finite number"):
        function(1, low=2)


def test_a_bounded_function_checks_each_call():
    @typed.bounded
    def half(value: Annotated[float, Range(0, 1)], rate: Rate | None = None):
        return value / 2, rate

    assert half(1.0) == (0.5, None)
    for arguments in ((2,), (1, 7)):
        with pytest.raises(UserError, match="half: .*: expected .*from 0 to 1"):
            half(*arguments)
