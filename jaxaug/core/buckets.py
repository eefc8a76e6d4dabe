"""Batches of inputs of similar length, in few shapes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

SHORTEST = 8


class Batch(NamedTuple):
    """Inputs that are decoded together.

    Attributes:
        rows: rows of the device batch; rows beyond the indices are padding.
        length: number of columns, at least the length of the longest input.
    """

    indices: tuple[int, ...]
    rows: int
    length: int


def plan(lengths: Sequence[int], batch_size: int, shared: int = 0) -> list[Batch]:
    """Groups inputs by length rounded up to a power of two, longest first.

    The common prefix is not rounded up: a length is `shared` plus a power of two. All
    batches of a length have the same number of rows, so each length needs one compiled
    program. Long inputs come first, so that running out of memory shows early, and time
    estimates are conservative.

    Args:
        shared: number of tokens that all inputs have in common, as in a prompt.
    """
    buckets: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        own = power_of_two(length - shared, SHORTEST)
        buckets.setdefault(shared + own, []).append(index)
    batches = []
    for length in sorted(buckets, reverse=True):
        members = buckets[length]
        rows = min(batch_size, power_of_two(len(members), 1))
        batches += [
            Batch(tuple(members[start : start + rows]), rows, length)
            for start in range(0, len(members), rows)
        ]
    return batches


def power_of_two(value: int, least: int) -> int:
    """Returns the smallest power of two that is at least `value` and `least`."""
    return max(least, 1 << (value - 1).bit_length())


def pad(
    sequences: Sequence[Sequence[int]], rows: int, length: int
) -> Int[np.ndarray, "rows length"]:
    """Pads sequences with zeros to rows; extra rows repeat the first sequence.

    An empty row would attend to nothing, which some modules turn into NaN.
    """
    array = np.zeros((rows, length), np.int32)
    for row in range(rows):
        sequence = sequences[row] if row < len(sequences) else sequences[0]
        array[row, : len(sequence)] = sequence
    return array
