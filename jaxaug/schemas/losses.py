"""Losses of a conversion, found by converting back and comparing.

A loss is a place with the value that was there, and the value that stands there after
the round trip. `restored` puts the former back if the latter is unchanged, so texts
that were reworded in between stay reworded.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxaug.core.errors import UserError
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
        # 1 and True are equal in Python but not in JSON.
        if type(before) is not type(after) or before != after:
            yield Loss(path, before, after)
        return
    for key in {**before, **after}:
        left, right = before.get(key, ABSENT), after.get(key, ABSENT)
        yield from differences(left, right, (*path, key))


def restored(value: dict[str, Any], losses: Sequence[Loss]) -> tuple[dict, list[Loss]]:
    """Restores the original values of losses.

    Args:
        value: JSON value of nested objects, such as the result of the round trip.
        losses: losses to restore.

    Returns:
        A copy of the value with restored losses, and the losses that were not restored
        because their place is missing or has changed.
    """
    value = copy.deepcopy(value)
    left = []
    for loss in losses:
        *above, last = loss.path
        place: Any = value
        for key in above:
            place = place.get(key) if isinstance(place, dict) else None
        if not isinstance(place, dict) or not _same(
            place.get(last, ABSENT), loss.becomes
        ):
            left.append(loss)
        elif loss.value is ABSENT:
            del place[last]
        else:
            place[last] = copy.deepcopy(loss.value)
    return value, left


def _same(one: Any, two: Any) -> bool:
    return next(differences(one, two), None) is None


def read(data: Any, path: str) -> list[Loss]:
    """Returns the losses of a parsed file that `jaxaug schema import --losses` wrote.

    Raises:
        UserError: the file has another format.
    """
    items = data.get("losses") if isinstance(data, Mapping) else None
    names = data.get("names") if isinstance(data, Mapping) else None
    if not (isinstance(items, list) and all(map(_is_loss, items)) and _is_names(names)):
        raise UserError(
            f"{path}: is no file of losses, expected one that `jaxaug schema import "
            "--losses` writes. Import the document again with --losses."
        )
    return [
        Loss(
            tuple(item["path"]),
            item.get("value", ABSENT),
            item.get("becomes", ABSENT),
        )
        for item in items
    ]


def _is_names(names: Any) -> bool:
    """Returns whether a value is a list of services with three lists of names each."""
    return isinstance(names, list) and all(
        isinstance(service, list)
        and len(service) == 3
        and all(isinstance(part, list) for part in service)
        and {type(name) for part in service for name in part} <= {str}
        for service in names
    )


def _is_loss(item: Any) -> bool:
    path = item.get("path") if isinstance(item, dict) else None
    return bool(path) and isinstance(path, list) and all(type(k) is str for k in path)
