"""benchmarks/in_context.py: solved frames in the prompt of an untrained model."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import cache, recipes
from jaxaug.models.text import language
from jaxaug.paraphrase import literals
from jaxaug.paraphrase import run as paraphrasing

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def program(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("in_context")
    sys.modules.pop("in_context", None)


@pytest.fixture
def call(program, monkeypatch, sgd_tree, tmp_path, tiny_lm):
    def call(*more: str) -> Path:
        words = ["--out", str(tmp_path / "out"), "--model", str(tiny_lm)]
        words += ["--shots", "1", "--max_length", "8", *more]
        monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
        monkeypatch.setattr(sys, "argv", ["in_context.py", *words])
        program.main()
        return tmp_path / "out"

    return call


def of_split(sgd_tree, task, split):
    return list(cache.build(recipes.table(sgd_tree).recipes[task][split]).read())


def test_right_answers_score_100(program, call, sgd_tree, monkeypatch):
    right = {
        example.inputs: example.targets
        for task in recipes.table(sgd_tree).wordings("d3st", "test")
        for example in of_split(sgd_tree, task, "test")
    }
    monkeypatch.setattr(
        program, "answers", lambda model, inputs, length: [right[i] for i in inputs]
    )
    out = call()
    report = json.loads((out / "robustness/d3st-000000.json").read_text())
    figures = report["per_variant"]
    assert sorted(figures) == ["original", "v1", "v2", "v3", "v4", "v5"]
    for wording in figures.values():
        assert wording["#ALL_SERVICES"]["joint_goal_accuracy"] == 1.0
    assert (out / "predictions/d3st-000000/v5/dialogues.json").exists()

    # Answered frames are not computed again, and other examples are refused.
    monkeypatch.setattr(program, "answers", None)
    call()
    with pytest.raises(SystemExit, match="holds answers to another prompt"):
        call("--longest", "200")


def test_the_prompt_shows_solved_frames_of_train(program, sgd_tree):
    train = of_split(sgd_tree, "d3st_sgd", "validation")
    one, two = program.chosen(train, 2, 800, 0)
    assert {one.service, two.service} == {"Trains_1", "Parks_1"}
    assert program.prompt_of([one, two]) == (
        f"{program.TASK}\n\nInput: {one.inputs}\nOutput: {one.targets}\n\n"
        f"Input: {two.inputs}\nOutput: {two.targets}\n\nInput: {{text}}\nOutput:"
    )
    # Frames without a state and frames that are too long are left out.
    empty = [example for example in train if program.EMPTY in example.targets]
    assert empty and not {one, two} & {*empty}
    with pytest.raises(UserError, match="--shots 3: 2 services have a frame"):
        program.chosen(train, 3, 800, 0)
    with pytest.raises(UserError, match="--shots 1: 0 services .* --longest 9 letters"):
        program.chosen(train, 1, 9, 0)


def test_answers_equal_greedy_paraphrasing(
    program, sgd_tree, tiny_lm, tmp_path, monkeypatch
):
    # Paraphrases keep the numbers of a prompt, answers do not.
    monkeypatch.setattr(literals, "spans", lambda text: ())
    inputs = [example.inputs for example in of_split(sgd_tree, "d3st_sgd", "test")]
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Input: a\nOutput: b\n\nInput: {text}\nOutput:")
    lines, out = tmp_path / "lines.txt", tmp_path / "out.jsonl"
    lines.write_text("\n".join(inputs) + "\n")
    paraphrasing.paraphrase(
        lines, out, sampler="greedy", model=str(tiny_lm), prompt=str(prompt),
        max_length=12,
    )  # fmt: skip
    records = [json.loads(line) for line in out.read_text().splitlines()]
    model = language.load(tiny_lm, "tiny@0", str(prompt))
    found = program.answers(model, inputs, 12)
    assert found == [record["output"] for record in records]
    assert any(found)


def test_other_models_than_language_models(call):
    with pytest.raises(SystemExit, match="is no decoder-only language model"):
        call("--model", "random-tiny")


def test_data_without_a_test_split(call, sgd_tree):
    shutil.rmtree(sgd_tree / "test")
    with pytest.raises(
        SystemExit, match="JAXAUG_DATA_DIR: the data have no test split"
    ):
        call()
