"""The order in which SeqIO's tf.data streams yield examples, without TensorFlow.

tf.data draws from Philox, a counter-based generator (Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3"), so what it yields is a function of seeds and
counts. The classes here repeat what `tf.data` does in one SeqIO task or mixture:
shuffled files, interleaved lines, a shuffle buffer, and tasks drawn at rates. They yield
numbers of examples. A position is a tree of lists and integers, for JSON.

The tests hold them to tf.data itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt32

# Philox 4x32 with ten rounds: its multipliers and the steps of its key.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
# What TensorFlow takes as the first seed where only the second is given.
_GRAPH_SEED = 87654321
# To which it takes the remainder of seeds.
_LARGEST_SEED = 2**31 - 1
# With these it scrambles the seeds of stateless operations.
_SCRAMBLE = (0x3EC8F720, 0x02461E29)
_BLOCK = 1024
# Of SeqIO's file sources and tasks.
_CYCLE, _BLOCK_LENGTH, _BUFFER = 16, 16, 1000


def philox(
    counter: UInt32[np.ndarray, "4 n"], key: UInt32[np.ndarray, "2 n"]
) -> UInt32[np.ndarray, "4 n"]:
    """Four random words for each counter."""
    c = [part.astype(np.uint64) for part in counter]
    k = [part.astype(np.uint64) for part in key]
    for _ in range(10):
        first = np.uint64(_MULTIPLIERS[0]) * c[0]
        second = np.uint64(_MULTIPLIERS[1]) * c[2]
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ k[0],
            second & _LOW,
            (first >> np.uint64(32)) ^ c[3] ^ k[1],
            first & _LOW,
        ]
        k = [
            (part + np.uint64(step)) & _LOW
            for part, step in zip(k, _KEY_STEPS, strict=True)
        ]
    return np.stack(c).astype(np.uint32)


class Words:
    """The words that a seeded generator of tf.data draws, by their number."""

    def __init__(self, seed: int, seed2: int):
        """`seed`, `seed2`: 64-bit integers, as those that tf.data hands its kernels."""
        self._key, self._counter = _split(seed), _split(seed2)
        self._block, self._words = -1, np.zeros(0, np.uint32)

    def __getitem__(self, number: int) -> int:
        block, offset = divmod(number, _BLOCK)
        if block != self._block:
            self._block, self._words = block, self.many(block * _BLOCK, _BLOCK)
        return int(self._words[offset])

    def many(self, first: int, count: int) -> UInt32[np.ndarray, " count"]:
        """Words `first`, `first + 1`, ...; both numbers divide by 4."""
        blocks = np.arange(first // 4, (first + count) // 4, dtype=np.uint64)
        counter = np.stack(
            [
                blocks & _LOW,
                blocks >> np.uint64(32),
                np.full(len(blocks), self._counter[0], np.uint64),
                np.full(len(blocks), self._counter[1], np.uint64),
            ]
        )
        key = np.asarray(self._key, np.uint64)[:, None].repeat(len(blocks), axis=1)
        return philox(counter.astype(np.uint32), key.astype(np.uint32)).T.reshape(-1)


def _split(value: int) -> tuple[int, int]:
    value &= (1 << 64) - 1
    return value & 0xFFFFFFFF, value >> 32


def seeded(seed: int) -> Words:
    """The generator of a tf.data transformation that was given one seed."""
    return Words(_GRAPH_SEED, seed % _LARGEST_SEED)


def stateless_categorical(
    logits: Float[np.ndarray, "n classes"],
    seed: Int[np.ndarray, " n"],
    seed2: Int[np.ndarray, " n"],
) -> Int[np.ndarray, " n"]:
    """One draw from each row, as TensorFlow's operation of that name makes it."""
    first = np.asarray(seed, np.int64).astype(np.uint64)
    second = np.asarray(seed2, np.int64).astype(np.uint64)
    high = np.uint64(32)
    counter = np.stack([first & _LOW, first >> high, second & _LOW, second >> high])
    key = np.asarray(_SCRAMBLE, np.uint32)[:, None].repeat(len(first), axis=1)
    mixed = philox(counter.astype(np.uint32), key)
    zero = np.zeros_like(mixed[0])
    words = philox(np.stack([zero, zero, mixed[2], mixed[3]]), mixed[:2])
    mantissa = ((words[0] & np.uint32(0xFFFFF)).astype(np.uint64) << high) | words[1]
    uniform = mantissa.astype(np.float64) * 2.0**-52
    rows = np.asarray(logits, np.float32).astype(np.float64)
    cumulated = np.cumsum(np.exp(rows - rows.max(axis=1, keepdims=True)), axis=1)
    sought = uniform * cumulated[:, -1]
    return (cumulated <= sought[:, None]).sum(axis=1)


class Shuffle:
    """A shuffle buffer over another stream, or over `range(size)` of one epoch."""

    def __init__(self, source: Any, buffer: int, seeds: tuple[int, int]):
        self._source, self._size = source, buffer
        self._words = Words(*seeds)
        self._kept: list[int] = []
        self._start = self._drawn = 0

    def __next__(self) -> int:
        kept, size = self._kept, self._size
        if len(kept) < size:
            while len(kept) < size:
                kept.append(next(self._source))
        elif self._drawn:
            # The place that was freed last.
            kept[(self._start - 1) % size] = next(self._source)
        place = (self._start + self._words[self._drawn] % size) % size
        first = self._start % size
        found = kept[place]
        kept[place] = kept[first]
        self._drawn += 1
        self._start = (self._start + 1) % size
        return found

    def state(self) -> list[Any]:
        """The position."""
        return [list(self._kept), self._start, self._drawn, self._source.state()]

    def restore(self, state: Sequence[Any]) -> None:
        """Goes to a position."""
        kept, self._start, self._drawn, source = state
        self._kept = list(kept)
        self._source.restore(source)


