"""Scores of frames next to a report: content, damage, and other test sets."""

import dataclasses

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.metrics.frames import (
    WORDINGS,
    FrameTable,
    frames_file,
    read_frames,
    write_frames,
)

KEYS = [("b", 2, "Hotels_1"), ("a", 0, "Trains_1"), ("a", 0, "Hotels_1")]


def made(keys=KEYS, split="test", value=0.5):
    seen = [key for key in keys if key[2].startswith("H")]
    unseen = [key for key in keys if key not in seen]
    scores = {
        wording: {
            "": {key: value for key in keys},
            "_seen": {key: value for key in seen},
            "_unseen": {key: value for key in unseen},
        }
        for wording in WORDINGS
    }
    return FrameTable.of_scores(split, scores)


def test_frames_are_sorted_and_groups_kept():
    table = made()
    assert table.dialogues.tolist() == ["a", "b"]
    assert table.dialogue.tolist() == [0, 0, 1] and table.turn.tolist() == [0, 0, 2]
    assert table.services[table.service].tolist() == [
        "Hotels_1",
        "Trains_1",
        "Hotels_1",
    ]
    assert (table.scores[0] == 0.5).all()
    assert np.isnan(table.scores[1]).tolist() == [[False, True, False]] * 6
    assert np.isnan(table.scores[2]).tolist() == [[True, False, True]] * 6


@pytest.mark.parametrize("keys", [KEYS, []])
def test_written_levels_are_read(tmp_path, keys):
    report, table = tmp_path / "m.json", made(keys)
    write_frames(report, table)
    assert [path.name for path in tmp_path.iterdir()] == ["m.frames.npz"]
    read = read_frames(report)
    for field in dataclasses.fields(FrameTable):
        np.testing.assert_array_equal(
            getattr(read, field.name), getattr(table, field.name), strict=True
        )
    assert read.difference(table) is None
    first = frames_file(report).read_bytes()
    write_frames(report, made(list(reversed(keys))))
    assert frames_file(report).read_bytes() == first
    assert read_frames(tmp_path / "other.json") is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"scores": np.full((3, 6, 3), 1.5)}, "a score is not from 0 to 1"),
        ({"scores": np.zeros((3, 6, 2))}, "expected float64 (3, 6, 3)"),
        ({"dialogue": np.array([0, 1, 0])}, "dialogues are not in order"),
        ({"dialogue": np.array([0, 0, 2])}, "an index from 0 to 2 of 2 names"),
        ({"turn": np.array([0.0, 0.0, 2.0])}, "turn is float64 (3,)"),
        ({"turn": np.array([None, None, None])}, "allow_pickle=False"),
        ({"dialogue": np.array(0)}, "dialogue is a single number"),
        ({"dialogues": np.array("a")}, "dialogues are <U1 (), expected names"),
        ({"services": np.array([b"a", b"b"])}, "services are |S1 (2,), expected names"),
        ({"dialogues": np.array(["b", "a"])}, "the dialogues are not in order"),
    ],
)
def test_other_contents(tmp_path, change, problem):
    report = tmp_path / "m.json"
    write_frames(report, dataclasses.replace(made(), **change))
    with pytest.raises(UserError, match="m.frames.npz: no scores of frames") as error:
        read_frames(report)
    assert problem in str(error.value) and "Evaluate the run again" in str(error.value)


def test_damaged_files(tmp_path):
    report = tmp_path / "m.json"
    write_frames(report, made())
    whole = frames_file(report).read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        frames_file(report).write_bytes(whole[:size])
        with pytest.raises(UserError, match="no scores of frames"):
            read_frames(report)


def test_differences_between_test_sets():
    table = made()
    assert table.difference(made(value=0.25)) is None
    assert table.difference(made(split="dev")) == "split 'test' and split 'dev'"
    other = made([*KEYS, ("c", 0, "Hotels_1")])
    assert table.difference(other) == "2 and 3 dialogues; only one has 'c'"
    other = made()
    other.scores[0, 2, 1] = np.nan
    assert table.difference(other) == (
        "3 and 2 frames scored under v2, not the same ones"
    )
    other = made()
    other.scores[1:] = other.scores[:0:-1].copy()
    assert table.difference(other) == (
        "2 and 1 frames of seen services: other services in the train schema"
    )
    more = made([*KEYS, ("b", 4, "Hotels_1")])
    assert table.difference(more) == (
        "3 and 4 frames of the same dialogues, which differ in turns or services"
    )
