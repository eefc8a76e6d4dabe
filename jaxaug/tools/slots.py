"""Converts SGD slots to the schema of a tool's arguments.

the slot address.city, the slot orders[].number
->  {"properties": {"address": {"type": "object", "properties": {"city": {...}}},
                     "orders": {"type": "array", "items": {...}}}}
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.data.schema import Slot
from jaxaug.formats.json_tools import object_schema, string_property
from jaxaug.tools.catalogue import DONTCARE, FLAG, Path


def object_of(
    slots: Sequence[Slot], required: Sequence[str], optional: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the schema of an object with these slots; inverts `arguments`.

    Dotted names become nested objects, and `[]` before a dot an array of objects. A
    dotted name stays if one of its parts is empty or if a prefix is the name of another
    slot.
    """
    made = object_schema({})
    places = paths([slot.name for slot in slots])
    for slot in slots:
        place, last = _inside(made, places[slot.name])
        own = _property(slot, optional.get(slot.name))
        old = place["properties"].get(last, {})
        place["properties"][last] = own | {
            key: old[key] for key in ("type", "items") if key in old
        }
    for name in required:
        place = made
        for part in filter(None, places[name]):
            if part not in place.setdefault("required", []):
                place["required"].append(part)
            place = place["properties"][part]
            place = place.get("items", place)
    return made


def paths(names: Sequence[str]) -> dict[str, Path]:
    """Returns the place of each slot in the arguments object."""
    known = {*names}
    made: dict[str, Path] = {}
    for name in names:
        parts = name.split(".")
        above = (".".join(parts[:length]) for length in range(1, len(parts)))
        if not all(parts) or any(one in known or one == "[]" for one in above):
            made[name] = (name,)
            continue
        *outer, last = parts
        made[name] = ()
        for part in outer:
            is_array = part.endswith("[]")
            made[name] += (part[:-2], None) if is_array else (part,)
        made[name] += (last,)
    return made


def _inside(place: dict[str, Any], path: Path) -> tuple[dict[str, Any], str]:
    """Returns the schema of the object that holds a slot, and its name there."""
    for part, following in itertools.pairwise(path):
        if part is None:
            continue
        if following is None:
            array = place["properties"].setdefault(part, {})
            if "items" not in array:
                array |= {"type": "array", "items": object_schema({})}
            place = array["items"]
        else:
            place = place["properties"].setdefault(part, object_schema({}))
    return place, str(path[-1])


def _property(slot: Slot, default: str | None) -> dict[str, Any]:
    is_flag = slot.is_categorical and slot.possible_values == FLAG
    schema = string_property(
        slot.description,
        slot.possible_values if slot.is_categorical and not is_flag else (),
    )
    if is_flag:
        schema["type"] = "boolean"
    elif slot.possible_values and not slot.is_categorical:
        schema["examples"] = list(slot.possible_values)
    if default is not None and default != DONTCARE:
        schema["default"] = (
            default == "True" if is_flag and default in FLAG else default
        )
    return schema
