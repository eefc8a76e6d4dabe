"""Values that chat messages and dialogue states share: contents, calls, arguments."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown

SPEAKERS = {"user": "USER", "assistant": "SYSTEM"}
"""Maps the roles that speak in a dialogue to speakers of SGD."""
ROLES = (*SPEAKERS, "system", "developer", "tool", "function")
_SHOWN = 20
_FLAGS = {"true": True, "false": False}


def role_and_content(message: Any, where: str) -> tuple[str, str]:
    """Returns the role of a message and its text.

    Args:
        message: object with `role` and `content`. The content is a text, a list of
            parts whose texts are joined, or null.
        where: place of the message, for errors.

    Raises:
        UserError: the role is unknown, or the content has another type.
    """
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        raise UserError(
            f"{where}: expected an object with a role of {', '.join(ROLES)}, got "
            f"{shown(message)}."
        )
    content = message.get("content")
    if isinstance(content, list):
        content = " ".join(
            one["text"]
            for one in content
            if isinstance(one, dict) and isinstance(one.get("text"), str)
        )
    if content is not None and not isinstance(content, str):
        raise UserError(f"{where}: content: expected a text, got {shown(content)}.")
    return role, content or ""


def calls_in(message: Mapping[str, Any], where: str) -> list[Any]:
    """Returns the tool calls of a message, including the older `function_call`.

    Raises:
        UserError: they are no list, or the message is not by the assistant.
    """
    calls = message.get("tool_calls") or []
    older = message.get("function_call")
    if not isinstance(calls, list) or (
        (calls or older) and message.get("role") != "assistant"
    ):
        raise UserError(
            f"{where}: tool_calls of the role {message.get('role')}: "
            f"{shown(calls or older)}. Only the assistant calls tools; write a list."
        )
    return [*calls, older] if older else calls


def call_of(call: Any, where: str) -> tuple[str, dict[str, Any]]:
    """Returns the name and the arguments of a tool call.

    Args:
        call: object with `name` and `arguments`, or with `function` that has them. The
            arguments are an object or its JSON text; they may be empty, null, or
            missing.
        where: place of the call, for errors.

    Raises:
        UserError: the name is missing, or the arguments are not a JSON object.
    """
    inner = call.get("function") if isinstance(call, dict) else None
    inner = inner if isinstance(inner, dict) else call
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str):
        raise UserError(
            f"{where}: expected an object with name and arguments, got {shown(call)}."
        )
    arguments = given = inner.get("arguments")
    try:
        if isinstance(given, str):
            arguments = json_reader.decoded(given) if given.strip() else None
        if arguments is None:
            return name, {}
    except json_reader.JsonError:
        pass
    if not isinstance(arguments, dict):
        raise UserError(
            f"{where}: the arguments of {name} are no JSON object: {shown(given)}. "
            'Write an object or its JSON text, such as {"city": "Paris"}.'
        )
    return name, arguments


def put(
    place: dict[str, Any], slot: str, value: str | None, schema: Mapping[str, Any]
) -> None:
    """Sets an argument; a dotted slot name sets a property of a nested object.

    Args:
        place: arguments to change.
        slot: name of the slot.
        value: value of the slot; it gets the type that the schema declares. None
            becomes null.
        schema: JSON Schema of the arguments.
    """
    properties = schema.get("properties") or {}
    first, dot, rest = slot.partition(".")
    if slot not in properties and dot and first in properties:
        put(place.setdefault(first, {}), rest, value, properties[first])
        return
    inner = properties.get(slot)
    kind = inner.get("type") if isinstance(inner, Mapping) else None
    place[slot] = value if value is None else _typed(value, kind)


def _typed(value: str, kind: Any) -> Any:
    """Converts a value to its declared type; returns the text if that fails."""
    if kind == "boolean":
        return _FLAGS.get(value.casefold(), value)
    try:
        if kind == "integer":
            return int(value)
        return float(value) if kind == "number" else value
    except ValueError:
        return value


def tell(counts: Counter[str], what: str) -> None:
    """Prints a line for each kind of place that a conversion lost, if there is one."""
    lost = +counts
    if lost:
        print(f"{what}:")
    for name, number in lost.most_common(_SHOWN):
        print(f"  {name}: {number:,}")
    if len(lost) > _SHOWN:
        print(f"  ... and {len(lost) - _SHOWN:,} further kinds")
