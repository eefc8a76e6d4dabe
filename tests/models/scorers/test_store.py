"""The store of scores: several processes, versions, and damage."""

import contextlib
import sqlite3
import subprocess

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.models.scorers import store

WRITER = """
import sys
import numpy as np
from jaxaug.models.scorers import store

kept = store.Store(sys.argv[1])
for i in range(int(sys.argv[2]), int(sys.argv[2]) + 20):
    kept.put({store.key_of("x", (str(i),)): np.float32([i])})
"""


def test_store_of_several_processes(python, tmp_path):
    path = tmp_path / "scores.sqlite"
    workers = [
        subprocess.Popen([python, "-c", WRITER, str(path), str(20 * i)])
        for i in range(3)
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    keys = [store.key_of("x", (str(i),)) for i in range(60)]
    found = store.Store(path).get([*keys, b"none"])
    assert [found[key].tolist() for key in keys] == [[i] for i in range(60)]


def test_versions_of_the_store(tmp_path):
    """Old versions lack code versions and digests, so they are emptied."""
    path = tmp_path / "s.sqlite"
    key = store.key_of("x", ("a",))
    for version in (0, 1):
        with contextlib.closing(sqlite3.connect(path)) as old, old:
            old.execute("DROP TABLE IF EXISTS scores")
            old.execute("CREATE TABLE scores (key BLOB PRIMARY KEY, vector BLOB)")
            old.execute("INSERT INTO scores VALUES (?, ?)", (key, b"0000"))
            old.execute(f"PRAGMA user_version = {version}")
        assert store.Store(path).get([key]) == {}
    store.Store(path).put({key: np.float32([2])})
    assert store.Store(path).get([key])[key].tolist() == [2]
    with contextlib.closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("PRAGMA user_version = 9")
    with pytest.raises(
        UserError, match="has version 9, but this program supports up to 2"
    ):
        store.Store(path).get([key])


def test_damaged_store(tmp_path):
    (tmp_path / "s.sqlite").write_bytes(b"nonsense" * 1000)
    with pytest.raises(UserError, match="cannot be used .* Remove the file"):
        store.Store(tmp_path / "s.sqlite").get([b"x"])
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError) as error:
        store.Store(tmp_path / "folder").get([b"x"])
    assert str(error.value) == (
        f"{tmp_path}/folder: cannot be used (unable to open database file). Check that "
        "its disk has space, that you may write there, and that no other program holds "
        "it, or set $JAXAUG_CACHE_DIR to another folder."
    )
    with pytest.raises(UserError, match="a local file"):
        store.Store("gs://bucket/s.sqlite")


@pytest.mark.parametrize(
    "change",
    [
        "vector = x'0000803f00008041'",  # [1, 16]: one bit of the second differs.
        "vector = x'0000803f'",
        "vector = 5",
        "vector = CAST(x'ff00803f00008040' AS TEXT)",
        "digest = x'00'",
        "key = x'02'",
    ],
)
def test_a_changed_row_is_computed_again(tmp_path, caplog, change):
    kept = store.Store(tmp_path / "s.sqlite")
    kept.put({b"\1": np.float32([1, 4]), b"\3": np.float32([5, 6])})
    with contextlib.closing(sqlite3.connect(kept.path)) as other, other:
        other.execute(f"UPDATE scores SET {change} WHERE key = x'01'")
    found = kept.get([b"\1", b"\2", b"\3"])
    assert {key: row.tolist() for key, row in found.items()} == {b"\3": [5, 6]}
    assert caplog.messages == [
        f"{kept.path}: 1 scores are damaged and are computed again."
    ]
    kept.put({b"\1": np.float32([1, 4]), b"\2": np.float32([2])})
    assert [len(row) for row in kept.get([b"\1", b"\2", b"\3"]).values()] == [2, 1, 2]
    assert len(caplog.messages) == 1
