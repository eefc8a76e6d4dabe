"""Regular languages over bytes: built from parts, then made deterministic.

  words = Parts()
  machine = words.machine(words.sequence(words.literal(b"a="), words.choice(...)))

A part is the (first state, last state) of a nondeterministic machine. `machine`
converts it to a deterministic one (Rabin and Scott, 1959).
"""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

DEAD = -1
Part = tuple[int, int]


class Machine(NamedTuple):
    """A deterministic machine.

    Attributes:
        moves: [states, 256], the state after a byte, or `DEAD`.
        accepting: [states], whether a text may end there.
        starts: the state before the first byte of each language.
    """

    moves: Int[np.ndarray, "states 256"]
    accepting: Bool[np.ndarray, " states"]
    starts: tuple[int, ...]

    def accepts(self, text: bytes, start: int = 0) -> bool:
        """Returns whether `text` is in the language with number `start`."""
        state = self.starts[start]
        for byte in text:
            state = int(self.moves[state, byte])
            if state == DEAD:
                return False
        return bool(self.accepting[state])


class Parts:
    """Parts of languages, and the states they consist of."""

    def __init__(self) -> None:
        self._free: list[list[int]] = []  # Moves that read nothing.
        # Moves as (first byte, last byte, state).
        self._moves: list[list[tuple[int, int, int]]] = []

    def state(self) -> int:
        """Returns a new state."""
        self._free.append([])
        self._moves.append([])
        return len(self._free) - 1

    def join(self, before: int, after: int) -> None:
        """Allows `after` to follow `before` without a byte."""
        self._free[before].append(after)

    def move(self, before: int, low: int, high: int, after: int) -> None:
        """Allows `after` to follow `before` with a byte from `low` to `high`."""
        self._moves[before].append((low, high, after))

    def literal(self, text: bytes) -> Part:
        """Returns a part for exactly this text."""
        first = last = self.state()
        for byte in text:
            after = self.state()
            self._moves[last].append((byte, byte, after))
            last = after
        return first, last

    def sequence(self, *parts: Part) -> Part:
        """Returns the concatenation of parts."""
        for (_, before), (after, _) in itertools.pairwise(parts):
            self.join(before, after)
        return parts[0][0], parts[-1][1]

    def choice(self, parts: Iterable[Part]) -> Part:
        """Returns a choice between parts."""
        first, last = self.state(), self.state()
        for begin, end in parts:
            self.join(first, begin)
            self.join(end, last)
        return first, last

    def machine(self, *languages: Part) -> Machine:
        """Returns the deterministic machine of languages, which share equal states."""
        ends = {end for _, end in languages}
        numbers: dict[frozenset[int], int] = {}
        pending: list[frozenset[int]] = []

        def number(states: Iterable[int]) -> int:
            closed = self._closed(states)
            if closed not in numbers:
                numbers[closed] = len(numbers)
                pending.append(closed)
            return numbers[closed]

        starts = tuple(number([first]) for first, _ in languages)
        rows: list[np.ndarray] = []
        while len(rows) < len(pending):
            rows.append(self._row(pending[len(rows)], number))
        accepting = np.array([not ends.isdisjoint(states) for states in pending])
        return Machine(np.stack(rows), accepting, starts)

    def _row(
        self, states: frozenset[int], number: Callable[[Iterable[int]], int]
    ) -> np.ndarray:
        moves = [move for state in states for move in self._moves[state]]
        # Between two adjacent edges all bytes have the same moves.
        edges = sorted({0, 256, *(m[0] for m in moves), *(m[1] + 1 for m in moves)})
        row = np.full(256, DEAD, np.int32)
        for low, high in itertools.pairwise(edges):
            after = [to for first, last, to in moves if first <= low <= last]
            if after:
                row[low:high] = number(after)
        return row

    def _closed(self, states: Iterable[int]) -> frozenset[int]:
        found, pending = set(states), list(states)
        while pending:
            for state in self._free[pending.pop()]:
                if state not in found:
                    found.add(state)
                    pending.append(state)
        return frozenset(found)
