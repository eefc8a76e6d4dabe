"""Changed, truncated, and lost checkpoint files are detected at restore."""

import json
import logging
import re
import zlib

import pytest
from checkpoint_kit import (
    Iterator,
    assert_same_state,
    make_manager,
    make_state,
    save_steps,
)
from t5x import checkpoints, digests
from t5x.errors import UserError


def files_of(root):
    """Returns the relative names of the data files of a checkpoint."""
    marks = {"digests.json", "_CHECKPOINT_METADATA", "commit_success.txt"}
    found = (p for p in root.rglob("*") if p.is_file() and p.name not in marks)
    return sorted(p.relative_to(root).as_posix() for p in found)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


@pytest.fixture
def saved(tmp_path):
    """Returns the folder of a checkpoint of step 1 with a data position."""
    manager = make_manager(tmp_path, Iterator())
    save_steps(manager, 1)
    return tmp_path / "checkpoint_1"


def test_every_file_is_listed(saved):
    listed = json.loads((saved / "digests.json").read_text())
    assert listed["algorithm"] == "crc32"
    assert sorted(listed["files"]) == files_of(saved)
    assert len(files_of(saved)) > 5
    for name, (size, checksum) in listed["files"].items():
        data = (saved / name).read_bytes()
        assert (size, checksum) == (len(data), f"{zlib.crc32(data):08x}")


def test_a_flipped_byte_in_any_file_is_an_error(saved):
    manager = make_manager(saved.parent, Iterator())
    for name in files_of(saved):
        whole = (saved / name).read_bytes()
        flip(saved / name)
        checksum = zlib.crc32((saved / name).read_bytes())
        expected = f"{name} has checksum {checksum:08x}, {zlib.crc32(whole):08x} was"
        with pytest.raises(
            UserError, match=re.escape(f"{saved} is damaged: {expected}")
        ):
            manager.restore()
        (saved / name).write_bytes(whole)
    assert_same_state(manager.restore(), make_state(1, seed=1))


def test_short_and_lost_files(saved):
    names = [n for n in files_of(saved) if not digests.is_data_position(n)]
    short = next(n for n in names if (saved / n).stat().st_size > 10)
    size = (saved / short).stat().st_size
    (saved / short).write_bytes(b"short")
    with pytest.raises(
        UserError, match=re.escape(f"{short} has 5 bytes, {size:,} were saved")
    ):
        checkpoints.load_t5x_checkpoint(str(saved))
    for name in names:
        (saved / name).unlink()
        if name in ("state/_METADATA", "checkpoint"):
            (saved / name).write_text("")  # otherwise there is no checkpoint
    with pytest.raises(
        UserError, match=f"; and {len(names) - 3} more. Restore another"
    ):
        checkpoints.load_t5x_checkpoint(str(saved))


def test_a_folder_in_the_place_of_a_file(saved):
    name = next(n for n in files_of(saved) if not digests.is_data_position(n))
    (saved / name).unlink()
    (saved / name).mkdir()
    with pytest.raises(UserError, match=re.escape(f"is damaged: {name} is missing.")):
        digests.verify(saved, lambda name: True)


@pytest.mark.parametrize(
    "damage", ["empty", "list", "text", "folder", "deep", "endless"]
)
def test_a_damaged_list(saved, damage):
    path = saved / "digests.json"
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        texts = {
            "empty": "",
            "list": "[]",
            "text": '{"files": "x"}',
            "deep": "[" * 100_000,
            "endless": '{"files": {"checkpoint": [1e999, "0"]}}',
        }
        path.write_text(texts[damage])
    with pytest.raises(
        UserError, match="is damaged: digests.json is not what was written"
    ):
        checkpoints.load_t5x_checkpoint(str(saved))


def test_checkpoints_without_a_list_are_restored(saved, caplog):
    (saved / "digests.json").unlink()
    caplog.set_level(logging.INFO)
    manager = make_manager(saved.parent)
    assert_same_state(manager.restore(), make_state(1, seed=1))
    assert f"{saved} has no digests.json: restoring it unverified." in caplog.messages


def test_data_positions_matter_only_to_who_restores_them(saved):
    (position,) = saved.rglob("train_ds-*")
    name = position.relative_to(saved).as_posix()
    flip(position)
    weights_only = make_manager(saved.parent)
    assert_same_state(weights_only.restore(), make_state(1, seed=1))
    resuming = make_manager(saved.parent, Iterator())
    with pytest.raises(UserError, match=f"is damaged: {name} has checksum"):
        resuming.restore()
    position.unlink()
    with pytest.raises(UserError, match=f"is damaged: {name} is missing"):
        resuming.restore()


def test_positions_deleted_on_purpose_are_not_missed(tmp_path):
    manager = make_manager(tmp_path, Iterator(), keep_dataset_checkpoints=1)
    save_steps(manager, 1, 2)
    listed = digests.read(tmp_path / "checkpoint_1")
    assert sorted(listed) == files_of(tmp_path / "checkpoint_1")
    assert not any(map(digests.is_data_position, listed))
    state = manager.restore(step=1)
    assert_same_state(state, make_state(1, seed=1))


def test_other_files_may_be_added(saved):
    (saved / "PINNED").touch()
    manager = make_manager(saved.parent)
    assert_same_state(manager.restore(), make_state(1, seed=1))