def shuffled_once(count: int, words: Words) -> list[int]:
    """All numbers below `count` in the order of a buffer that holds all of them."""
    kept, order = list(range(count)), []
    for start in range(count):
        place = start + words[start] % (count - start)
        order.append(kept[place])
        kept[place] = kept[start]
    return order


class Lines:
    """Endless numbers of lines: the files in a new order each epoch, interleaved."""

    def __init__(self, files: Sequence[range], seed: int | None):
        """Begins with the first epoch.

        Args:
          files: the numbers of the lines of each file.
          seed: of the order of the files; None keeps it.
        """
        self._files = files
        self._seeds = None if seed is None else seeded(seed)
        self._epoch = -1
        self._open_epoch()

    def _open_epoch(self) -> None:
        self._epoch += 1
        order = list(range(len(self._files)))
        if self._seeds is not None:
            pair = self._seeds[2 * self._epoch], self._seeds[2 * self._epoch + 1]
            order = shuffled_once(len(order), Words(*pair))
        self._order = order
        # Of each open file: its number and how many lines were read.
        self._open: list[list[int] | None] = [None] * _CYCLE
        self._next = self._slot = self._taken = 0

    def __next__(self) -> int:
        while True:
            if self._next >= len(self._order) and not any(self._open):
                self._open_epoch()
            current = self._open[self._slot]
            if current is None and self._next < len(self._order):
                current = [self._order[self._next], 0]
                self._open[self._slot] = current
                self._next += 1
            if current is not None:
                file, line = current
                if line < len(self._files[file]):
                    current[1] += 1
                    self._taken += 1
                    if self._taken == _BLOCK_LENGTH:
                        self._advance()
                    return self._files[file][line]
                self._open[self._slot] = None
            self._advance()

    def _advance(self) -> None:
        self._slot = (self._slot + 1) % _CYCLE
        self._taken = 0

    def state(self) -> list[Any]:
        """The position."""
        return [self._epoch, self._open, self._next, self._slot, self._taken]

    def restore(self, state: Sequence[Any]) -> None:
        """Goes to a position."""
        epoch, opened, next_file, slot, taken = state
        self._epoch = epoch - 1
        self._open_epoch()
        self._open = [None if item is None else list(item) for item in opened]
        self._next, self._slot, self._taken = next_file, slot, taken


def task(files: Sequence[range], shuffle: bool, file_seed: int, seed: int) -> Any:
    """The endless stream of one SeqIO task.

    Args:
      files: the numbers of the examples of each file that this host reads.
      shuffle: whether files and examples are shuffled.
      file_seed: of the order of the files.
      seed: of the shuffle buffer.
    """
    lines = Lines(files, file_seed if shuffle else None)
    if not shuffle:
        return lines
    # Of the two seeds of its one iteration.
    words = seeded(seed)
    return Shuffle(lines, _BUFFER, (words[0], words[1]))


class Rates:
    """Draws streams at fixed rates, as `tf.data.Dataset.sample_from_datasets`."""

    def __init__(self, rates: Sequence[float], seed: int):
        weights = np.asarray(rates, np.float32)
        self._logits = np.log(weights / weights.sum())
        self._words = seeded(seed)
        self._block, self._choices = -1, np.zeros(0, np.int64)

    def __getitem__(self, number: int) -> int:
        if len(self._logits) == 1:
            return 0
        block, offset = divmod(number, _BLOCK)
        if block != self._block:
            pairs = self._words.many(2 * block * _BLOCK, 2 * _BLOCK).reshape(-1, 2)
            rows = np.broadcast_to(self._logits, (_BLOCK, len(self._logits)))
            drawn = stateless_categorical(rows, *pairs.astype(np.int64).T)
            self._block, self._choices = block, drawn
        return int(self._choices[offset])


class Scheduled:
    """Draws levels by a schedule: `jaxaug.curriculum.mixture.scheduled_sample_fn`."""

    def __init__(self, ends: Sequence[int], logits: np.ndarray, seed: int):
        """`ends`: of all stages but the last; `logits`: [stages, levels]."""
        self._ends, self._logits, self._seed = list(ends), logits, seed
        self._block, self._choices = -1, np.zeros(0, np.int64)

    def __getitem__(self, number: int) -> int:
        block, offset = divmod(number, _BLOCK)
        if block != self._block:
            index = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
            stages = np.searchsorted(self._ends, index, side="right")
            seeds = np.full(len(index), self._seed)
            self._choices = stateless_categorical(self._logits[stages], seeds, index)
            self._block = block
        return int(self._choices[offset])


class Mixed:
    """Streams of (stream, example), one of them drawn at a time."""

    def __init__(self, streams: Sequence[Any], choices: Any):
        self._streams, self._choices, self._count = list(streams), choices, 0

    def __next__(self) -> Any:
        which = self._choices[self._count]
        self._count += 1
        return next(self._streams[which])

    def state(self) -> list[Any]:
        """The position."""
        return [self._count, [stream.state() for stream in self._streams]]

    def restore(self, state: Sequence[Any]) -> None:
        """Goes to a position."""
        self._count, states = state
        for stream, each in zip(self._streams, states, strict=True):
            stream.restore(each)
