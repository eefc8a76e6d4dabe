"""Table 3 of PCC: means over turns and seeds, and intervals."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from jaxaug.core.errors import UserError
from jaxaug_papers.pcc import dialogue_table

ANSWERS = {("a", 0): "i like tea", ("a", 1): "me too", ("b", 0): "i have a dog"}


def run(folder: Path, outputs: dict[tuple[str, int], str], step: int = 6) -> Path:
    target = folder / "inference_eval" / f"personachat_self_original-{step:06}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(
            {
                "input": {"dialogue_id": dialogue, "turn": turn},
                "target": {"text": ANSWERS[dialogue, turn]},
                "output": said,
            }
        )
        for (dialogue, turn), said in outputs.items()
    ]
    target.write_text("\n".join(lines) + "\n")
    metrics = target.with_name("personachat_self_original-metrics.jsonl")
    with metrics.open("a") as file:
        file.write(json.dumps({"step": step, "word_perplexity": 10.0 * step}) + "\n")
    return folder


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_rows(tmp_path, capsys, monkeypatch):
    silent = run(tmp_path / "silent", ANSWERS, step=3)  # Only the last one counts.
    run(silent, dict.fromkeys(ANSWERS, "no"))
    right = run(tmp_path / "right", ANSWERS)
    half = run(tmp_path / "half", ANSWERS | {("b", 0): "no"}, step=9)
    rows = [f"silent={silent}", f"seeds={right},{half}"]
    monkeypatch.setattr(sys, "argv", ["dialogue_table", *rows])
    dialogue_table.main()
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert cells(head)[:3] == ["row", "runs", "F1"]
    assert cells(first) == ["silent", "1", *["0.00"] * 7, "60.0", ""]
    found = cells(second)
    # Turns: 100 and 100; 100 and 100; 100 and 0.
    assert found[:3] == ["seeds", "2", "83.33"] and found[-3] == "83.33"
    assert found[-2] == "75.0"
    assert found[-1].startswith("+83.33 (-")


def scores(values: np.ndarray, sizes: np.ndarray) -> dict:
    """Returns scores of dialogues with given F1 per turn; other columns are 0."""
    turns = [(f"{d:03}", turn) for d, size in enumerate(sizes) for turn in range(size)]
    return {t: [v, *[0.0] * 6] for t, v in zip(turns, values.tolist(), strict=True)}


def difference(*rows: list[dict]) -> tuple[float, ...]:
    named = [(str(n), runs) for n, runs in enumerate(rows)]
    last = dialogue_table.table(named, [1.0] * len(rows), 4000)[-1]
    return tuple(float(x) for x in re.findall(r"[-+][\d.]+", cells(last)[-1]))


def test_dialogues_are_drawn_and_not_turns():
    draw = np.random.default_rng(0)
    sizes = draw.integers(1, 9, 40)
    # The turns of a dialogue are equal, so the dialogues are the independent values.
    values = np.repeat(draw.standard_normal(40), sizes)
    nothing = scores(np.zeros_like(values), sizes)
    found, low, high = difference([nothing], [scores(values, sizes)])
    means = []
    for _ in range(4000):
        taken = draw.integers(40, size=40)
        parts = np.split(values, np.cumsum(sizes)[:-1])
        means.append(np.concatenate([parts[i] for i in taken]).mean())
    half = stats.t.ppf(0.975, 39) * np.std(means, ddof=1)
    assert found == pytest.approx(values.mean(), abs=0.01)
    assert (low, high) == pytest.approx((found - half, found + half), abs=0.05)


def test_seeds_are_drawn_and_paired():
    sizes = np.ones(10, int)
    rows = [
        [scores(np.full(10, x), sizes) for x in row] for row in ([1, 3, 8], [2, 4, 9])
    ]
    # All dialogues are equal, and so are paired seeds. The interval then covers values
    # from 0 to 100 of dialogues that ten draws may miss.
    missed = 1 - 0.025 ** (1 / 10)
    ends = 1.0 - 101 * missed, 1.0 + 99 * missed
    assert difference(*rows) == pytest.approx((1.0, *ends), abs=0.01)
    # With another pairing, only seeds vary, as in a t-test on three differences.
    rows[1].reverse()
    gaps = np.array([8.0, 1.0, -6.0])
    half = stats.t.ppf(0.975, 2) * gaps.std(ddof=1) / np.sqrt(3)
    found = difference(*rows)
    assert found == pytest.approx((1.0, 1.0 - half, 1.0 + half), rel=0.05)


def test_errors(tmp_path):
    with pytest.raises(UserError, match="nothing: has no inference_eval/personachat_"):
        dialogue_table.scores_of(tmp_path / "nothing")
    whole = dialogue_table.scores_of(run(tmp_path / "whole", ANSWERS))
    part = dialogue_table.scores_of(run(tmp_path / "part", {("a", 0): "yes"}))
    with pytest.raises(UserError, match="part: is evaluated on other turns than whole"):
        dialogue_table.table([("whole", [whole]), ("part", [part])], [1.0, 1.0])
