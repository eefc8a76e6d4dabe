"""Tables of known results."""

import csv
import io

import numpy as np
import pytest

from jaxaug.curriculum import schedule
from jaxaug_papers.pcc.fewshot import plot, tables
from jaxaug_papers.pcc.fewshot.config import Table
from jaxaug_papers.pcc.fewshot.tables import Point, Result

TABLE = Table("Table 9", ("none", "ours", "theirs"), "none")


def result(name, *accuracy, steps=10):
    values = np.array(accuracy)
    one = Point(steps, values, np.full_like(values, 0.5), np.full_like(values, 0.25))
    first = Point(1, np.ones_like(values), values, values)
    right = np.arange(100) < np.round(100 * values)[:, None]
    return Result(name, schedule.gradual(steps // 2, levels=1), (first, one), right)


RESULTS = {
    "none": result("none", 0.10, 0.20, 0.30),
    "ours": result("ours", 0.14, 0.20, 0.35, steps=20),
}


def test_table_for_people():
    text = tables.text_table(TABLE, RESULTS, {"theirs": "no model"})
    assert text.splitlines() == [
        "Table 9",
        "        updates     accuracy      - none                     p (Holm)",
        "none         10  20.0 ± 10.0",
        "ours         20  23.0 ± 10.8  +3.0 ± 2.6  2/3  [-2.1, +8.1]    0.1739",
        "theirs               not run", "theirs: no model",
    ]  # fmt: skip


def test_a_table_without_its_reference_has_no_differences():
    text = tables.text_table(TABLE, {"ours": RESULTS["ours"]}, {})
    assert "23.0 ± 10.8" in text and "[" not in text


def test_table_for_programs():
    rows = list(
        csv.DictReader(io.StringIO(tables.csv_table([TABLE], RESULTS, [0, 1, 2])))
    )
    assert [row["method"] for row in rows] == ["none", "ours"]
    assert rows[1]["table"] == "Table 9" and rows[1]["updates"] == "20"
    assert [float(rows[1][f"seed{i}"]) for i in range(3)] == [0.14, 0.2, 0.35]
    assert float(rows[1]["mean"]) == pytest.approx(0.23)
    assert float(rows[1]["diff"]) == pytest.approx(0.03) and rows[1]["wins"] == "2"


def test_bits_for_programs():
    stored = np.load(io.BytesIO(tables.npz_right(RESULTS)))
    right = np.unpackbits(stored["right"], axis=-1, count=int(stored["tests"]))
    assert [*stored["methods"]] == ["none", "ours"] and right.shape == (2, 3, 100)
    np.testing.assert_allclose(right[1].mean(axis=1), [0.14, 0.2, 0.35])


def test_curves_for_programs():
    rows = list(csv.DictReader(io.StringIO(tables.csv_curves(RESULTS, [5, 6, 7]))))
    assert len(rows) == 2 * 2 * 3
    assert rows[-1] == {
        "method": "ours", "seed": "7", "updates": "20", "accuracy": "0.35",
        "loss": "0.5", "active": "0.25",
    }  # fmt: skip


def test_schedules_in_a_line():
    assert plot.schedule_line("a", schedule.cyclic(5, 2)) == (
        "a: 30 updates, 0 x5, 1 x5, 2 x5, 0 x5, 1 x5, 2 x5"
    )
    assert plot.schedule_line("b", schedule.two_stage(5, 2)) == (
        "b: 15 updates, 0 x7, (0: 0.2, 1: 0.4, 2: 0.4) x8"
    )


def test_curves_and_equal_schedules(tmp_path):
    pytest.importorskip("matplotlib")
    plot.write_curves(tmp_path / "a.png", [TABLE], RESULTS)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    schedules = dict.fromkeys("ab", schedule.cyclic(5, 2))
    schedules |= {"c": schedule.random(5, 2)}
    assert list(plot.by_schedule(schedules).values()) == [["a", "b"], ["c"]]
