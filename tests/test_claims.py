"""benchmarks/claims.py: verdicts need seeds, and numbers need a source."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.shared.seeds import difference

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def claims():
    """The names of the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return runpy.run_path(str(ROOT / "benchmarks/claims.py"))


def claim(**changed):
    given = {"claim": "x", "ours": "no number", "setup": "M", "verdict": "holds"}
    return given | changed


def test_every_claim_has_sources_and_enough_seeds(claims):
    found = claims["claims"]()
    for one in found["claim"]:
        claims["check"](one, {})
    assert {one["setup"] for one in found["claim"]} == set(found["setup"])


def test_one_seed_cannot_hold(claims):
    claims["check"](claim(setup="K", verdict="one seed"), {})
    with pytest.raises(UserError, match="'x' holds with one training seed"):
        claims["check"](claim(setup="K"), {})


@pytest.mark.parametrize("verdict", ["holds", "not here", "the gain holds"])
def test_a_verdict_needs_an_interval_over_seeds_or_units(claims, verdict):
    claims["check"](claim(setup="V", verdict="same direction, one sample"), {})
    with pytest.raises(UserError, match="setup V resamples neither seeds nor units"):
        claims["check"](claim(setup="V", verdict=verdict), {})


def test_a_verdict_that_holds_names_a_difference_that_does(claims):
    """The difference of the first set and the second has a corrected p of 0.2."""
    corrected = np.full(len(claims["FIGURES"]), 0.2)
    one = SimpleNamespace(first="d3st_a", second="d3st_b", corrected=corrected)
    statistics = SimpleNamespace(differences=[one])
    told = claim(ours="{mini:a - b:jga_v1_5}")
    with pytest.raises(UserError, match="'x' holds, but no difference .* below 0.05"):
        claims["check_holds"](told, lambda kind: ([], statistics))
    claims["check_holds"](told | {"verdict": "not settled"}, None)
    corrected[claims["FIGURES"].index("jga_v1_5")] = 0.04
    claims["check_holds"](told, lambda kind: ([], statistics))


def test_runs_without_sentences_have_the_upper_bound_of_their_variance(claims):
    """Equal seeds, accuracies 0.6 and 0.4: at most 0.96 / 448 is the variance."""
    values = np.full(5, 0.6), np.full(5, 0.4)
    found = claims["_difference"]("table2_covidclu", *values)
    assert found.half_width == pytest.approx(1.965 * (0.96 / 448) ** 0.5, rel=1e-3)


def test_a_number_needs_data_or_a_page(claims):
    claims["check"](claim(ours="{mini:sgd:jga_orig} of distinct-1 and v1-5"), {})
    with pytest.raises(UserError, match=r"12.3 is neither a stored result nor on the"):
        claims["check"](claim(ours="{mini:sgd:jga_orig} and 12.3"), {})
    page = "papers/jaxaug_papers/dips/README.md"
    claims["check"](claim(ours="29.4 against 21.3", source=page), {})
    with pytest.raises(UserError, match="987.6 is neither"):
        claims["check"](claim(ours="987.6", source=page), {})


def test_the_smallest_difference_is_that_of_the_noncentral_t(claims):
    """Five differences with deviation 1: 1.68 deviations (tables of the t-test)."""
    assert claims["smallest"](1.0, 5) == pytest.approx(1.68, abs=0.01)


@pytest.mark.parametrize("name", ["trec", "snips", "msrp"])
def test_intervals_over_fixed_test_sets_have_no_star(claims, name):
    assert "*" not in "".join(claims["classify_table"](name))


def test_a_pair_of_rows_in_two_tables_is_one_difference(claims):
    """COVID-Q has 18 rows, of which two are cyclic against none."""
    assert "(Holm, all 17 differences)" in claims["fewshot_table"]("table4_covidclu")[2]


def test_a_missing_run_is_named(claims):
    with pytest.raises(UserError, match="nothing.csv: no such file. Store the run's"):
        claims["fewshot"]("nothing")
    with pytest.raises(UserError, match="no row 'other'"):
        claims["_fewshot_cell"]("table2_huff", "other")


def test_hours_of_the_queue_follow_from_measured_runs(claims, tmp_path, monkeypatch):
    """One of two items is left: 72 steps of 50 s, and another 30 s, are 1.0 hours."""
    done = {"set": "a", "steps": 100, "seed": 0, "order": "mixture"}
    times = {"train_seconds": 5000, "compile_seconds": 10, "evaluate_seconds": 20}
    (tmp_path / "run").mkdir()
    item = json.dumps(done | times | {"positions_per_second": 1000})
    (tmp_path / "run/item.json").write_text(item)
    queue = tmp_path / "queue.jsonl"
    left = {"set": "a", "steps": 72, "seed": 0}
    first = {"set": "a", "steps": 100, "seed": 0}
    queue.write_text(f"{json.dumps(first)}\n{json.dumps(left)}\n")
    table = claims["settle"]
    monkeypatch.setitem(table.__globals__, "SGD", tmp_path)
    monkeypatch.setitem(table.__globals__, "QUEUE", queue)
    cells = [cell.strip() for cell in table()[2].split("|")]
    assert cells[4:6] == ["1.0", "3"]
    assert cells[6].startswith("1 runs; 50.00 s a step and 30 s to compile")


def test_pseudo_values_of_a_mean_are_its_scores(claims):
    """A difference of means has the interval of the scores of sentences."""
    ours, theirs = np.random.default_rng(0).random((2, 3, 20, 1))
    rows = {"ours": np.insert(ours, 1, 1, 2), "theirs": np.insert(theirs, 1, 1, 2)}
    store = claims["sentences"].Sentences(
        lambda: rows, {"mean": lambda x: x[..., 0] / x[..., 1]}
    )
    found = store.difference("ours", "theirs", "mean")
    assert found == pytest.approx(difference(ours[..., 0], theirs[..., 0]))
    with pytest.raises(UserError, match="no row 'other'"):
        store.values("other", "mean")


def test_the_bins_of_table_8_hold_what_equation_3_keeps(claims, tmp_path, monkeypatch):
    """0.5, 0, and -0.5 belong to the bins that their titles name."""
    similar = [0.5, 0.2, 0.0, -0.1, -0.5, -0.9, 0.9, 0.1]
    implied = [True] * 6 + [False] * 2
    line = {"row": "x", "G": [similar], "M": [implied]}
    (tmp_path / "results/pcc").mkdir(parents=True)
    (tmp_path / "results/pcc/samplers.jsonl").write_text(json.dumps(line) + "\n")
    module = claims["sentences"]
    monkeypatch.setattr(module, "ROOT", tmp_path)
    rows = module._sampler_rows.__wrapped__()
    # 0.9 without M is similar enough; 0.1 without M is not kept.
    assert rows["x"].ravel() == pytest.approx([8, 7, 0.1, 2, 2, 1, 2])
