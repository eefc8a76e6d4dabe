"""The order of tf.data, held to tf.data itself."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from jaxaug.feed import replay

# More files than are open at a time, of uneven lengths, some of them without a line.
LENGTHS = [(7 * n) % 45 for n in range(37)]
STARTS = np.cumsum([0, *LENGTHS])
FILES = [range(a, b) for a, b in itertools.pairwise(STARTS.tolist())]


def seqio_task(file_seed, seed, offset=0):
    """What `seqio.Task.get_dataset` does, on numbers in place of lines."""
    files = tf.data.Dataset.range(len(FILES)).shuffle(len(FILES), seed=file_seed)
    starts = tf.constant(STARTS)
    lines = files.interleave(
        lambda n: tf.data.Dataset.range(starts[n], starts[n + 1]),
        cycle_length=16,
        block_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return lines.repeat().shuffle(1000, seed=seed).map(lambda x: x + offset)


def taken(dataset, count):
    return [int(x) for x in dataset.take(count).as_numpy_iterator()]


def drawn(stream, count):
    return [next(stream) for _ in range(count)]


@pytest.mark.parametrize(("file_seed", "seed"), [(3, 3), (2**31 + 5, 0)])
def test_a_task_over_several_epochs(file_seed, seed):
    count = 3 * int(STARTS[-1])
    expected = taken(seqio_task(file_seed, seed), count)
    assert drawn(replay.task(FILES, True, file_seed, seed), count) == expected


def test_lines_that_are_not_shuffled():
    files = tf.data.Dataset.range(len(FILES))
    starts = tf.constant(STARTS)
    lines = files.interleave(
        lambda n: tf.data.Dataset.range(starts[n], starts[n + 1]),
        cycle_length=16,
        block_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    count = 2 * int(STARTS[-1]) + 9
    expected = taken(lines.repeat(), count)
    assert drawn(replay.task(FILES, False, 0, 0), count) == expected


def test_tasks_at_rates():
    datasets = [seqio_task(5, 5, offset) for offset in (0, 10_000, 20_000)]
    rates = [1.0, 1.0, 3.0]
    mixed = tf.data.Dataset.sample_from_datasets(datasets, rates, seed=5)
    choices = replay.Rates(rates, 5)
    expected = [n // 10_000 for n in taken(mixed, 2500)]
    assert [choices[n] for n in range(2500)] == expected


def test_categorical_draws():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 7)).astype(np.float32)
    logits[::3, 2] = -1e9
    seeds = rng.integers(-(2**62), 2**62, (500, 2))
    expected = [
        int(tf.random.stateless_categorical(row[None], 1, seed=seed)[0, 0])
        for row, seed in zip(logits, seeds, strict=True)
    ]
    assert replay.stateless_categorical(logits, *seeds.T).tolist() == expected


def test_a_position_goes_through_json():
    def make():
        streams = [replay.task(FILES, True, seed, 1) for seed in (1, 2)]
        return replay.Mixed(streams, replay.Rates([1.0, 1.0], 1))

    straight, stopped, resumed = make(), make(), make()
    expected = drawn(straight, 3000)
    assert drawn(stopped, 1700) == expected[:1700]
    resumed.restore(json.loads(json.dumps(stopped.state())))
    assert drawn(resumed, 1300) == expected[1700:]
