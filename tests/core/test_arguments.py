"""Arguments of the command line: every whole number has a maximum."""

import argparse

import pytest

from jaxaug.cli import build_parser, main
from jaxaug.core import arguments

HUGE = "99999999999999999999"


def parsers(parser):
    """Yields the parser and the parsers of all verbs and commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in set(action.choices.values()):
                yield from parsers(one)


def test_whole_numbers_have_a_maximum():
    """Only seeds are unlimited here; their verbs check them."""
    unbounded = {
        option
        for parser in parsers(build_parser())
        for action in parser._actions
        if action.type is int
        for option in action.option_strings
    }
    assert unbounded == {"--seed"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HUGE, f"{HUGE} is out of range: give a whole number of at most 1,000,000"),
        ("-" + HUGE, f"-{HUGE} is out of range"),
        ("1000001", "1000001 is out of range"),
        ("9" * 5000, f"'{'9' * 37}...' is not a whole number: give one of at most"),
        ("1.5", "'1.5' is not a whole number"),
    ],
)
def test_numbers_out_of_range(text, message):
    with pytest.raises(argparse.ArgumentTypeError) as error:
        arguments.whole(arguments.MANY)(text)
    assert str(error.value).startswith(message)
    assert arguments.whole(arguments.MANY)("1000000") == 1_000_000


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["report", "run"], "--resamples"),
        (["errors", "run"], "--limit"),
        (["data", "show"], "--num"),
        (["predict", "--run", "r"], "--batch_size"),
        (["serve", "--run", "r"], "--port"),
    ],
)
def test_the_message_names_the_argument(capsys, command, name):
    with pytest.raises(SystemExit) as ended:
        main([*command, name, HUGE])
    assert ended.value.code == 2
    assert f"error: argument {name}: {HUGE} is out of range" in capsys.readouterr().err
