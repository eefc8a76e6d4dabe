"""The order of training data: assignment of examples to rows.

The order is a function of the seed, the tasks, and the schedule, for any number of
hosts. See "The order of training data" in `docs/training.md`.
"""

import bisect
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from jaxtyping import Int

from jaxaug.core.errors import UserError

BLOCK = 256
"""Maximum number of rows that are packed together."""

_DRAWS = 1024  # Number of random numbers drawn at a time.
# Second number of a seed, by purpose of the draw.
_CHOICES, _EXAMPLES, _WORDINGS = 1, 2, 3
_NEVER = 2**62

Count = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
"""Number of rows or examples; no run has more."""

Row = list[tuple[int, int]]
"""The examples of a row: number of the task, number of the example in it."""


class Stage(NamedTuple):
    """Training steps with the same rates.

    Attributes:
        end: the step after the last one; the last stage of a run never ends.
        rates: relative frequency of each task.
    """

    end: int
    rates: tuple[float, ...]


class Task(NamedTuple):
    """Properties of a task that determine the order.

    Attributes:
        sizes: tokens of each example in each feature of a row.
    """

    name: str
    sizes: Int[np.ndarray, "examples features"]


@dataclass(frozen=True)
class Position:
    """Start of a block of rows.

    Attributes:
        row: number of rows before it.
        draws: number of examples drawn before it.
        counts: number of examples of each task taken from its epochs.
        waiting: for each task, drawn examples that found no row; they are drawn next.
        ended: whether there are no more rows.
    """

    row: Count
    draws: Count
    counts: tuple[Count, ...]
    waiting: tuple[tuple[Count, ...], ...]
    ended: bool = False


