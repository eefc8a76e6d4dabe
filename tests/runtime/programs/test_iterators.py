"""Iterators: reading ahead in a thread, and exact resumption."""

import json
import threading
import zlib

import jax
import numpy as np
import pytest
from t5x import partitioning
from t5x.errors import UserError
from t5x.feed.iterators import (
    PrefetchIterator,
    ShardedDatasetIterator,
    prepare_train_iter,
)
from toy_run import Numbers

PARTITIONER = partitioning.PjitPartitioner(num_partitions=1)


def prepare(iterator):
    return prepare_train_iter(
        iterator, checkpoint_cfg=None, partitioner=PARTITIONER, data_layout=None
    )


def tokens(batch):
    return np.asarray(batch["encoder_input_tokens"])


def test_yields_the_batches_on_the_mesh():
    prepared, plain = prepare(Numbers()), Numbers()
    for _ in range(5):
        batch = next(prepared)
        assert all(isinstance(x, jax.Array) for x in batch.values())
        np.testing.assert_array_equal(tokens(batch), tokens(next(plain)))
    assert prepared.element_spec == plain.element_spec
    assert isinstance(prepared.iterator, Numbers)
    prepared.close()


@pytest.mark.parametrize("used", [0, 1, 4])
@pytest.mark.parametrize("peek", [False, True])
def test_save_and_restore(tmp_path, used, peek):
    first = prepare(Numbers())
    if peek:
        first.peek_async().result()
    for _ in range(used):
        next(first)
    first.save(tmp_path / "position")
    second = prepare(Numbers())
    second.restore(tmp_path / "position")
    plain = Numbers()
    plain.position = used
    for _ in range(6):
        expected = tokens(next(plain))
        np.testing.assert_array_equal(tokens(next(first)), expected)
        np.testing.assert_array_equal(tokens(next(second)), expected)
    first.close()
    second.close()


@pytest.fixture
def saved(tmp_path):
    """Saves a position with two pending batches; returns its prefix."""
    iterator = prepare(Numbers())
    for _ in range(3):
        next(iterator)
    with iterator._changed:
        iterator._changed.wait_for(lambda: len(iterator._ready) == 2)
    iterator.save(tmp_path / "position")
    iterator.close()
    return tmp_path / "position"


