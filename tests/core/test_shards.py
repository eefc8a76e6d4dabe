import errno
import json

import pytest

from jaxaug.core import shards
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Shards, Stage


class Work:
    """Squares and counts its items; may fail at an item."""

    def __init__(self, crash_at=None):
        self.seen, self.crash_at = [], crash_at

    def __call__(self, items):
        for item in items:
            if item == self.crash_at:
                raise RuntimeError("no more")
            self.seen.append(item)
        return [item * item for item in items]


ITEMS = list(range(10))
SQUARES = [i * i for i in ITEMS]


def test_done_once(tmp_path):
    work, store = Work(), Shards(tmp_path, 4)
    assert store.run(Stage("s", {"a": 1}, work), ITEMS) == SQUARES
    assert (store.computed, store.read) == (3, 0)
    again = Shards(tmp_path, 4)
    assert again.run(Stage("s", {"a": 1}, work), ITEMS) == SQUARES
    assert (again.computed, again.read) == (0, 3)
    assert work.seen == ITEMS


def test_other_settings_or_items_are_other_shards(tmp_path):
    work, store = Work(), Shards(tmp_path, 4)
    store.run(Stage("s", 1, work), ITEMS)
    store.run(Stage("s", 2, work), ITEMS)
    assert store.computed == 6
    # Only the last shard changes.
    store.run(Stage("s", 1, work), [*ITEMS[:-1], 77])
    assert store.computed == 7


def test_a_crash_loses_one_shard(tmp_path):
    work = Work(crash_at=6)
    with pytest.raises(RuntimeError, match="no more") as caught:
        Shards(tmp_path, 4).run(Stage("s", 1, work, "squares 1/2"), ITEMS)
    assert "while computing squares 1/2" in caught.value.__notes__[0]
    assert work.seen == [0, 1, 2, 3, 4, 5]
    work.crash_at = None
    store = Shards(tmp_path, 4)
    assert store.run(Stage("s", 1, work), ITEMS) == SQUARES
    assert (store.computed, store.read) == (2, 1)
    assert work.seen[6:] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1",
        "[1, 2]",
        '{"a": 1}',
        "null",
        pytest.param("[" * 10**5, id="deep"),
        json.dumps({"digest": digest_of([0] * 10), "results": [1] * 10}),
        json.dumps({"digest": digest_of([0] * 9), "results": [0] * 9}),
    ],
)
def test_a_damaged_shard_is_computed_again(tmp_path, content):
    work, store = Work(), Shards(tmp_path, 16)
    store.run(Stage("s", 1, work), ITEMS)
    (path,) = (tmp_path / "s").iterdir()
    path.write_text(content)
    assert Shards(tmp_path, 16).run(Stage("s", 1, work), ITEMS) == SQUARES
    assert json.loads(path.read_text())["results"] == SQUARES


def test_a_full_disk(tmp_path, monkeypatch):
    def full(path, text, private):
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Shards(tmp_path, 4)
    store.run(Stage("s", 1, Work()), ITEMS[:4])
    monkeypatch.setattr(shards, "write_text", full)
    match = r"cannot be written \(No space left on device\). What was finished is kept"
    with pytest.raises(UserError, match=match):
        store.run(Stage("s", 1, Work()), ITEMS)
    assert len(list((tmp_path / "s").iterdir())) == 1


def test_results_of_another_number_are_a_defect(tmp_path):
    with pytest.raises(RuntimeError, match="s: 1 results for 4 items"):
        Shards(tmp_path, 4).run(Stage("s", 1, lambda items: [1]), ITEMS)
    assert not list(tmp_path.rglob("*.json"))


def test_size():
    with pytest.raises(UserError, match="shard_size is 0: give at least 1"):
        Shards("unused", 0)
