"""A config.json as a table for both the reader and the writer of a family."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from jaxaug.models import layers
from jaxaug.models.weights import hf_config

REQUIRED = object()
"""Default of a field that every config.json must have."""


def same(value: Any) -> Any:
    """Returns the value."""
    return value


def or_zero(value: Any) -> Any:
    """Returns an id; 0 for null and for -1, which means none too."""
    return value if value and value != -1 else 0


def activation(name: str) -> str:
    """Returns the name of an activation; raises `UserError` if it is unknown."""
    layers.activation(name)
    return name


class Field(NamedTuple):
    """One option of a family.

    Attributes:
        theirs: key in config.json.
        ours: field of the family's `Config`.
        default: value if config.json lacks the key.
        read: converts their value to ours.
        written: converts our value to theirs.
    """

    theirs: str
    ours: str
    default: Any = REQUIRED
    read: Callable[[Any], Any] = same
    written: Callable[[Any], Any] = same


def read(table: Iterable[Field], config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a `Config` from the contents of config.json.

    Raises:
        UserError: required keys are missing, or a number is too large.
    """
    hf_config.require_keys(
        config, [field.theirs for field in table if field.default is REQUIRED]
    )
    with hf_config.complete():
        return {
            field.ours: field.read(config.get(field.theirs, field.default))
            for field in table
        }


def written(table: Iterable[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the contents of config.json from `Config` fields; inverts `read`."""
    return {field.theirs: field.written(values[field.ours]) for field in table}
