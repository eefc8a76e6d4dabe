"""Which examples share a row, where more than one row is open at a time.

SeqIO fills one row after the other: what does not fit any more ends the row. For
examples of half a row's length that leaves a third of every row empty. Our T5X packs whole
windows of a pipeline of tf.data (`configs/runs/packed.gin`); here a stream is packed as it
comes, so that nearly all examples keep their place in it, as a curriculum needs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Example = list[int]
Row = list[Example]
Sizes = Mapping[str, int]


class OpenRows:
    """Best fit with a bounded number of bins: online bin packing in two dimensions.

    An example goes to the fullest row that has room for it. Where none has, the fullest
    of all rows is closed and a new one opened.

    How long a row stays open has no bound: one that can take nothing more because its
    targets are full is not closed while others have more inputs. Of MiniSGD's originals
    and tree variants 99% of the rows are closed before another 400 are. With inputs a
    third as long, so that targets are the limit, most open rows come to wait for
    thousands of examples: give targets more room there.
    """

    def __init__(self, lengths: Sizes, number: int):
        """Opens the first row.

        Args:
          lengths: tokens of each feature in a row; the first one says how full a row is.
          number: rows that are open at a time.
        """
        self._lengths, self._number = dict(lengths), number
        self._main = next(iter(lengths))
        self._rows: list[Row] = []
        self._free: list[dict[str, int]] = []

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
                fullest = self._fullest(range(self._number))
                closed = self._rows.pop(fullest)
                self._free.pop(fullest)
            self._rows.append([])
            self._free.append(dict(self._lengths))
            fitting = [len(self._rows) - 1]
        row = self._fullest(fitting)
        self._rows[row].append(example)
        for name, size in sizes.items():
            self._free[row][name] -= size
        return closed

    def _fullest(self, numbers: Sequence[int]) -> int:
        return min(numbers, key=lambda number: self._free[number][self._main])

    def state(self) -> list[Any]:
        """The open rows, from which `restore` goes on."""
        return [[list(row) for row in self._rows], [dict(free) for free in self._free]]

    def restore(self, state: Sequence[Any]) -> None:
        """Takes over what `state` returned."""
        rows, free = state
        self._rows = [list(row) for row in rows]
        self._free = [
            {name: int(each[name]) for name in self._lengths} for each in free
        ]
