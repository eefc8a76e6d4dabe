"""Shards in which a run reads its training data, on any number of processes.

A run starts with a fixed number of shards, by default one per group of processes that
feed the same rows. A global batch always consists of the same rows of the same shards
in shard order, whichever process reads them. The position of each shard is saved
separately. A run that resumes with another number of processes or another mesh
therefore continues at the same place in the data.

Prefetched, unused batches are stored next to a position: `<prefix>.pending.npz` holds
them, `<prefix>.pending.json` their number and checksum.
"""

import collections
import dataclasses
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from jaxaug_base import files as paths

from t5x import digests
from t5x.errors import UserError

Batch = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class DataShards:
    """Shards of a run's training data, and the part of them that one process reads.

    Row r of a global batch is row `r % rows` of shard `r // rows`. A process feeds a
    contiguous range of rows: whole shards, a part of one, or both.

    Attributes:
        count: number of shards of the data.
        batch_size: rows of a global batch, a multiple of `count` and of `parts`.
        part: index of the row range that this process feeds.
        parts: number of equal row ranges.
        saves: False if another process feeds the same rows and saves the position.
    """

    count: int
    batch_size: int
    part: int = 0
    parts: int = 1
    saves: bool = True

    @property
    def rows(self) -> int:
        """Number of rows of one shard in a global batch."""
        return self.batch_size // self.count

    @property
    def taken(self) -> int:
        """Number of rows of a global batch that this process feeds."""
        return self.batch_size // self.parts

    @property
    def mine(self) -> range:
        """Indices of the shards that this process reads."""
        first = self.part * self.taken
        return range(first // self.rows, -(-(first + self.taken) // self.rows))

    def join(self, batches: list[Batch]) -> Batch:
        """Returns the rows [taken, ...] of this process from batches of its shards."""
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
        """Returns whether this process feeds the first row of a shard and `saves`."""
        return self.saves and shard * self.rows // self.taken == self.part


class Rewindable:
    """Iterator that can save its position as of a few batches ago.

    The position of the wrapped iterator is written with the batches that it returned
    since then; `restore` yields them first.
    """

    def __init__(self, iterator: Any, most: int):
        """Wraps an iterator; `save` can go back at most `most` batches."""
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

    @property
    def is_ready(self) -> bool:
        """False if the next batch depends on steps that are not done yet."""
        return bool(self._again) or getattr(self.wrapped, "is_ready", True)

    def reset(self) -> None:
        """Restarts from the first batch."""
        self.wrapped.reset()
        self._again.clear()

    def save(self, filename: str | os.PathLike, ago: int) -> None:
        """Writes the position `ago` batches back under the given path prefix."""
        method(self.wrapped, "save")(filename)
        recent = list(self._recent)
        _write_pending(filename, [*recent[len(recent) - ago :], *self._again])

    def restore(self, filename: str | os.PathLike) -> None:
        """Moves to the position written under the given path prefix."""
        batches = _read_pending(filename)
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
    """Returns a method of an iterator; raises NotImplementedError if it lacks one."""
    if not hasattr(iterator, name):
        raise NotImplementedError(f"{type(iterator).__name__} has no {name}(path)")
    return getattr(iterator, name)


def _paths(filename: str | os.PathLike) -> tuple[epath.Path, epath.Path]:
    """Returns the paths of (the batches, their number and checksum)."""
    prefix = f"{os.fspath(filename)}.pending"
    return epath.Path(f"{prefix}.npz"), epath.Path(f"{prefix}.json")


def _write_pending(filename: str | os.PathLike, batches: Sequence[Batch]) -> None:
    """Writes batches next to the position with this prefix."""
    arrays: dict[str, Any] = {
        f"{i}/{name}": local_rows(value)
        for i, batch in enumerate(batches)
        for name, value in batch.items()
    }
    # numpy seeks while writing, which files on gs:// do not support.
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    size, checksum = digests.of_bytes(data)
    note = {"batches": len(batches), "bytes": size, "crc32": checksum}
    path, note_path = _paths(filename)
    for target, content in ((path, data), (note_path, json.dumps(note).encode())):
        with paths.replacing(target) as temporary:
            temporary.write_bytes(content)


def local_rows(value: Any) -> np.ndarray:
    """Returns this process's rows of a global array, in order."""
    if not isinstance(value, jax.Array) or value.is_fully_addressable:
        return np.asarray(value)
    rows = {
        (shard.index[0].start or 0): np.asarray(shard.data)
        for shard in value.addressable_shards
    }
    return np.concatenate([rows[start] for start in sorted(rows)])


def _read_pending(filename: str | os.PathLike) -> list[dict[str, np.ndarray]]:
    """Reads the batches of `write`; empty for positions that other programs wrote."""
    path, note_path = _paths(filename)
    noted: Mapping[str, Any] = {}
    if note_path.exists():
        try:
            noted = paths.read_json(note_path)
            expected = int(noted["batches"]), (int(noted["bytes"]), noted["crc32"])
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            raise _bad(note_path, "cannot be read", noted) from error
    if not path.exists():
        if noted and expected[0]:
            raise _bad(path, "is missing", noted)
        return []
    data = paths.read_bytes(path)
    if noted and digests.of_bytes(data) != expected[1]:
        what = f"has changed since it was saved ({len(data):,} bytes)"
        raise _bad(path, what, noted)
    batches: dict[int, dict[str, np.ndarray]] = {}
    try:
        with np.load(io.BytesIO(data)) as arrays:
            for key in arrays.files:
                number, name = key.split("/", 1)
                batches.setdefault(int(number), {})[name] = arrays[key]
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError) as error:
        raise _bad(path, f"cannot be read ({error})", noted) from error
    return [batches[number] for number in sorted(batches)]


def _bad(path: epath.Path, what: str, noted: Any) -> UserError:
    count = noted.get("batches") if isinstance(noted, Mapping) else None
    batches = "the batches" if count is None else f"{count} batches"
    return UserError(
        f"{path} {what}. It held {batches} that were read ahead but not trained on "
        "yet: without them training would leave them out. Restore another step, or "
        "move this checkpoint away so that the run continues from an earlier one."
    )


def number_of_shards(
    asked: int | None, saved: int | None, noted: int | None, batch_size: int, parts: int
) -> int:
    """Returns the number of shards in which a run reads its data.

    Args:
        asked: number in the configuration, or None.
        saved: number in the checkpoint whose data position is restored, or None.
        noted: number recorded by an unfinished run without such a checkpoint, or None.

    Raises:
        UserError: the batch size is not divisible by the number of shards, or the
            number cannot be changed.
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
                f"Batch size ({batch_size}) must be divisible by {saved}, the number "
                f"of shards of the data that this run goes on with: choose "
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
