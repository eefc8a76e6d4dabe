"""The note of an unfinished run."""

import pytest
from t5x.errors import UserError
from t5x.training.run_record import FILE_NAME, RunRecord


def test_what_is_noted_is_found_again(tmp_path):
    record = RunRecord(str(tmp_path))
    assert not record.found
    record.update(seed=3)
    again = RunRecord(str(tmp_path))
    assert again.found and again.get("seed") == 3 and again.get("none", 7) == 7
    again.complete()
    assert not RunRecord(str(tmp_path)).found


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "[1]", "7", "null", '"seed"', pytest.param("[" * 10**5, id="deep")],
)
def test_a_damaged_note_is_refused(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content)
    match = r"unfinished_run.json is damaged \(.*\); delete it to go on from the newest"
    with pytest.raises(UserError, match=match):
        RunRecord(str(tmp_path))
