"""benchmarks/tables.py: tables of README.md and docs/ from results/."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.metrics.bootstrap import Bootstrap, Group
from jaxaug.metrics.frames import FrameTable

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tables():
    """Returns the names of the program, which imports its neighbor `claims`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
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


def test_services_are_resampled_with_dialogues(tables):
    """One of two services gains: half of the share of one in two draws, and t of 1."""
    right = np.tile([1.0, 0.0], 30)

    def run(scores):
        names = np.arange(30).astype(str)
        return FrameTable(
            *("test", names, np.arange(60) // 2, np.zeros(60, int)),
            *(np.array(["a", "b"]), np.arange(60) % 2),
            np.tile(scores, (3, 6, 1)),
        )

    groups = Group("x", (0,), ("0",)), Group("y", (1,), ("0",))
    frames = [run(right), run(0 * right)]
    found = tables["ServiceBootstrap"].of_frames(frames).difference(*groups)
    assert found.value[0] == 0.5
    assert found.high[0] - 0.5 == pytest.approx(12.706 * 0.125**0.5, rel=0.02)
    assert Bootstrap.of_frames(frames).difference(*groups).low[0] > 0


def test_an_unknown_table_is_refused(tables, tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("<!-- begin: x -->\n<!-- end -->\n")
    monkeypatch.setitem(tables["pages"].__globals__, "ROOT", tmp_path)
    with pytest.raises(UserError, match="no table is named 'x'"):
        list(tables["pages"]())


def test_decoders_on_twitter(tables, tmp_path):
    table = tables["claims"].decoders
    columns = ["distinct-1", "BLEU", "METEOR of the first"]
    row = {"row": "SBS", "columns": columns, "seeds": [[1, 30, 40], [3, 34, 40]]}
    (tmp_path / "twitter.jsonl").write_text(json.dumps(row) + "\n")
    lines = table("twitter", tmp_path)
    assert lines[2].startswith(
        "| SBS | 51.1 | 32.0 ± 2.8 | 23.5 | 40.0 ± 0.0 | 20.0 | 2.0 ± 1.4 | 30.9 | - |"
    )
    assert lines[3].startswith("| DBS | 47.1 | not run | 22.1 | not run |")
    assert {line.count("|") for line in lines} == {14}


def test_a_claim_may_quote_a_number_that_its_page_is_about_to_get(tables):
    check = tables["claims"].check
    source = "papers/jaxaug_papers/dips/README.md"
    claim = {"claim": "c", "verdict": "not settled", "setup": "G", "source": source}
    claim["ours"] = "BLEU 98765.4"
    with pytest.raises(UserError, match="98765.4 is neither a stored result nor on"):
        check(claim, {})
    check(claim, {ROOT / source: "| DiPS | 98765.4 |"})
