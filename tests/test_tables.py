"""benchmarks/tables.py: tables of README.md and docs/ from results/."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from jaxaug.core.errors import UserError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tables():
    """Returns the names of the program."""
    return runpy.run_path(str(ROOT / "benchmarks/tables.py"))


def test_tables_of_pages_equal_the_results(tables):
    stale = [page.name for page, text in tables["pages"]() if page.read_text() != text]
    assert not stale, "run `python benchmarks/tables.py`"


def test_a_stored_run_has_the_figures_of_the_run(tables, tmp_path):
    from jaxaug.metrics import report

    [source] = (ROOT / "results/sgd").glob("d3st_sgd-400steps-seed1")
    run = tmp_path / "runs/d3st_sgd-seed1"
    (run / "inference_eval").mkdir(parents=True)
    (run / "inference_eval/robustness").symlink_to(source / "robustness")
    (run / "config_digest.json").write_text(json.dumps({"digest": "abc"}))
    tables["add"](run, tmp_path / "results")
    stored = tmp_path / "results/d3st_sgd-seed1"
    assert json.loads((stored / "item.json").read_text())["steps"] == 400
    [first], [second] = report.read_runs(run), report.read_runs(stored)
    assert first.figures == second.figures
    np.testing.assert_array_equal(first.frames.scores, second.frames.scores)


@pytest.mark.parametrize("name", ["sgd", "d3st_sgd", "d3st_other-seed0"])
def test_a_run_without_set_or_seed_is_refused(tables, tmp_path, name):
    with pytest.raises(UserError, match="not FORMAT_SET-seedN"):
        tables["add"](tmp_path / name, tmp_path)


def test_an_unknown_table_is_refused(tables, tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("<!-- begin: x -->\n<!-- end -->\n")
    monkeypatch.setitem(tables["pages"].__globals__, "ROOT", tmp_path)
    with pytest.raises(UserError, match="no table is named 'x'"):
        list(tables["pages"]())
