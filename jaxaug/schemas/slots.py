"""Converts the arguments of a tool to SGD slots, and back.

    {"properties": {"address": {"type": "object", "properties": {"city": {...}}}}}
    <->  the slot address.city

A slot is categorical if its values are listed (`enum`, `const`) or if it is true or
false; `examples` become the possible values of a free slot.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxaug.data.schema import Slot
from jaxaug.formats.json_tools import object_schema, string_property

NO_DEFAULT = "dontcare"
"""Default of an optional slot in SGD whose value the service chooses."""
FLAG = ("True", "False")
"""Values of a boolean slot in SGD."""


def leaves(
    schema: Mapping[str, Any], above: str = "", needed: bool = True
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yields the innermost properties of an object.

    Args:
        schema: schema of the object, without references.
        above: prefix for names: the dotted name of the object with a final dot, or
            empty for the outermost object.
        needed: whether the object is required.

    Yields:
        Dotted name, schema, and whether the property and all objects around it are
        required.
    """
    required = required_names(schema)
    for name, inner in schema["properties"].items():
        is_needed = needed and name in required
        if is_object(inner):
            yield from leaves(inner, f"{above}{name}.", is_needed)
        else:
            yield above + name, inner, is_needed


def is_object(schema: Mapping[str, Any]) -> bool:
    """Returns whether a schema describes an object with properties."""
    inside = schema.get("properties")
    return isinstance(inside, dict) and bool(inside) and "$ref" not in schema


def arguments(
    parameters: Mapping[str, Any],
) -> tuple[list[Slot], list[str], dict[str, str]]:
    """Returns the slots of a tool, the required names, and the optional defaults."""
    slots = []
    required, optional = [], {}
    for name, schema, needed in leaves(parameters) if is_object(parameters) else ():
        slots.append(slot(name, schema))
        if needed:
            required.append(name)
        else:
            default = _text(_core(schema).get("default"))
            optional[name] = NO_DEFAULT if default is None else default
    return slots, required, optional


def required_names(schema: Mapping[str, Any]) -> Sequence[str]:
    """Returns the required properties of an object."""
    found = schema.get("required")  # True in drafts of JSON Schema before the fourth.
    return found if isinstance(found, list) else ()


def slot(name: str, schema: Mapping[str, Any]) -> Slot:
    """Returns the slot of an innermost property."""
    core = _core(schema)
    description = core.get("description")
    if not isinstance(description, str) or not description.strip():
        description = words(name)
    kind = core.get("type")
    if isinstance(core.get("enum"), list):
        values = _texts(core["enum"])
    elif "const" in core:
        values = _texts([core["const"]])
    elif kind == "boolean" or (isinstance(kind, list) and "boolean" in kind):
        values = list(FLAG)
    else:
        examples = core.get("examples")
        free = _texts(examples) if isinstance(examples, list) else []
        return Slot(name, description, False, tuple(free))
    return Slot(name, description, bool(values), tuple(values))


def words(name: str) -> str:
    """Returns the words of a name in lower case, to replace a missing description."""
    spaced = [
        f" {c}" if c.isupper() and before.islower() else c
        for before, c in zip(f" {name}", name, strict=False)
    ]
    plain = "".join(c if c.isalnum() else " " for c in "".join(spaced))
    return " ".join(plain.split()).lower() or name


def _core(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a simpler schema: without null, and with constants as one `enum`."""
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        if isinstance(choices, list):
            real = [one for one in choices if one.get("type") != "null"]
            if real and all("const" in one for one in real):
                return {"enum": [one["const"] for one in real], **schema}
            if len(real) == 1:
                return real[0] | schema
    return schema


def _texts(values: Sequence[Any]) -> list[str]:
    texts = [text for text in map(_text, values) if text]
    return list(dict.fromkeys(texts))


def _text(value: Any) -> str | None:
    """Returns a value in SGD's spelling, or None for null, lists, and objects."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def object_of(
    slots: Sequence[Slot], required: Sequence[str], optional: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the schema of an object with these slots; inverts `arguments`.

    Dotted names become nested objects. A dotted name stays if one of its parts is empty
    or if a prefix is the name of another slot.
    """
    made = object_schema({})
    names = {slot.name for slot in slots}
    for slot in slots:
        parts = slot.name.split(".")
        above = (".".join(parts[:length]) for length in range(1, len(parts)))
        if not all(parts) or any(name in names for name in above):
            parts = [slot.name]
        place = made
        for part in parts[:-1]:
            place = place["properties"].setdefault(part, object_schema({}))
        place["properties"][parts[-1]] = _property(slot, optional.get(slot.name))
    for name in required:
        place, parts = made, name.split(".")
        if name in made["properties"]:
            parts = [name]
        for part in parts:
            if part not in place.setdefault("required", []):
                place["required"].append(part)
            place = place["properties"][part]
    return made


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
    if default is not None and default != NO_DEFAULT:
        schema["default"] = (
            default == "True" if is_flag and default in FLAG else default
        )
    return schema
