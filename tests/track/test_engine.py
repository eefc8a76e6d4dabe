"""A tracker in CTranslate2: its answers equal those by JAX, without importing JAX."""

import json
import os
import sys

import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.models.engine import runner
from jaxaug.track import engine
from jaxaug.track.engine import EngineTracker
from jaxaug.track.options import Robust
from jaxaug.track.tracker import Tracker
from tests.support.programs import ran

TALK = "USER: A train to Oslo please\nSYSTEM: I found 2.\nUSER: First class.\n"
# Importing what stands for a blocked package raises an error.
BLOCKED = """
import sys
for name in ("jax", "jaxlib", "flax", "tensorflow", "seqio", "torch", "transformers"):
    sys.modules[name] = None
from jaxaug import cli
sys.exit(cli.main(sys.argv[1:]))
"""
INPUTS = [[*range(9, 9 + n % 39), 1] for n in (3, 38, 5, 37, 6, 33, 2, 36)]


def _until_end(rows):
    return [row[: row.index(1)] if 1 in row else row for row in rows]


@pytest.fixture
def talk(tmp_path):
    file = tmp_path / "talk.txt"
    file.write_text(TALK)
    return str(file)


def test_tokens_are_those_of_jax(trained):
    """Each output until EOS or the length limit; int8 weights differ in a few."""
    folder, _ = trained
    expected = _until_end(Tracker.load(folder).write_tokens(INPUTS))
    found = EngineTracker.load(folder, batch_size=3).write_tokens(INPUTS)
    assert _until_end(found) == expected
    assert len({tuple(row) for row in expected}) > 3
    rounded = EngineTracker.load(folder, precision="int8").write_tokens(INPUTS)
    assert len(rounded) == len(INPUTS)


def test_a_second_start_imports_no_jax(trained, talk, capsys):
    """The first start converts the run; the program of the second finds no JAX."""
    folder, _ = trained
    call = ["predict", "--run", str(folder), "--in", talk, "--engine", "ctranslate2"]
    assert cli.main(call) == 0
    first = capsys.readouterr().out
    assert cli.main(call[:-2]) == 0
    assert first == capsys.readouterr().out
    # Other words, so that no kept answer is read.
    with open(talk, "w") as file:
        file.write(TALK.replace("train", "bus"))
    done = ran([sys.executable, "-c", BLOCKED, *call])
    assert not done.returncode, done.stderr
    assert cli.main(call[:-2]) == 0
    assert done.stdout == capsys.readouterr().out


def test_a_changed_run_is_converted_again(trained, monkeypatch):
    folder, _ = trained
    EngineTracker.load(folder)
    calls = []
    real = engine._converted
    monkeypatch.setattr(engine, "_converted", lambda *a: calls.append(a) or real(*a))
    EngineTracker.load(folder)
    assert not calls
    os.utime(folder / "config.gin", ns=(1, 1))
    EngineTracker.load(folder)
    assert len(calls) == 1


def test_a_damaged_model_is_written_again(trained):
    folder, _ = trained
    tracker = EngineTracker.load(folder)
    expected = tracker.write_tokens(INPUTS)
    place = engine._place(folder, "float32")
    model = json.loads((place / "tracker.json").read_text())["folder"]
    with open(os.path.join(model, "model.bin"), "r+b") as file:
        file.seek(999)
        file.write(b"\0\1\2\3")
    assert EngineTracker.load(folder).write_tokens(INPUTS) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constrained": True}, "only JAX restricts answers"),
        ({"wordings": 3, "combine": "likelihood"}, "only JAX rates answers"),
    ],
)
def test_what_needs_jax_is_refused(trained, options, message):
    with pytest.raises(UserError, match=message):
        EngineTracker.load(trained[0], robust=Robust(**options))


def test_arguments_without_sense(trained, talk, capsys, monkeypatch):
    call = ["predict", "--run", str(trained[0]), "--in", talk]
    assert cli.main([*call, "--precision", "int8"]) == 1
    assert "Add --engine ctranslate2" in capsys.readouterr().err
    monkeypatch.setattr(runner.importlib.util, "find_spec", lambda name: None)
    assert cli.main([*call, "--engine", "ctranslate2"]) == 1
    assert "CTranslate2 is not installed" in capsys.readouterr().err
