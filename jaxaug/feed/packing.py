"""Which examples share a row, where more than one row is open at a time.

SeqIO fills one row after the other: what does not fit any more ends the row. For
examples of half a row's length that leaves a third of every row empty. Our T5X packs whole
windows of a pipeline of tf.data (`configs/runs/packed.gin`); here a stream is packed as it
comes, so that nearly all examples keep their place in it, as a curriculum needs.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Example = list[int]
Row = list[Example]
Sizes = Mapping[str, int]

# Rows that are closed, for each open one, before the oldest has to be.
_PATIENCE = 8


@dataclasses.dataclass
class _OpenRow:
    """A row that still takes examples.

    Attributes:
      free: tokens of each feature that are left.
      room: what is left of the feature that it has least of, 0 to 1.
      examples: in it.
      closed_since: rows that were closed since it was opened.
    """

    free: dict[str, int]
    room: float = 1.0
    examples: Row = dataclasses.field(default_factory=list)
    closed_since: int = 0


class OpenRows:
    """Best fit with a bounded number of bins: online bin packing in two dimensions.

    An example goes to the fullest row that has room for it: the one that has the least
    left of the feature it has least of. Where none has room, the fullest of all rows is
    closed and a new one opened, or the oldest row if `8 * number` were closed since it
    was opened. So every example comes before `9 * number` other rows have.
    """

    def __init__(self, lengths: Sizes, number: int):
        """Opens the first row.

        Args:
          lengths: tokens of each feature in a row.
          number: rows that are open at a time.
        """
        self._lengths, self._number = dict(lengths), number
        self._rows: list[_OpenRow] = []  # in the order in which they were opened

    def add(self, example: Example, sizes: Sizes) -> Row | None:
        """Gives an example its row.

        Args:
          example: what to note in the row.
          sizes: tokens of each of its features, none above the length of a row.

        Returns:
          the row that was closed to make room, if any.
        """
        fitting = [
            row
            for row in self._rows
            if all(sizes[name] <= row.free[name] for name in sizes)
        ]
        closed = None
        if not fitting:
            if len(self._rows) == self._number:
                closed = self._close()
            fitting = [_OpenRow(dict(self._lengths))]
            self._rows += fitting
        row = _fullest(fitting)
        row.examples.append(example)
        for name, size in sizes.items():
            row.free[name] -= size
        row.room = self._room(row.free)
        return closed

    def _close(self) -> Row:
        oldest = self._rows[0]
        late = oldest.closed_since >= _PATIENCE * self._number
        closed = oldest if late else _fullest(self._rows)
        self._rows = [row for row in self._rows if row is not closed]
        for row in self._rows:
            row.closed_since += 1
        return closed.examples

    def _room(self, free: Sizes) -> float:
        return min(free[name] / length for name, length in self._lengths.items())

    def state(self) -> list[Any]:
        """The open rows, from which `restore` goes on."""
        return [
            [list(row.examples), dict(row.free), row.closed_since] for row in self._rows
        ]

    def restore(self, state: Sequence[Any]) -> None:
        """Takes over what `state` returned."""
        self._rows = [
            _OpenRow(
                {name: int(free[name]) for name in self._lengths},
                self._room(free),
                list(examples),
                int(closed_since),
            )
            for examples, free, closed_since in state
        ]


def _fullest(rows: Iterable[_OpenRow]) -> _OpenRow:
    return min(rows, key=lambda row: row.room)
