"""Three users, from the first command to the last.

The tutorial docs/own_schema.md runs once, command by command. The student and the
engineer continue with the trained run.
"""

import contextlib
import dataclasses
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

import jaxaug
from jaxaug.cli import main
from jaxaug.serve import app, wordings
from jaxaug.serve.limits import Limits
from tests.support import extension
from tests.support.programs import ran
from tests.support.served import rows, served

ROOT = Path(__file__).resolve().parent.parent
_PAGE = (ROOT / "docs/own_schema.md").read_text(encoding="utf-8")
# The page shows figures after 100 steps.
_STEPS = ["--gin.TRAIN_STEPS=2", "--gin.EVAL_PERIOD=2", "--gin.BATCH_SIZE=2"]
_EVAL = ["--gin.EVAL_BATCH_SIZE=10"]
_LINE = ["runs/mine", "--schema", "schema.json", "--services", "Restaurants_1"]


@dataclasses.dataclass(frozen=True)
class Step:
    """A command of the tutorial: the output on the page, and the output here."""

    command: str
    shown: Sequence[str]
    status: int = 0
    said: str = ""


@dataclasses.dataclass(frozen=True)
class Tutorial:
    """The folder in which the tutorial ran, and its steps."""

    folder: Path
    steps: Sequence[Step]

    def of(self, verb: str) -> list[Step]:
        """Returns the steps of a verb."""
        return [s for s in self.steps if f"jaxaug {verb} " in f"{s.command} "]


def commands() -> list[Step]:
    """Returns the commands of the page, in order."""
    found: list[tuple[str, list[str]]] = []
    for line in _PAGE.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:])
    return [Step(*one) for one in found]


def jaxaug_says(words: Sequence[str]) -> tuple[int, str]:
    """Returns status and standard output of a `jaxaug` command."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = main(words)
    return status, said.getvalue()


def program_says(python: str, command: str, *more: str) -> str:
    """Returns the output of `[NAME=VALUE] python ...`, with more flags."""
    words = shlex.split(command)
    given = dict(words.pop(0).split("=", 1) for _ in words[:1] if "=" in words[0])
    assert words[0] == "python"
    done = ran([python, *words[1:], *more], env=os.environ | given)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tutorial(python, tmp_path_factory):
    """Runs the tutorial as written, with fewer steps."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "configs").symlink_to(ROOT / "configs")
    done = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("DATA_DIR", "VARIANTS_DIR", "VOCABULARY"):
            patch.delenv(f"JAXAUG_{name}", raising=False)
        patch.setenv("JAXAUG_CACHE_DIR", str(folder / "cache"))
        for step in commands():
            status, said = 0, ""
            if step.command.startswith("jaxaug "):
                status, said = jaxaug_says(shlex.split(step.command)[1:])
            elif "t5x.train" in step.command:
                said = program_says(python, step.command, *_STEPS, *_EVAL)
            else:
                subprocess.run(step.command, shell=True, check=True)
            done.append(dataclasses.replace(step, status=status, said=said))
    return Tutorial(folder, done)


@pytest.fixture
def elsewhere(tutorial, tmp_path, monkeypatch):
    """Moves run and schema to another folder, and changes the data."""
    shutil.copytree(tutorial.folder / "runs/mine", tmp_path / "runs/mine")
    data = shutil.copytree(tutorial.folder / "mydata", tmp_path / "mydata")
    shutil.move(data / "test/schema.json", tmp_path / "schema.json")
    for path in data.glob("*/schema.json"):
        path.write_text(path.read_text().replace("city", "aardvark"))
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(data))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_tutorial_shows_the_real_output(tutorial):
    for step in tutorial.steps:
        assert step.status == (1 if "3 errors" in step.shown else 0), step.said
    for verb in ("init", "data check", "augment"):
        for step in tutorial.of(verb):
            numbers = r"\d+ s \(.*" if verb == "augment" else "$^"
            lines = [re.sub(numbers, "", line) for line in step.said.splitlines()]
            for line in step.shown:
                assert re.sub(numbers, "", line) in lines
    (training,) = (step for step in tutorial.steps if "t5x.train" in step.command)
    table = training.said[training.said.index("JGA_orig") :].split("\n")[0]
    assert training.shown[0] in training.said
    assert training.shown[1].split() == table.split()
    (report,) = tutorial.of("report")
    name = report.said.splitlines()[1].split()[0]
    assert name == report.shown[0].split()[0] == "mine"
    (predicted,) = tutorial.of("predict")
    _same_shape(json.loads(predicted.said), json.loads(predicted.shown[0]))


def _same_shape(made, shown):
    """Compares shapes, because answers after 2 and after 100 steps may differ."""
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


