"""Which examples share a row, where more than one row is open at a time.

SeqIO fills one row after the other: what does not fit any more ends the row. For
examples of half a row's length that leaves a third of every row empty. Our T5X packs whole
windows of a pipeline of tf.data (`configs/runs/packed.gin`); here a stream is packed as it
comes, so that nearly all examples keep their place in it, as a curriculum needs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_PATIENCE = 8
Example = list[int]
Row = list[Example]
Sizes = Mapping[str, int]


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
        self._rows: list[Row] = []
        self._free: list[dict[str, int]] = []
        self._room: list[float] = []
        self._closed_since: list[int] = []

    def add(self, example: Example, sizes: Sizes) -> Row | None:
        """Gives an example its row.

        Args:
          example: what to note in the row.
          sizes: tokens of each of its features, none above the length of a row.

        Returns:
          the row that was closed to make room, if any.
        """
        fitting = [
            number
            for number, free in enumerate(self._free)
            if all(sizes[name] <= free[name] for name in sizes)
        ]
        closed = None
        if not fitting:
            if len(self._rows) == self._number:
                closed = self._close()
            self._rows.append([])
            self._free.append(dict(self._lengths))
            self._room.append(1.0)
            self._closed_since.append(0)
            fitting = [len(self._rows) - 1]
        row = self._fullest(fitting)
        self._rows[row].append(example)
        for name, size in sizes.items():
            self._free[row][name] -= size
        self._room[row] = self._share(self._free[row])
        return closed

    def _close(self) -> Row:
        # Rows stand in the order in which they were opened.
        late = self._closed_since[0] >= _PATIENCE * self._number
        row = 0 if late else self._fullest(range(self._number))
        for of_rows in (self._free, self._room, self._closed_since):
            of_rows.pop(row)
        self._closed_since = [closed + 1 for closed in self._closed_since]
        return self._rows.pop(row)

    def _share(self, free: Sizes) -> float:
        return min(size / self._lengths[name] for name, size in free.items())

    def _fullest(self, rows: Iterable[int]) -> int:
        return min(rows, key=self._room.__getitem__)

    def state(self) -> list[Any]:
        """The open rows, from which `restore` goes on."""
        return [
            [list(row) for row in self._rows],
            [dict(free) for free in self._free],
            list(self._closed_since),
        ]

    def restore(self, state: Sequence[Any]) -> None:
        """Takes over what `state` returned."""
        rows, free, closed_since = state
        self._rows = [list(row) for row in rows]
        self._free = [
            {name: int(each[name]) for name in self._lengths} for each in free
        ]
        self._room = [self._share(each) for each in self._free]
        self._closed_since = [int(closed) for closed in closed_since]
