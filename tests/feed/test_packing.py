"""Best fit decreasing."""

import numpy as np

from jaxaug.feed import packing

RNG = np.random.default_rng(0)


def test_every_example_is_in_one_row_that_has_room():
    lengths = RNG.integers(1, 40, (200, 2))
    room = np.array([60, 45])
    rows = packing.assign(lengths, room)
    assert sorted(example for row in rows for example in row) == list(range(200))
    assert all((lengths[row].sum(axis=0) <= room).all() for row in rows)
    assert rows == sorted(sorted(row) for row in rows)
    # No packing needs fewer rows than the total of the larger feature.
    least = np.ceil((lengths.sum(axis=0) / room).max())
    assert least <= len(rows) < 1.1 * least


def test_rows_of_few_examples():
    """4 + 2 and 3 + 3 fill two rows of 6; in the given order they would need three."""
    lengths = np.array([[4], [3], [2], [3]])
    assert packing.assign(lengths, np.array([6])) == [[0, 2], [1, 3]]


def test_the_fullest_row_with_room_takes_an_example():
    lengths = np.array([[12, 1], [15, 1], [3, 1], [4, 8]])
    # 4 fits into both rows of inputs, but its targets into neither.
    assert packing.assign(lengths, np.array([20, 8])) == [[0], [1, 2], [3]]
