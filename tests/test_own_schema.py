"""The tutorial docs/own_schema.md, command by command."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from jaxaug.cli import main

ROOT = Path(__file__).resolve().parent.parent
_PAGE = (ROOT / "docs/own_schema.md").read_text(encoding="utf-8")
# Its figures are of 100 steps.
_QUICK = ["--gin.TRAIN_STEPS=2", "--gin.EVAL_PERIOD=2", "--gin.BATCH_SIZE=2"]
_QUICK += ["--gin.EVAL_BATCH_SIZE=10"]


def _commands():
    """Command -> the lines of output that the page shows, in the page's order."""
    found = []
    for line in _PAGE.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:])
    return found


def _trained(python, command):
    setting, *words = shlex.split(command)
    name, _, value = setting.partition("=")
    assert words[0] == "python"
    done = subprocess.run(
        [python, *words[1:], *_QUICK],
        env=os.environ | {name: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_page_says_what_happens(python, tmp_path, monkeypatch, capsys):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAXAUG_DATA_DIR", raising=False)
    monkeypatch.delenv("JAXAUG_VARIANTS_DIR", raising=False)
    monkeypatch.delenv("JAXAUG_VOCABULARY", raising=False)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    verbs = []
    for command, shown in _commands():
        words = shlex.split(command)
        if words[0] != "jaxaug":
            if "t5x.train" in command:
                said = _trained(python, command)
                assert shown[0] in said
                assert (
                    shown[1].split()
                    == said[said.index("JGA_orig") :].split("\n")[0].split()
                )
            else:
                subprocess.run(command, shell=True, check=True)
            continue
        status = main(words[1:])
        said = capsys.readouterr().out
        verbs.append(words[1])
        assert status == (1 if "3 errors" in shown else 0), said
        if words[1] == "predict":
            _same_shape(json.loads(said), json.loads(shown[0]))
        elif words[1] == "report":
            assert said.splitlines()[1].split()[0] == shown[0].split()[0] == "mine"
        else:
            numbers = r"\d+ s \(.*" if words[1] == "augment" else "$^"
            lines = [re.sub(numbers, "", line) for line in said.splitlines()]
            for line in shown:
                assert re.sub(numbers, "", line) in lines
    assert verbs == [
        "init", "data", "data", "augment", "report", "predict"
    ]  # fmt: skip


def _same_shape(made, shown):
    """Answers after 2 steps may be others than after 100."""
    users = [turn for turn in made["turns"] if turn["speaker"] == "USER"]
    assert [turn["utterance"] for turn in users] == [
        "i need a table in Oslo for 2 people",
        "at 6 pm",
    ]
    for turn in users:
        (frame,) = turn["frames"]
        assert frame.keys() == shown.keys() and frame["service"] == shown["service"]
        assert frame["state"].keys() == shown["state"].keys()
    assert users[-1]["frames"][0]["spans"].items() <= shown["spans"].items()
