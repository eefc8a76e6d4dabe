"""Data in shards: the same batches and positions for any number of processes."""

import types

import numpy as np
import pytest
from t5x.checkpoint import data_position
from t5x.errors import UserError
from t5x.feed import iterators
from t5x.feed.shards import DataShards, number_of_shards
from toy_run import Numbers

ROWS = 12


def layouts(parts):
    """Returns the layouts of several processes, two of which feed the last rows."""
    for part in [*range(parts), parts - 1]:
        yield types.SimpleNamespace(
            shard_id=part, num_shards=parts, is_first_host_in_replica_set=True
        )


class Processes:
    """The iterators of several processes, and their checkpoints."""

    def __init__(self, count, parts):
        self.read = []  # (process, shard, batch)
        self.iterators = []
        for layout in layouts(parts):
            process = len(self.iterators)
            shards = DataShards(
                count, ROWS, layout.shard_id, parts, saves=process < parts
            )

            def open_shard(shard, process=process):
                return Numbers(
                    ROWS,
                    on_batch=lambda n: self.read.append((process, shard, n)),
                    shard=(shard, count),
                )

            self.iterators.append(iterators.prepare_shards(open_shard, shards, None))
        self.positions = [
            data_position.DatasetCheckpoint(
                iterator, types.SimpleNamespace(get_data_layout=lambda: layout)
            )
            for iterator in self.iterators
        ]

    def batch(self):
        """Returns the rows of the next global batch; the last two processes agree."""
        parts = [np.asarray(next(i)["encoder_input_tokens"]) for i in self.iterators]
        np.testing.assert_array_equal(parts[-1], parts[-2])
        for iterator, part in zip(self.iterators, parts, strict=True):
            spec = iterator.element_spec["encoder_input_tokens"]
            assert (spec.shape, spec.dtype) == (part.shape, part.dtype)
        return np.concatenate(parts[:-1])

    def close(self):
        for iterator in self.iterators:
            iterator.close()


@pytest.fixture
def expected():
    """Returns batches 0 ... 7, which do not depend on how they are read."""
    plain = Numbers(ROWS)
    return [next(plain)["encoder_input_tokens"] for _ in range(8)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_any_processes_go_on_where_others_stopped(expected, tmp_path, count):
    batches = iter(expected)
    before = None
    for parts in (2, 1, 4, 3, 6):
        now = Processes(count, parts)
        folder = tmp_path / str(parts)
        folder.mkdir()
        if before:
            assert data_position.saved_shards(before) == count
            assert all(position.restore(before) for position in now.positions)
        np.testing.assert_array_equal(now.batch(), next(batches))
        if parts == 2:
            np.testing.assert_array_equal(now.batch(), next(batches))
        # The others read ahead at the same time.
        for position in now.positions:
            position.save(folder)
        shards = [iterator.shards for iterator in now.iterators[:-1]]
        assert [s for one in shards for s in one.mine if one.writes(s)] == list(
            range(count)
        )
        written = {path.name[: len("train_ds-000-of-000")] for path in folder.iterdir()}
        assert written == {f"train_ds-{i:03}-of-{count:03}" for i in range(count)}
        before = folder
        now.close()


def test_a_process_reads_only_the_shards_of_its_rows():
    now = Processes(count=4, parts=2)
    now.batch()
    now.close()
    read = {(process, shard) for process, shard, _ in now.read}
    assert read == {(0, 0), (0, 1), (1, 2), (1, 3), (2, 2), (2, 3)}
    # If there are more processes than shards, two processes share a shard.
    now = Processes(count=2, parts=4)
    now.batch()
    now.close()
    read = {(process, shard) for process, shard, _ in now.read}
    assert read == {(0, 0), (1, 0), (2, 1), (3, 1), (4, 1)}


def test_a_lost_shard_is_no_new_beginning(tmp_path):
    first = Processes(count=2, parts=1)
    for position in first.positions:
        position.save(tmp_path)
    first.close()
    for path in tmp_path.glob("train_ds-001-of-002*"):
        path.unlink()
    again = Processes(count=2, parts=2)
    assert again.positions[0].restore(tmp_path)
    with pytest.raises(
        UserError, match=r"some of the 2 shards of the training data, but not \['train_"
    ):
        again.positions[1].restore(tmp_path)


def test_another_batch_size_is_refused_where_batches_were_read_ahead(tmp_path):
    first = iterators.PrefetchIterator(Numbers(ROWS))
    first.peek()
    first.save(tmp_path / "position")
    first.close()
    other = iterators.PrefetchIterator(Numbers(2 * ROWS))
    with pytest.raises(UserError, match=r"shape \(12, 6\), and this run reads \(24, 6"):
        other.restore(tmp_path / "position")


def test_several_shards_under_one_prefix(tmp_path):
    """A user-defined checkpoint manager saves them so."""
    shards = DataShards(2, ROWS)

    def make():
        return iterators.prepare_shards(
            lambda shard: Numbers(ROWS, shard=(shard, 2)), shards, None
        )

    first, second = make(), make()
    next(first)
    first.save(tmp_path / "position")
    second.restore(tmp_path / "position")
    tokens = [i.get_next()["encoder_input_tokens"] for i in (first, second)]
    np.testing.assert_array_equal(*tokens)
    plain = Numbers(ROWS)
    plain.position = 1
    np.testing.assert_array_equal(tokens[0], next(plain)["encoder_input_tokens"])
    for iterator in (first, second):
        iterator.close()


@pytest.mark.parametrize(
    ("asked", "saved", "noted", "expected"),
    [
        (None, None, None, 2),
        (4, None, None, 4),
        (None, 6, None, 6),
        (6, 6, 3, 6),
        (None, None, 3, 3),
        (None, None, 5, 2),  # Nothing has been read yet, so another number is accepted.
        (1, None, 3, 1),
    ],
)
def test_number_of_shards(asked, saved, noted, expected):
    assert number_of_shards(asked, saved, noted, batch_size=ROWS, parts=2) == expected


@pytest.mark.parametrize(
    ("asked", "saved", "message"),
    [
        (5, None,
         r"\(12\) must be divisible by train.data_shards \(5\): choose 10 or 15"),
        (None, 8,
         r"\(12\) must be divisible by 8, .*: choose 8 or 16, or begin the data"),
        (2, 4, "train.data_shards = 2, but the position .* is one of 4 shards: leave"),
    ],
)  # fmt: skip
def test_numbers_of_shards_that_cannot_be(asked, saved, message):
    with pytest.raises(UserError, match=message):
        number_of_shards(asked, saved, None, batch_size=ROWS, parts=2)
