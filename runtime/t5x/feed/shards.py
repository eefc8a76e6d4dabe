"""The shards in which a run reads its training data, on however many processes.

A run begins with a number of shards, by default one for each group of processes that
feeds the same rows, and keeps it: a global batch is always made of the same rows of the
same shards, in the order of the shards, whichever process reads them. The position of
each shard is saved by itself. So a run that goes on with another number of processes,
or on another mesh, goes on at the same place in the data.
"""

import collections
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from t5x.errors import UserError
from t5x.feed import pending

Batch = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class DataShards:
    """The shards of a run's training data, and what one process needs of them.

    Row r of a global batch is row `r % rows` of shard `r // rows`. A process takes a
    run of rows of the global batch, hence whole shards, or a part of one, or both.

    Attributes:
        count: number of shards of the data.
        batch_size: rows of a global batch, a multiple of `count` and of `parts`.
        part: index of the rows that this process feeds ...
        parts: ... among so many equal runs of rows.
        saves: False where another process feeds the same rows and does the writing.
    """

    count: int
    batch_size: int
    part: int = 0
    parts: int = 1
    saves: bool = True

    @property
    def rows(self) -> int:
        """Rows of one shard in a global batch."""
        return self.batch_size // self.count

    @property
    def taken(self) -> int:
        """Rows of a global batch that this process feeds."""
        return self.batch_size // self.parts

    @property
    def mine(self) -> range:
        """The shards that this process reads."""
        first = self.part * self.taken
        return range(first // self.rows, -(-(first + self.taken) // self.rows))

    def join(self, batches: list[Batch]) -> Batch:
        """The rows of this process, of one batch of each shard of `mine`.

        Args:
            batches: dicts of arrays [rows, ...].

        Returns:
            a dict of arrays [taken, ...].
        """
        start = self.part * self.taken - self.mine[0] * self.rows
        if len(batches) == 1 and self.taken == self.rows:
            return batches[0]
        return {
            name: np.concatenate([np.asarray(batch[name]) for batch in batches])[
                start : start + self.taken
            ]
            for name in batches[0]
        }

    def writes(self, shard: int) -> bool:
        """Whether this process saves a shard: it feeds the first of its rows."""
        return self.saves and shard * self.rows // self.taken == self.part


class Rewindable:
    """An iterator whose position a few batches ago can be saved.

    The position of the wrapped iterator is written together with the batches that came
    out since then, which `restore` gives out first.
    """

    def __init__(self, iterator: Any, most: int):
        """Wraps an iterator; `most` is how many batches `save` can go back."""
        self.wrapped = iterator
        self._recent: collections.deque[Batch] = collections.deque(maxlen=most)
        self._again: collections.deque[Batch] = collections.deque()

    def __next__(self) -> Batch:
        batch = self._again.popleft() if self._again else next(self.wrapped)
        self._recent.append(batch)
        return batch

    @property
    def element_spec(self) -> Any:
        """Shapes and types of the batches."""
        return self.wrapped.element_spec

    def reset(self) -> None:
        """Starts again from the first batch."""
        self.wrapped.reset()
        self._again.clear()

    def save(self, filename: str | os.PathLike, ago: int) -> None:
        """Writes the position `ago` batches back under the given path prefix."""
        method(self.wrapped, "save")(filename)
        recent = list(self._recent)
        pending.write(filename, [*recent[len(recent) - ago :], *self._again])

    def restore(self, filename: str | os.PathLike) -> None:
        """Goes to the position written under the given path prefix.

        Raises:
            UserError: batches that were read ahead are lost, damaged, or of another
                batch size.
        """
        batches = pending.read(filename)
        for name, value in batches[0].items() if batches else ():
            expected = tuple(self.element_spec[name].shape)
            if value.shape != expected:
                raise UserError(
                    f"{os.fspath(filename)} holds {name!r} of batches that were read "
                    f"ahead with shape {value.shape}, and this run reads {expected}. "
                    "Go on with the batch size and the feature lengths of before, or "
                    "begin the data anew: SaveCheckpointConfig.save_dataset = False."
                )
        method(self.wrapped, "restore")(filename)
        self._again.extend(batches)


def method(iterator: Any, name: str) -> Callable[..., Any]:
    """A method of an iterator.

    Raises:
        NotImplementedError: it has none of that name.
    """
    if not hasattr(iterator, name):
        raise NotImplementedError(f"{type(iterator).__name__} has no {name}(path)")
    return getattr(iterator, name)


class JoinedIterator:
    """Batches of the rows that one process feeds, from the shards that it reads.

    Attributes:
        shards: which they are; None for one iterator that has just those rows.
        parts: index of each shard that is read -> its iterator.
    """

    def __init__(
        self, parts: Mapping[int, Any], shards: DataShards | None, most: int = 0
    ):
        """Joins iterators.

        Args:
            parts: index of the shard -> iterator, for `shards.mine`; one where there
                are no `shards`.
            shards: the shards of the run.
            most: how many batches `save` can go back.
        """
        self.shards = shards
        self.parts = {i: Rewindable(part, most) for i, part in parts.items()}

    def __next__(self) -> Batch:
        batches = [next(part) for part in self.parts.values()]
        return batches[0] if self.shards is None else self.shards.join(batches)

    @property
    def element_spec(self) -> Any:
        """Shapes and types of the batches of this process."""
        first = next(iter(self.parts.values())).element_spec
        if self.shards is None or self.shards.taken == self.shards.rows:
            return first
        return {
            name: jax.ShapeDtypeStruct(
                (self.shards.taken, *spec.shape[1:]),
                getattr(spec.dtype, "as_numpy_dtype", spec.dtype),
            )
            for name, spec in first.items()
        }

    def reset(self) -> None:
        """Starts again from the first batch."""
        for part in self.parts.values():
            part.reset()


def number_of_shards(
    asked: int | None, saved: int | None, noted: int | None, batch_size: int, parts: int
) -> int:
    """In how many shards a run reads its data.

    Args:
        asked: what the configuration says, or None.
        saved: number in the checkpoint whose data position is taken over, or None.
        noted: number with which an unfinished run without such a checkpoint began.
        batch_size: rows of a global batch.
        parts: number of equal runs of rows that the processes feed.

    Raises:
        UserError: the batch does not divide by the shards, or they cannot be changed.
    """
    anew = (
        "begin the data anew with SaveCheckpointConfig.save_dataset = False (or "
        "RestoreCheckpointConfig.restore_dataset = False)"
    )
    if saved is not None:
        if asked not in (None, saved):
            raise UserError(
                f"train.data_shards = {asked}, but the position in the data that this "
                f"run goes on from is one of {saved} shards: leave data_shards out, or "
                f"{anew}."
            )
        if batch_size % saved:
            raise UserError(
                f"Batch size ({batch_size}) must be divisible by {saved}, the number of "
                "shards of the data that this run goes on with: choose "
                f"{_choices(batch_size, saved)}, or {anew}."
            )
        return saved
    count = asked or noted or parts
    if batch_size % count == 0:
        return count
    if asked:
        raise UserError(
            f"Batch size ({batch_size}) must be divisible by train.data_shards "
            f"({asked}): choose {_choices(batch_size, asked)} rows, or other shards."
        )
    return parts


def _choices(batch_size: int, divisor: int) -> str:
    below = batch_size // divisor * divisor
    return f"{below} or {below + divisor}" if below else str(divisor)
