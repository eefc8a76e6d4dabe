"""Random choices that do not depend on the version of Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random choices that depend only on the seed text.

    They are based on `random()`, whose sequence Python guarantees across versions.
    `choice`, `sample`, and `shuffle` have no such guarantee.
    """

    def __init__(self, seed: str):
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        rest = list(items)
        count = min(count, len(rest))
        return [rest.pop(int(self._random() * len(rest))) for _ in range(count)]