class Order:
    """Blocks of rows, each a function of its position."""

    def __init__(
        self,
        tasks: Sequence[Task],
        stages: Sequence[Stage],
        batch_size: int,
        *,
        seed: int,
        shuffle: bool = True,
        room: Sequence[int] | None = None,
        num_epochs: int | None = None,
    ):
        """Prepares the order; draws nothing.

        Args:
            batch_size: rows of a global batch.
            seed: seed of the order, 0 or more.
            shuffle: whether each epoch of a task has a new random order.
            room: tokens of a row for each feature; None puts one example into a row.
            num_epochs: stop when a drawn task was read this many times; None never
                stops.

        Raises:
            UserError: the seed is negative.
        """
        if seed < 0:
            raise UserError(f"seed {seed} of the data order: use 0 or more.")
        self._tasks, self._stages, self._batch_size = tasks, stages, batch_size
        self._seed, self._shuffle, self._room = seed, shuffle, room
        self._most = [
            _NEVER if num_epochs is None else num_epochs * len(task.sizes)
            for task in tasks
        ]
        sums = [np.cumsum(stage.rates) for stage in stages]
        self._cumulated = [(found / found[-1]).tolist() for found in sums]
        self._orders: dict[int, tuple[int, np.ndarray]] = {}
        self._numbers: tuple[int, list[float]] = (-1, [])

    def start(self) -> Position:
        """Returns the position of the first row."""
        number = len(self._tasks)
        return Position(0, 0, (0,) * number, ((),) * number)

    def block(self, position: Position) -> tuple[list[Row], Position]:
        """Returns the rows of a block and the position of the next one.

        All rows of a block belong to one stage.
        """
        stage = self._stage(position.row)
        last = stage == len(self._stages) - 1
        end = _NEVER if last else self._stages[stage].end * self._batch_size
        wanted = min(BLOCK, end - position.row)
        drawn, after = self._draw(position, wanted, self._cumulated[stage])
        rows = self._packed(drawn)
        wanted = len(rows) if after.ended else wanted
        # Examples without a row are drawn next, in the order of this block.
        late: list[list[int]] = [[] for _ in self._tasks]
        for number in sorted(number for row in rows[wanted:] for number in row):
            which, index = drawn[number]
            late[which].append(index)
        waiting = tuple(
            (*first, *rest) for first, rest in zip(late, after.waiting, strict=True)
        )
        after = replace(after, row=position.row + wanted, waiting=waiting)
        return [[drawn[number] for number in row] for row in rows[:wanted]], after

    def other_wordings(self, number: int, row: Row, count: int) -> list[Row]:
        """Returns rows with the examples of row `number` in other tasks of its stage.

        Each example gets `count` tasks with as many examples as its own, drawn without
        replacement; its own task again if there are too few.
        """
        rates = self._stages[self._stage(number)].rates
        generator = np.random.default_rng((self._seed, _WORDINGS, number))
        columns = []
        for which, index in row:
            size = len(self._tasks[which].sizes)
            others = [
                other
                for other, rate in enumerate(rates)
                if rate and other != which and len(self._tasks[other].sizes) == size
            ]
            drawn = generator.permutation(others)[:count].astype(int).tolist()
            drawn += [which] * (count - len(drawn))
            columns.append([(other, index) for other in drawn])
        return [list(found) for found in zip(*columns, strict=True)]

    def _stage(self, row: int) -> int:
        """Returns the number of the stage that a row belongs to."""
        ends = [stage.end for stage in self._stages[:-1]]
        return bisect.bisect_right(ends, row // self._batch_size)

    def _draw(
        self, position: Position, rows: int, cumulated: Sequence[float]
    ) -> tuple[Row, Position]:
        """Draws the examples of a block until its rows can be filled."""
        counts, draws = list(position.counts), position.draws
        waiting = [deque(queue) for queue in position.waiting]
        drawn: Row = []
        ended = False
        room = [rows] if self._room is None else [rows * size for size in self._room]
        filled = [0] * len(room)
        while all(used < size for used, size in zip(filled, room, strict=True)):
            which = self._choice(draws, cumulated)
            if not waiting[which] and counts[which] == self._most[which]:
                ended = True
                break
            draws += 1
            if waiting[which]:
                index = waiting[which].popleft()
            else:
                index = self._index(which, counts[which])
                counts[which] += 1
            drawn.append((which, index))
            sizes = [1] if self._room is None else self._tasks[which].sizes[index]
            filled = [int(a + b) for a, b in zip(filled, sizes, strict=True)]
        after = Position(
            position.row, draws, tuple(counts), tuple(map(tuple, waiting)), ended
        )
        return drawn, after

    def _packed(self, drawn: Row) -> list[list[int]]:
        """Returns rows as lists of numbers of drawn examples."""
        if self._room is None:
            return [[number] for number in range(len(drawn))]
        if not drawn:
            return []
        sizes = np.array([self._tasks[which].sizes[index] for which, index in drawn])
        return assign(sizes, np.array(self._room))

    def _choice(self, draw: int, cumulated: Sequence[float]) -> int:
        """Returns the task of a draw, given seed, draw, and rates."""
        block, offset = divmod(draw, _DRAWS)
        if self._numbers[0] != block:
            generator = np.random.default_rng((self._seed, _CHOICES, block))
            self._numbers = (block, generator.random(_DRAWS).tolist())
        return bisect.bisect_right(cumulated, self._numbers[1][offset])

    def _index(self, which: int, count: int) -> int:
        """Returns the example at position `count` of a task's epochs."""
        name, sizes = self._tasks[which]
        epoch, place = divmod(count, len(sizes))
        if not self._shuffle:
            return place
        known = self._orders.get(which)
        if known is None or known[0] != epoch:
            known = (epoch, permutation(self._seed, name, epoch, len(sizes)))
            self._orders[which] = known
        return int(known[1][place])


def permutation(
    seed: int, task: str, epoch: int, size: int
) -> Int[np.ndarray, " size"]:
    """Returns the order of the examples of a task in one epoch."""
    key = (seed, _EXAMPLES, zlib.crc32(task.encode()), epoch)
    return np.random.default_rng(key).permutation(size)


def assign(
    lengths: Int[np.ndarray, "examples features"], room: Int[np.ndarray, " features"]
) -> list[list[int]]:
    """Assigns examples to rows such that every feature of a row fits.

    Examples are placed longest first, each into the fullest row that has room for it.

    Args:
        lengths: tokens of each feature of each example, at most `room`.
        room: positions of a row for each feature.

    Returns:
        Rows as lists of examples, each example once. Rows are sorted by their first
        example, and examples within a row are sorted, so that long ones do not come
        first.
    """
    order = np.argsort(-np.max(lengths / room, axis=1), kind="stable")
    free = np.empty((len(lengths), len(room)), lengths.dtype)
    rows: list[list[int]] = []
    for example in order:
        left = free[: len(rows)] - lengths[example]
        slack = np.where((left >= 0).all(axis=1), (left / room).sum(axis=1), np.inf)
        if not rows or np.isinf(slack.min()):
            free[len(rows)] = room - lengths[example]
            rows.append([int(example)])
            continue
        fullest = int(slack.argmin())
        free[fullest] = left[fullest]
        rows[fullest].append(int(example))
    return sorted(sorted(row) for row in rows)
