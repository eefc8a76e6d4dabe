"""Bounds of numbers in annotations; this module imports quickly."""

import math
import types
import typing
from typing import Annotated, Any, NamedTuple

MAX_SEED = 2**32 - 1
"""Largest seed. JAX keeps 32 bits of a seed, so a larger one would equal a smaller one.
"""


class Range(NamedTuple):
    """Bounds of a number or of a tuple's numbers; `above` excludes the minimum."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False

    def fits(self, value: Any) -> bool:
        """Returns whether a number, or each number of a sequence, is in the range."""
        values = value if isinstance(value, list | tuple) else [value]
        return all(
            self.least <= one <= self.most and not (self.above and one == self.least)
            for one in values
        )

    def __str__(self) -> str:
        """Returns the end of "a number", such as `from 0 to 1`."""
        least, most = map(_figure, self[:2])
        if self.above:
            return f"above {least}" + (
                f", at most {most}" if self.most < math.inf else ""
            )
        if self.most < math.inf:
            return f"from {least} to {most}"
        return f"of at least {least}"


def _figure(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def bare(hint: Any) -> tuple[Any, list[Any]]:
    """Returns the type of an annotation without `None`, and the notes on it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        kind, notes = bare(parts[0])
        return kind, [*notes, *parts[1:]]
    if origin in (types.UnionType, typing.Union):
        return bare(next(one for one in parts if one is not types.NoneType))
    return hint, []
