"""Batches of inputs of similar length, in few shapes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

SHORTEST = 8


class Batch(NamedTuple):
    """Inputs that are decoded together.

    Attributes:
      indices: places of the inputs in the file.
      rows: rows of the device batch; those beyond the indices are filling.
      length: columns, at least as many as the longest input has tokens.
    """

    indices: tuple[int, ...]
    rows: int
    length: int


def plan(lengths: Sequence[int], batch_size: int, shared: int = 0) -> list[Batch]:
    """Groups inputs by length rounded up to a power of two, long ones first.

    What all inputs share is not rounded up: `shared` plus a power of two.

    All batches of a length have the same number of rows, so a program is compiled once
    a length. The long ones come first: what does not fit into memory fails early, and
    the expected time of arrival errs on the safe side.

    Args:
      lengths: tokens of each input.
      batch_size: rows of a batch at most.
      shared: tokens that each input has in common with all others, as of a prompt.
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
    """The smallest power of two that is at least `value` and `least`."""
    return max(least, 1 << (value - 1).bit_length())


def pad(
    sequences: Sequence[Sequence[int]], rows: int, length: int
) -> Int[np.ndarray, "rows length"]:
    """The sequences as rows of zeros; rows beyond them repeat the first sequence.

    An empty row would attend to nothing, which some modules turn into NaN.
    """
    array = np.zeros((rows, length), np.int32)
    for row in range(rows):
        sequence = sequences[row] if row < len(sequences) else sequences[0]
        array[row, : len(sequence)] = sequence
    return array
