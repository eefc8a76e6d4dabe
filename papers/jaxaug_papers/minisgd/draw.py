"""Random choices that are the same on every Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random choices that depend on the seed text alone.

    Only `random()` is used: Python promises its sequence across versions, and makes
    no such promise for `choice`, `sample` or `shuffle`.
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
