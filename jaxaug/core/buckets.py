"""The driver of models for text: batches of inputs of similar length, in few shapes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int

from jaxaug.core.errors import UserError

SHORTEST = 8
_Result = TypeVar("_Result")


class Batch(NamedTuple):
    """Inputs that are decoded together.

    Attributes:
        rows: rows of the device batch; rows beyond the indices are padding.
        length: number of columns, at least the length of the longest input.
    """

    indices: tuple[int, ...]
    rows: int
    length: int


def plan(
    lengths: Sequence[int], batch_size: int, shared: int = 0, shortest: int = SHORTEST
) -> list[Batch]:
    """Groups inputs by length rounded up to a power of two, longest first.

    The common prefix is not rounded up: a length is `shared` plus a power of two. All
    batches of a length have the same number of rows, so each length needs one compiled
    program. Long inputs come first, so that running out of memory shows early, and time
    estimates are conservative.

    Args:
        shared: number of tokens that all inputs have in common, as in a prompt.
        shortest: minimum length without them.
    """
    buckets: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        own = power_of_two(length - shared, shortest)
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


def in_batches(
    sequences: Sequence[Sequence[int]],
    batch_size: int,
    compute: Callable[[Int[np.ndarray, "rows length"], Batch], Iterable[_Result]],
    shared: int = 0,
    shortest: int = SHORTEST,
    *,
    fit: Callable[[Batch], Batch] = lambda batch: batch,
    name: str = "the model",
) -> list[_Result]:
    """Returns the results of all sequences, in their order; see `plan` and `one_batch`.

    Args:
        fit: changes the rows and the length of a planned batch.
        name: name of the model in messages.
    """
    found: dict[int, _Result] = {}
    lengths = [len(one) for one in sequences]
    for batch in plan(lengths, batch_size, shared, shortest):
        found |= one_batch(sequences, fit(batch), compute, name)
    return [found[i] for i in range(len(sequences))]


def one_batch(
    sequences: Sequence[Sequence[int]] | Mapping[int, Sequence[int]],
    batch: Batch,
    compute: Callable[[Int[np.ndarray, "rows length"], Batch], Iterable[_Result]],
    name: str = "the model",
) -> dict[int, _Result]:
    """Returns index -> result of the inputs of a batch, computed from padded rows.

    Args:
        sequences: tokens of the inputs; only inputs of the batch are read.
        compute: returns a result for each row; results of padding rows are dropped.
            Arrays are checked by `check_finite`.

    Raises:
        UserError: a number of the results is NaN or infinite.
    """
    rows = pad([sequences[i] for i in batch.indices], batch.rows, batch.length)
    found: Any = compute(rows, batch)
    if hasattr(found, "dtype"):
        found = np.asarray(found)
        check_finite(found, name)
    return dict(zip(batch.indices, found, strict=False))


def check_finite(numbers: np.ndarray, name: str) -> None:
    """Checks the numbers of a model; tokens are the result of a decode function.

    Raises:
        UserError: a number is NaN or infinite, or a step of the decoding had none that
            is finite.
    """
    if np.issubdtype(numbers.dtype, np.integer):
        from t5x.search.decode_state import check_decodes

        check_decodes(numbers)
    elif not (finite := np.isfinite(numbers)).all():
        raise UserError(
            f"{name}: its output for a text is {numbers[~finite][0]}. Its weights are "
            "damaged or its activations overflow: check the weights, get the model "
            "again, or use float32."
        )


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
