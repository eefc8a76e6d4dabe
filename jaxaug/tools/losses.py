"""Losses of a conversion, found by converting back and comparing.

A loss is a place with the value that was there, and the value that stands there after
the round trip.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxaug.core.files import shown


class _Absent:
    """The type of the value of a place that does not exist."""


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Loss:
    """A place that a round trip changes.

    Attributes:
        path: keys from the outermost value inward.
        value: original value; `ABSENT` if the round trip adds a value.
        becomes: value after the round trip; `ABSENT` if the value is dropped.
    """

    path: tuple[str, ...]
    value: Any
    becomes: Any

    def __str__(self) -> str:
        place = "/".join(self.path)
        if self.becomes is ABSENT:
            return f"dropped {place}: {shown(self.value)}"
        if self.value is ABSENT:
            return f"added {place}: {shown(self.becomes)}"
        return f"changed {place}: {shown(self.value)} to {shown(self.becomes)}"

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object of a loss in a file of losses."""
        record: dict[str, Any] = {"path": list(self.path)}
        record |= {} if self.value is ABSENT else {"value": self.value}
        return record | ({} if self.becomes is ABSENT else {"becomes": self.becomes})


def differences(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Loss]:
    """Yields the places where two JSON values differ; the order of keys is ignored."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if not same(before, after):
            yield Loss(path, before, after)
        return
    for key in {**before, **after}:
        left, right = before.get(key, ABSENT), after.get(key, ABSENT)
        yield from differences(left, right, (*path, key))


def same(one: Any, two: Any) -> bool:
    """Returns whether two JSON values are equal; the order of keys is ignored.

    1 and 1.0 are equal, but 1 and True, which Python calls equal, are not.
    """
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return isinstance(one, bool) == isinstance(two, bool) and one == two
