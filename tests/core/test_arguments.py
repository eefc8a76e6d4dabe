"""Options of the command line: declarations, and bounds of numbers."""

import argparse
from typing import Annotated, Literal

import pytest

from jaxaug.cli import build_parser, main
from jaxaug.core import arguments
from jaxaug.core.errors import UserError
from jaxaug.core.ranges import bare

HUGE = "99999999999999999999"


class Server(arguments.Settings):
    """Server of the bakery.

    Attributes:
        port: where it listens
    """

    port: arguments.Count = 80


class Bake(arguments.DataDir, verb="bake", target="oven:run"):
    """Bake bread; 5% of it is salt.

    Attributes:
        loaves: how many,
            in one run
    """

    kind: Annotated[Literal["rye", "oat"], arguments.Arg("KIND")]
    loaves: arguments.Count = 2
    heat: Annotated[float, arguments.Range(0, 1, above=True)] = 0.5
    flour: arguments.Words = ()
    out: Annotated[str | None, arguments.Arg("--to", either="end", required=True)] = (
        None
    )
    eat: Annotated[bool, arguments.Arg(either="end")] = False
    server: Server


def baked(*words):
    parser = arguments.Parser()
    arguments.adds(Bake)(parser.add_subparsers())
    return arguments.given(parser.parse_args(["bake", *words]), Bake)


def test_a_class_declares_a_command(capsys):
    server = Server(port=8)
    found = baked("rye", "--flour", "a", "b", "--eat", "--port", "8", "--heat", "1")
    assert found == Bake(
        kind="rye", flour=("a", "b"), eat=True, heat=1.0, server=server
    )
    assert found.changed(["loaves", "heat", "eat"]) == ["heat", "eat"]
    assert found.as_base(arguments.DataDir) == arguments.DataDir(data_dir=None)
    with pytest.raises(SystemExit):
        baked("--help")
    text = " ".join(capsys.readouterr().out.split())
    for told in ("(--to OUT | --eat)", "bake bread; 5% of it is salt",
                 "how many, in one run (default: 2)", "server of the bakery: --port N",
                 "layout of the SGD repository"):  # fmt: skip
        assert told in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--loaves 0", "--loaves is 0: give a whole number from 1 to 1,000,000."),
        ("--heat nan", "--heat is nan: give a finite number above 0, at most 1."),
        ("--port -1", "--port is -1: give a whole number from 1 to 1,000,000."),
    ],
)
def test_values_out_of_bounds(words, message):
    with pytest.raises(UserError) as error:
        baked("oat", "--eat", *words.split())
    assert str(error.value) == message
    with pytest.raises(UserError, match="KIND is 'rie': give .* Did you mean 'rye'"):
        Bake(kind="rie", server=Server())


def parsers(parser):
    """Yields the parser and the parsers of all verbs and commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in set(action.choices.values()):
                yield from parsers(one)


def test_whole_numbers_have_bounds():
    """Samplers and configs check the numbers that have only a maximum here."""
    ranges = {
        (settings.__name__, field.name): [one for one in notes if hasattr(one, "least")]
        for parser in parsers(build_parser())
        if (settings := parser.get_default("settings"))
        for field in arguments.fields_of(settings)
        for kind, notes in [bare(field.type)]
        if kind is int
    }
    assert all(one.most < 2**63 for (one,) in ranges.values())
    names = {name for (_, name), (one,) in ranges.items() if one.least < 0}
    assert names == {"bottom_k", "bottom_steps", "top_k", "max_length", "num_sources"}
    shown = {key: str(one) for key, (one,) in ranges.items()}
    for key, expected in {
        ("Local", "processes"): "from 1 to 256",
        ("Local", "port"): "from 1,024 to 65,535",
        ("Slurm", "gpus"): "from 1 to 16",
        ("Slurm", "cpus"): "from 1 to 1,000,000",
        ("TpuPod", "restarts"): "from 0 to 1,000,000",
        ("K8s", "slices"): "from 1 to 1,024",
        ("K8s", "nodes"): "from 1 to 1,000,000",
        ("Report", "resamples"): "from 100 to 1,000,000",
        ("Advise", "wordings"): "from 2 to 64",
        ("Attack", "dialogues"): "from 2 to 1,000,000",
        ("Paraphrase", "max_length"): "from 1 to 4,096",
        ("Levels", "rounds"): "from 1 to 1,000,000",
        ("Levels", "seed"): "from 0 to 4,294,967,295",
    }.items():
        assert shown[key] == expected


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