def test_the_number_of_pending_batches_is_noted(saved):
    data = saved.with_name("position.pending.npz").read_bytes()
    note = json.loads(saved.with_name("position.pending.json").read_text())
    assert note == {
        "batches": 2,
        "bytes": len(data),
        "crc32": f"{zlib.crc32(data):08x}",
    }


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: None, "is missing. It held 2 batches that were read ahead"),
        (lambda data: data[:40], r"has changed since it was saved \(40 bytes\)\. It"),
        (lambda data: data[:-9] + b"x" + data[-8:], "has changed since it was saved"),
    ],
)
def test_lost_and_damaged_pending_batches(saved, damage, message):
    path = saved.with_name("position.pending.npz")
    content = damage(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    fresh = prepare(Numbers())
    with pytest.raises(UserError, match=f"^{path} {message}"):
        fresh.restore(saved)


def test_a_damaged_note_of_pending_batches(saved):
    note = saved.with_name("position.pending.json")
    note.write_text('{"batches": 2}')
    with pytest.raises(UserError, match=f"^{note} cannot be read. It held 2 batches"):
        prepare(Numbers()).restore(saved)
    for content in ("[" * 100_000, '{"batches": 1e999}', "[]", "{"):
        note.write_text(content)
        with pytest.raises(UserError, match=f"^{note} cannot be read. It held "):
            prepare(Numbers()).restore(saved)


def test_pending_batches_without_a_note(saved):
    """Earlier versions, other iterators, and iterators without prefetch write none."""
    saved.with_name("position.pending.json").unlink()
    fresh, plain = prepare(Numbers()), Numbers()
    plain.position = 3
    fresh.restore(saved)
    np.testing.assert_array_equal(tokens(next(fresh)), tokens(next(plain)))
    fresh.close()
    path = saved.with_name("position.pending.npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=rf"^{path} cannot be read \(.*It held the b"):
        prepare(Numbers()).restore(saved)
    path.unlink()
    fresh = prepare(Numbers())
    fresh.restore(saved)
    plain.position = 5
    np.testing.assert_array_equal(tokens(next(fresh)), tokens(next(plain)))
    fresh.close()


def test_peek_does_not_consume():
    prepared = prepare(Numbers())
    peeked = tokens(prepared.peek())
    np.testing.assert_array_equal(peeked, tokens(prepared.peek()))
    np.testing.assert_array_equal(peeked, tokens(next(prepared)))
    assert not np.array_equal(peeked, tokens(next(prepared)))
    prepared.close()


def test_nothing_is_read_before_the_first_use(tmp_path):
    seen = []
    prepared = prepare(Numbers(on_batch=seen.append))
    assert seen == []
    next(prepared)
    with pytest.raises(RuntimeError, match="after the first batch"):
        prepared.restore(tmp_path / "x")
    prepared.close()


def test_reads_only_a_few_batches_ahead():
    seen = []
    enough = threading.Event()

    def on_batch(number):
        seen.append(number)
        if number == 3:
            enough.set()

    prepared = PrefetchIterator(Numbers(on_batch=on_batch), depth=2)
    for _ in range(2):
        next(prepared)
    assert enough.wait(10)
    assert not threading.Event().wait(0.2)
    assert seen == [0, 1, 2, 3]
    prepared.close()


def test_the_end_and_errors_reach_the_reader():
    def on_batch(number):
        if number == 2:
            raise OSError("disk gone")

    prepared = prepare(Numbers(on_batch=on_batch))
    next(prepared)
    next(prepared)
    for _ in range(2):
        with pytest.raises(OSError, match="disk gone"):
            next(prepared)
    with pytest.raises(OSError, match="disk gone"):
        prepared.peek_async().result()


def test_an_iterator_that_cannot_be_saved_says_so(tmp_path):
    class Unsaveable:
        element_spec = Numbers().element_spec

        def __next__(self):
            return next(Numbers())

    prepared = prepare(Unsaveable())
    next(prepared)
    with pytest.raises(NotImplementedError, match=r"Unsaveable has no save\(path\)"):
        prepared.save(tmp_path / "x")
    prepared.close()


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="get_dataset_fn returned unsupported type"):
        prepare([{"x": np.zeros(1)}])


def test_a_tf_dataset_resumes(tmp_path):
    import tensorflow as tf

    def make():
        ds = tf.data.Dataset.range(40).shuffle(10, seed=3).batch(2, drop_remainder=True)
        return prepare(ds.map(lambda x: {"x": x}))

    straight = make()
    expected = [np.asarray(next(straight)["x"]) for _ in range(12)]
    first = make()
    got = [np.asarray(next(first)["x"]) for _ in range(5)]
    first.save(tmp_path / "position")
    second = make()
    second.restore(tmp_path / "position")
    got += [np.asarray(next(second)["x"]) for _ in range(7)]
    np.testing.assert_array_equal(expected, got)
    for iterator in (straight, first, second):
        iterator.close()


def test_a_sharded_iterator_shows_what_it_wraps():
    source = Numbers()
    wrapped = ShardedDatasetIterator(source, PARTITIONER, None)
    assert wrapped.iterator is source
    assert wrapped.element_spec == source.element_spec
    np.testing.assert_array_equal(tokens(wrapped.get_next()), tokens(next(Numbers())))


class Gated(Numbers):
    """Has no batch 3 yet."""

    opened = False

    @property
    def is_ready(self):
        return self.opened or self.position < 3

    def __next__(self):
        if not self.is_ready:
            raise UserError("nothing opened it")
        return super().__next__()


def test_a_source_that_is_not_ready_is_not_read_ahead(tmp_path):
    source = Gated()
    prepared = prepare(source)
    for _ in range(2):
        next(prepared)
    prepared.save(tmp_path / "position")  # It does not wait for the source.
    again = prepare(Gated())
    again.restore(tmp_path / "position")
    for found in (prepared, again):
        np.testing.assert_array_equal(tokens(next(found)), tokens(batch_of(2)))
    source.opened = True
    np.testing.assert_array_equal(tokens(next(prepared)), tokens(batch_of(3)))
    prepared.close()
    with pytest.raises(UserError, match="nothing opened it"):
        next(again)


def batch_of(number):
    plain = Numbers()
    plain.position = number
    return next(plain)
