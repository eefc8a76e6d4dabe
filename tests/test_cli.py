import argparse
import errno
import importlib
import os
import subprocess
import sys

import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from tests.support.programs import python_says, ran

_VERBS = [
    ("doctor",), ("init",), ("data", "fetch"), ("data", "convert"), ("data", "import"),
    ("data", "export"), ("data", "describe"), ("data", "check"), ("data", "show"),
    ("data", "sample"), ("data", "variants"), ("data", "demonstrations"),
    ("data", "cache"), ("format", "d3st"), ("format", "json"), ("format", "sdt"),
    ("format", "sdtind"), ("format", "t5dst"), ("schema", "import"),
    ("schema", "export"), ("evaluate", "sgd"), ("evaluate", "sgdx"),
    ("evaluate", "multiwoz"), ("predict",), ("robustness",), ("advise",), ("attack",),
    ("sensitivity",), ("serve",), ("paraphrase",), ("levels",), ("models", "list"),
    ("models", "fetch"), ("convert",), ("augment", "explain"), ("augment", "review"),
    ("augment", "text"), ("augment", "dialogues"), ("augment", "judge"),
    ("launch", "local"), ("launch", "slurm"), ("launch", "tpu_pod"), ("launch", "k8s"),
    ("launch", "sky"), ("report",), ("errors",), ("tasks",), ("completion",),
]  # fmt: skip
_PAPERS = [("classify",), ("fewshot",), ("invent",), ("papers", "ab")]
_HEAVY = ("absl", "etils", "flax", "gin", "jax", "numpy", "optax", "orbax", "rapidfuzz")
_HEAVY += ("seqio", "sentencepiece", "tensorflow", "torch", "tqdm", "transformers")


def _leaves(parser, path=()):
    """Yields (verb, parser) of every complete command."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield path, parser
    for group in groups:
        for name, child in group.choices.items():
            yield from _leaves(child, (*path, name))


def test_the_verbs():
    assert [path for path, _ in _leaves(cli.build_parser())] == [*_VERBS, *_PAPERS]


@pytest.mark.parametrize("path", [*_VERBS, *_PAPERS], ids=" ".join)
def test_every_verb_has_help_and_a_handler(path, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main([*path, "--help"])
    assert exit_.value.code == 0
    assert f"usage: jaxaug {' '.join(path)}" in capsys.readouterr().out
    module, name = (
        dict(_leaves(cli.build_parser()))[path].get_default("target").split(":")
    )
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("verb", ["augment", "fewshot", "classify"])
def test_help_says_that_a_config_is_a_program(verb, capsys):
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        f"a file of configs/{verb}. It is a Python program and is executed, so use "
        "only files you trust;"
    ) in text


def test_parsing_imports_nothing_heavy():
    program = (
        "import sys\n"
        "from jaxaug.cli import build_parser\n"
        "build_parser().parse_args(['data', 'describe'])\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    loaded = set(python_says(program).split())
    assert "jaxaug" in loaded
    assert loaded.isdisjoint(_HEAVY)


def test_data_verbs_import_neither_jax_nor_tensorflow(sgd_tree):
    program = (
        "import sys\n"
        "from jaxaug.cli import main\n"
        f"assert main(['data', 'describe', '--data_dir', {str(sgd_tree)!r}]) == 0\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print('loaded:', *sorted(names & {'jax', 'seqio', 'tensorflow', 'torch'}))\n"
    )
    assert python_says(program).splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    "module",
    ["tools.run", "tools.convert", "metrics.evaluate", "metrics.report_page"],
)
def test_verbs_start_without_the_grammar_and_large_packages(module):
    """Programs that start in half a second import none of these."""
    program = f"import sys, jaxaug.{module}\nprint(*sys.modules)"
    loaded = set(python_says(program).split())
    heavy = {"boto3", "jax", "spacy", "torch", "jaxaug.augment.grammar.engine"}
    assert f"jaxaug.{module}" in loaded and loaded.isdisjoint(heavy)


def test_program_prints_one_line_and_no_traceback(tmp_path):
    result = ran(
        [sys.executable, "-m", "jaxaug.cli", "data", "describe"]
        + ["--data_dir", str(tmp_path / "none")]
    )
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"jaxaug: error: data folder {tmp_path}/none does not exist")


class _Handler:
    """Replaces the module of a verb."""

    def __init__(self, outcome):
        self.outcome = outcome

    def run(self, arguments):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "status", "message"),
    [
        (None, 0, ""),
        (3, 3, ""),
        (UserError("x is wrong: do y."), 1, "jaxaug: error: x is wrong: do y.\n"),
        (OSError(errno.ENOSPC, "No space left on device", "out.tsv"), 1,
         ("jaxaug: error: out.tsv: No space left on device. Free some space, "
         "then run the same command again.\n")),
        (OSError(errno.EACCES, "Permission denied", "a/.b.tsv.0123abcd.tmp/.c.tmp"), 1,
         ("jaxaug: error: a/b.tsv/.c.tmp: Permission denied. Change its "
         "permissions, or name another path.\n")),
        (OSError("of its own words"), 1, "jaxaug: error: of its own words\n"),
        (KeyboardInterrupt(), 130, "jaxaug: interrupted\n"),
    ],
)  # fmt: skip
def test_status_and_message(monkeypatch, capsys, outcome, status, message):
    monkeypatch.setattr(cli.importlib, "import_module", lambda _: _Handler(outcome))
    assert cli.main(["doctor"]) == status
    assert capsys.readouterr().err == message


def test_a_closed_pipe_ends_silently():
    """The pipe is closed early, as in `jaxaug completion bash | head -1`."""
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "jaxaug.cli", "completion", "bash"]
    streams = {"stdout": theirs, "stderr": subprocess.PIPE, "capture_output": False}
    done = ran(command, **streams)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


def test_defects_keep_their_traceback(monkeypatch):
    broken = _Handler(ZeroDivisionError("ours"))
    monkeypatch.setattr(cli.importlib, "import_module", lambda _: broken)
    with pytest.raises(ZeroDivisionError, match="ours"):
        cli.main(["doctor"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: VERB"),
        (["dance"], "invalid choice: 'dance'"),
        (["clasify"], "'papers'). Did you mean 'classify'?"),
        (["augment", "txt"], "'judge'). Did you mean 'text'?"),
        (
            ["levels", "--in", "a", "--out", "b", "--model", "c", "--simlarity=d"],
            "unrecognized arguments: --simlarity=d. Did you mean '--similarity'?",
        ),
        (["doctor", "now"], "unrecognized arguments: now\n"),
        (["data", "variants", "--split", "eval"], "invalid choice: 'eval'"),
        (["format", "d3st", "--split", "dev"], "are required: --out"),
    ],
)
def test_wrong_usage(capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
