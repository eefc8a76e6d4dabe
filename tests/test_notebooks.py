"""The notebooks of examples/: their code, cell by cell in one namespace."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxaug.cli import main
from jaxaug.feed import recipes
from tests.metrics.test_statistics import model_folder

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(name):
    """The sources of the code cells."""
    found = json.loads((ROOT / "examples" / name).read_text(encoding="utf-8"))["cells"]
    return ["".join(one["source"]) for one in found if one["cell_type"] == "code"]


def executed(name, **values):
    """Runs the cells after setting constants; returns the namespace."""
    code = cells(name)
    for constant, value in values.items():
        assert len(re.findall(rf"(?m)^{constant} = .*$", code[0])) == 1
        code[0] = re.sub(rf"(?m)^({constant}) = .*$", rf"\1 = {value!r}", code[0])
    space = {"__name__": "__main__"}
    for number, cell in enumerate(code):
        exec(compile(cell, f"{name}, cell {number}", "exec"), space)  # noqa: S102
    return space


def test_own_schema(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = executed("own_schema.ipynb", RUN=str(trained[0]))
    (service,) = found["schema"]
    assert len(found["variants"]) == 3
    for (variant,) in found["variants"]:
        assert [one["name"] for one in variant["slots"]] == ["pickup_day", "bags"]
        assert variant["slots"][0]["description"] != service["slots"][0]["description"]
    said = capsys.readouterr().out
    assert re.search(r"^v3: .+ \| .+$", said, re.MULTILINE)
    # Two turns of the user, under two wordings.
    assert len(re.findall(r"^\d {", said, re.MULTILINE)) == 4


def test_comparison_with_a_stand_in_for_training(tmp_path, monkeypatch, capsys):
    """Stored runs replace training; tasks, gin files, and the report are real."""
    monkeypatch.chdir(tmp_path)
    started = []

    def run(words, check, capture_output, text=False):
        assert check and capture_output
        program, *given = words[2:]
        if program == "jaxaug":
            assert main(given) == 0
            return SimpleNamespace(stdout=capsys.readouterr().out)
        flags = dict(word.removeprefix("--").split("=", 1) for word in given)
        started.append(ast.literal_eval(flags["gin.MIXTURE_OR_TASK_NAME"]))
        assert program == "t5x.train" and (ROOT / flags["gin_file"]).is_file()
        assert flags["gin.TRAIN_STEPS"] == flags["gin.EVAL_PERIOD"] == "2"
        folder = Path(ast.literal_eval(flags["gin.MODEL_DIR"]))
        return model_folder(folder, 0.5 if len(started) == 1 else 0.8)

    monkeypatch.setattr("subprocess.run", run)
    executed("comparison.ipynb", STEPS=2)
    assert started == ["d3st_sgd", "d3st_tree_6x"]
    assert recipes.table(None).tasks_of("d3st_tree_6x")
    said = capsys.readouterr().out
    assert "400 dialogues" in said
    assert re.search(r"notebook_tree_6x > notebook_sgd \(p", said)


@pytest.mark.long
def test_comparison(python, sgd_tree, tmp_path, monkeypatch, capsys):
    shutil.copytree(sgd_tree / "sgd_x/data", sgd_tree / "variants/tree")
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    found = executed("comparison.ipynb", STEPS=2)
    assert found["runs"] == ["runs/notebook_sgd", "runs/notebook_tree_6x"]
    said = capsys.readouterr().out
    assert "notebook_sgd - notebook_tree_6x" in said and "JGA_orig" in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({one["id"] for one in found["cells"]}) == len(found["cells"])
    for one in found["cells"]:
        if one["cell_type"] == "code":
            assert (one["outputs"], one["execution_count"]) == ([], None)
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    assert f"examples/{path.name}" in page