@pytest.mark.long
@pytest.mark.slow
def test_a_student_installs_trains_evaluates_and_reports(tutorial, python, monkeypatch):
    """Runs the commands of README.md and docs/training.md on the tutorial's run."""
    made = ["make", "--no-print-directory", "-n", "demo", "VENV=new"]
    demo = ran(made, cwd=ROOT, check=True)
    environment, _, install, _, train, report = demo.stdout.splitlines()
    assert environment == "python3 -m venv new"
    assert install.startswith("links=$(new/bin/pip config list")
    assert (
        install.count("-e ./runtime -e '.[jax,report,serve]'") == 2
    )  # by uv, or by pip
    readme = (ROOT / "README.md").read_text()
    assert f"    {train.removeprefix('new/bin/')}\n" in readme
    assert report == "new/bin/jaxaug report runs/d3st_aug"
    # From here on the run is the tutorial's; test_wheels.py tests the installation.
    monkeypatch.chdir(tutorial.folder)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tutorial.folder / "cache"))
    monkeypatch.setenv("JAXAUG_DATA_DIR", "mydata")
    page = (ROOT / "docs/training.md").read_text()
    (command,) = re.findall(r"\| a checkpoint on v1..v5 \| `(.*)` \|", page)
    command = command.replace("runs/d3st_aug", "runs/mine")
    said = program_says(python, command, "--gin.BATCH_SIZE=10")
    (trained,) = (step for step in tutorial.steps if "t5x.train" in step.command)
    lines = [
        [line for line in text.splitlines() if line.startswith("d3st step 2")]
        for text in (trained.said, said)
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 1
    of_training = Path("runs/mine/inference_eval/robustness/d3st-000002.json")
    of_evaluation = Path("runs/mine/eval") / of_training.relative_to("runs/mine")
    assert json.loads(of_training.read_text()) == json.loads(of_evaluation.read_text())
    # Its own files are still the files of training.
    assert "train_script.train" in Path("runs/mine/config.gin").read_text()
    status, said = jaxaug_says(["report", "runs/mine", "--html", "all.html"])
    assert status == 0
    # Name and all eleven figures, as printed by training.
    assert said.splitlines()[1].split()[1:] == lines[0][0].split()[3:]
    made = Path("all.html").read_text()
    assert "<h2>Robustness" in made and "<h2>Training of mine</h2>" in made
    status, said = jaxaug_says(["errors", "runs/mine"])
    assert (
        status == 0
        and "10 frames of 4 dialogues under original, v1, v2, v3, v4, v5" in said
    )


@pytest.mark.slow
def test_an_engineer_asks_in_four_ways(tutorial, elsewhere, request, capsys):
    """Command, class, API, and page give the tutorial's answers in another folder."""
    (predicted,) = tutorial.of("predict")
    talk = (tutorial.folder / "talk.txt").read_text()
    Path("talk.txt").write_text(talk)
    assert main(["predict", "--run", *_LINE, "--in", "talk.txt"]) == 0
    assert capsys.readouterr().out == predicted.said
    known = wordings.read("schema.json", None, Limits().description)
    tracker = jaxaug.Tracker.load("runs/mine", "schema.json")
    services = _LINE[-1:]
    about = tracker.about(known.choose(None, services))
    found = about.predict(talk).as_json()
    assert found == json.loads(predicted.said)
    with served(app.build(tracker, known, hosts=["127.0.0.1"])) as address:
        asked = {"dialogue": talk, "services": services}
        post = urllib.request.Request(
            f"{address}/api/predict",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(post, timeout=60) as answer:
            assert answer.read().decode() == predicted.said
        # The last step, because it skips the test without a browser.
        _page_shows(request.getfixturevalue("page"), address, talk, found)


def _page_shows(page, address, talk, found):
    page.goto(address)
    for box in page.locator("input[type=checkbox]").all():
        box.set_checked(False)
    page.get_by_label(found["services"][0]).check()
    page.get_by_label("Dialogue, a line for each turn").fill(talk)
    with page.expect_response("**/api/predict") as response:
        page.get_by_role("button", name="Show the states").click()
    assert response.value.json() == found
    users = [turn for turn in found["turns"] if turn["speaker"] == "USER"]
    page.locator("#result article").nth(len(users) - 1).wait_for()
    for number, turn in enumerate(users, 1):
        (frame,) = turn["frames"]
        shown = {name: value for name, _, value, *_ in rows(page, number)}
        for slot, values in frame["state"]["slot_values"].items():
            assert shown[slot].startswith(" | ".join(values))


MINE = """
import functools

import jax.numpy as jnp

from jaxaug.decode import sample


def mine(*, rank: int = 0):
    \"\"\"Always the token of that rank.\"\"\"

    def warper(logits, state):
        place = jnp.argsort(jnp.argsort(-logits, axis=-1), axis=-1)
        return jnp.where(place == rank, 0.0, jnp.finfo(logits.dtype).min)

    return functools.partial(sample.sample, warpers=(warper,))
"""


def test_a_researcher_adds_a_sampler(tiny_lm, tmp_path, monkeypatch, capsys):
    """A package with one entry point adds a sampler, which decides the outputs."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    lines = tmp_path / "lines.txt"
    lines.write_text("find me a hotel\nfrom which city\n")
    base = ["paraphrase", "--model", str(tiny_lm), "--prompt", "plain", "--in"]
    base += [str(lines), "--max_length", "6", "--sampler"]

    def texts(*words):
        out = tmp_path / f"{'-'.join(words)}.jsonl"
        assert main([*base, *words, "--out", str(out)]) == 0, capsys.readouterr().err
        return [json.loads(line)["output"] for line in out.read_text().splitlines()]

    assert main([*base, "mine", "--out", str(tmp_path / "no.jsonl")]) == 1
    assert "'mine' is not a sampler; known: beam" in capsys.readouterr().err
    groups = {"jaxaug.samplers": {"mine": "lab_samplers:mine"}}
    extension.install(tmp_path, monkeypatch, "lab-samplers", groups, MINE)
    plain = texts("mine")
    assert plain == texts("greedy") and all(plain)
    assert texts("mine", "--option", "rank=1") != plain
