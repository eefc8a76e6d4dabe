"""Converts SGD slots to the schema of a tool's arguments.

the slot address.city, the slot orders[].number
->  {"properties": {"address": {"type": "object", "properties": {"city": {...}}},
                     "orders": {"type": "array", "items": {...}}}}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.data.schema import Slot
from jaxaug.formats.json_tools import object_schema, string_property
from jaxaug.schemas.catalogue import DONTCARE, FLAG


def object_of(
    slots: Sequence[Slot], required: Sequence[str], optional: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the schema of an object with these slots; inverts `arguments`.

    Dotted names become nested objects, and `[]` before a dot an array of objects. A
    dotted name stays if one of its parts is empty or if a prefix is the name of another
    slot.
    """
    made = object_schema({})
    names = {slot.name for slot in slots}
    paths = {slot.name: _path(slot.name, names) for slot in slots}
    for slot in slots:
        *above, last = paths[slot.name]
        place = made
        for part in above:
            place = _inside(place, part)
        own = _property(slot, optional.get(slot.name))
        old = place["properties"].get(last, {})
        place["properties"][last] = own | {
            k: old[k] for k in ("type", "items") if k in old
        }
    for name in required:
        place = made
        for part in paths[name]:
            key = part.removesuffix("[]") if part != paths[name][-1] else part
            if key not in place.setdefault("required", []):
                place["required"].append(key)
            place = place["properties"][key]
            place = place.get("items", place)
    return made


def _path(name: str, names: set[str]) -> list[str]:
    parts = name.split(".")
    above = (".".join(parts[:length]) for length in range(1, len(parts)))
    is_whole = not all(parts) or any(one in names or one == "[]" for one in above)
    return [name] if is_whole else parts


def _inside(place: dict[str, Any], part: str) -> dict[str, Any]:
    """Returns the schema of a nested object, which is made if it is missing."""
    if not part.endswith("[]"):
        return place["properties"].setdefault(part, object_schema({}))
    array = place["properties"].setdefault(part[:-2], {})
    if "items" not in array:
        array |= {"type": "array", "items": object_schema({})}
    return array["items"]


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
