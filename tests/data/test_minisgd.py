"""MiniSGD in the cache: unpacked once, completely, by several processes at a time."""

import json
import pathlib
import threading

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import minisgd
from jaxaug.data.sgd import read_dialogues


def test_a_full_disk(tmp_path, monkeypatch):
    def fail(folder):
        raise OSError("No space left on device")

    monkeypatch.setattr(minisgd, "unpacked", fail)
    message = r"minisgd-.* No space left on device\. Free disk space, or .*CACHE_DIR"
    with pytest.raises(UserError, match=message):
        minisgd.materialise(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_materialise_once(tmp_path, monkeypatch):
    folder = minisgd.materialise(tmp_path)
    assert list(tmp_path.iterdir()) == [pathlib.Path(folder)]
    assert json.loads((folder / "minisgd.json").read_text()) == {
        "seed": 0,
        "dialogues": {"train": 4000, "dev": 200, "test": 400},
    }
    before = (folder / "train" / "dialogues_001.json").stat().mtime

    def never(*args, **kwargs):
        raise AssertionError("written again")

    monkeypatch.setattr(minisgd, "unpacked", never)
    assert minisgd.materialise(tmp_path) == folder
    assert (folder / "train" / "dialogues_001.json").stat().mtime == before


def test_materialise_replaces_a_half_written_folder(tmp_path):
    folder = minisgd.materialise(tmp_path)
    (folder / "minisgd.json").unlink()
    (folder / "train" / "dialogues_001.json").write_text("[")
    own = folder / "variants" / "own" / "v1"
    own.mkdir(parents=True)
    assert minisgd.materialise(tmp_path) == folder
    assert own.is_dir()  # a file of the user
    assert len(list(read_dialogues(folder, "dev"))) == 200
    assert (folder / "minisgd.json").exists()


def test_materialise_replaces_changed_files(tmp_path, caplog):
    folder = minisgd.materialise(tmp_path)
    path = folder / "sgd_x" / "data" / "v2" / "dev" / "schema.json"
    before = path.read_text()
    path.write_text(before.replace("a", "e", 1))
    assert minisgd.materialise(tmp_path) == folder and path.read_text() == before
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert line == (
        f"cache {folder} is damaged and made again: sgd_x/data/v2/dev/schema.json "
        "holds other bytes than were written"
    )


@pytest.mark.parametrize("half_written", [False, True])
def test_materialise_at_the_same_time(tmp_path, half_written):
    if half_written:
        (minisgd.materialise(tmp_path) / "minisgd.json").unlink()
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(minisgd.materialise(tmp_path)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert len(set(map(str, results))) == 1
    assert list(tmp_path.iterdir()) == [pathlib.Path(results[0])]
    assert (results[0] / "minisgd.json").exists()
