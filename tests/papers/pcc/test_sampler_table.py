"""Tables 5 and 8 of PCC: metrics, and the released paraphrases."""

import argparse
import sys

import numpy as np
import pytest

from jaxaug.curriculum.levels import Scored
from jaxaug_papers.pcc import sampler_table


@pytest.mark.parametrize(
    ("text", "expected"),
    [("I am", True), ("i'm a cook", True), ("is it", False), ("in I", False)],
)
def test_the_first_word(text, expected):
    assert sampler_table.starts_with_i(text) == expected


def test_a_row_of_table_5():
    def scorer(both):
        return [float(source == text) for source, text in both]

    outputs = [["a b", "", "i b"], ["A", "c", "c"]]
    cells = sampler_table.row_5(["a b", "a"], outputs, scorer)
    # Words a b i b A c c: 5 of 7 differ; one of 5 outputs starts with i.
    assert cells[:3] == ["20.0 %", "0.714", "1.000"]
    assert cells[-3:] == ["0.200", "2", "1"]


def test_a_row_of_table_8():
    scores = [-0.6, -0.5, -0.4, 0.0, 0.2, 0.5, 0.9, 0.9]
    cells = sampler_table.row_8(scores)
    assert cells == ["38 %", "25 %", "12 %", "25 %", f"{np.mean(scores):.2f}"]


def test_the_released_paraphrases(real_data, tmp_path, capsys, monkeypatch):
    """The last rows of both tables match the README; the encoder is a stub."""
    words = ["--released", "--text_dir", str(real_data / "text")]
    words += ["--work_dir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["sampler_table", *words])
    monkeypatch.setattr(sampler_table.encoder, "load", lambda name: None)
    monkeypatch.setattr(
        sampler_table.pairs, "Similarity", lambda *_: lambda both: np.ones(len(both))
    )
    sampler_table.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("| released, 4 of bottom-k | 6.4 % | 0.318 | 0.704 |")
    assert lines[-1].endswith("| 18 % | 13 % | 18 % | 51 % | -0.35 |")


def test_the_scores_of_a_row(monkeypatch):
    """G and M belong to the texts: equal encodings have equal scores in all rows."""
    released = {f"{i}": [Scored(f"{i} {j}", True, 0.1 * j) for j in range(20)]
                for i in range(32)}  # fmt: skip
    monkeypatch.setattr(sampler_table.distilled, "huffpost", lambda *_: released)
    monkeypatch.setattr(
        sampler_table.encoders,
        "find",
        lambda _: lambda texts: np.array([[len(t), 1.0] for t in texts], np.float32),
    )
    options = argparse.Namespace(text_dir=None, files="")
    rows = {"x": [["a b", ""]], "y": [["c d", "e"]]}
    found = [*sampler_table._scores(options, ["trait"], rows)]
    assert [one["texts"] for one in found] == [["a b", ""], ["c d", "e"]]
    values = np.array([one["G"] for one in found])
    assert values.shape == (2, sampler_table.HEADS, 2)
    assert (values[0, :, 0] == values[1, :, 0]).all()  # Both have three characters.
    assert (values[:, :, 0] != values[:, :, 1]).all()
