"""Converts configs of experiments, mappings of fields, to checked dataclasses."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import ml_collections

from jaxaug.core import config_file, typed
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.ranges import Range
from jaxaug.core.suggestion import suggestion

T = TypeVar("T")
Count = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, 0.999)]
Above = Annotated[float, Range(0, above=True)]


def made_all(
    config: ml_collections.ConfigDict | Mapping[str, Any], parts: Mapping[str, type]
) -> dict[str, Any]:
    """Returns the fields of a config, with the items of `parts` as dataclasses.

    Raises:
        UserError: the config is not a mapping, or an item is invalid.
    """
    fields = config_file.fields_of(config)
    for name, kind in parts.items():
        items = fields.get(name, ())
        if not isinstance(items, list | tuple):
            raise UserError(f"{name}={shown(items)}: expected a tuple of mappings.")
        fields[name] = tuple(made(kind, item, name) for item in items)
    return fields


def made(kind: type[T], fields: Mapping[str, Any], where: str) -> T:
    """Returns a dataclass with the checked fields of a config; lists become tuples."""
    if isinstance(fields, ml_collections.ConfigDict):
        fields = fields.to_dict()
    if not isinstance(fields, Mapping):
        raise UserError(f"{where}: {shown(fields)}: expected a mapping of fields.")
    known: Sequence[dataclasses.Field] = dataclasses.fields(kind)  # type: ignore[arg-type]
    names = [item.name for item in known]
    for name in fields:
        if name not in names:
            raise UserError(f"{where}: no field {name!r}; {suggestion(name, names)}")
    for item in known:
        needed = item.default is item.default_factory is dataclasses.MISSING
        if needed and item.name not in fields:
            raise UserError(f"{where}: the field {item.name!r} is missing.")
    return typed.made(kind, fields, where)
