"""The record of a run."""

import pytest
from t5x.errors import UserError
from t5x.training.run_record import FILE_NAME, FINISHED_NAME, RunRecord


def test_noted_values_are_found_again(tmp_path):
    record = RunRecord(str(tmp_path))
    assert not record.found
    record.update(seed=3)
    again = RunRecord(str(tmp_path))
    assert again.found and again.get("seed") == 3 and again.get("none", 7) == 7
    again.complete(step=8, total_steps=10)
    assert not (tmp_path / FILE_NAME).exists()
    finished = RunRecord(str(tmp_path))
    assert not finished.found and finished.get("seed") == 3
    assert finished.is_finished(8, 10) and finished.is_finished(8, 9)
    assert not finished.is_finished(8, 11) and not finished.is_finished(4, 10)


def test_a_finished_run_that_continues_is_unfinished_again(tmp_path):
    record = RunRecord(str(tmp_path))
    record.update(first_step=4, stop=True)
    record.complete(step=8, total_steps=10)
    record = RunRecord(str(tmp_path))
    record.reopen()
    assert (record.get("stop"), record.get("first_step")) == (False, 4)
    assert not (tmp_path / FINISHED_NAME).exists()
    again = RunRecord(str(tmp_path))
    assert again.found and not again.is_finished(8, 10)


def test_a_finished_run_without_checkpoints_is_forgotten(tmp_path):
    record = RunRecord(str(tmp_path))
    record.update(seed=3)
    record.begin_anew()
    assert record.get("seed") == 3  # An unfinished run restarts with the same seed.
    record.complete(step=8, total_steps=8)
    record = RunRecord(str(tmp_path))
    record.begin_anew()
    assert record.get("seed") is None


def test_equal_values_are_not_written_again(tmp_path):
    record = RunRecord(str(tmp_path))
    record.update(seed=3)
    record.complete(step=8, total_steps=8)
    RunRecord(str(tmp_path)).update(seed=3)
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize("name", [FILE_NAME, FINISHED_NAME])
@pytest.mark.parametrize(
    "content",
    [
        '{"finished": 7}',
        '{"finished": {"step": 7}}',
        "",
        "{",
        "[]",
        "[1]",
        "7",
        "null",
        '"seed"',
        pytest.param("[" * 10**5, id="deep"),
    ],
)
def test_a_damaged_note_is_refused(tmp_path, content, name):
    (tmp_path / name).write_text(content)
    match = rf"{name} is damaged \(.*\); delete it to go on from the newest"
    with pytest.raises(UserError, match=match):
        RunRecord(str(tmp_path))
