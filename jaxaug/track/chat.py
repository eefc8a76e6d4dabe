"""Converts chat messages and tools for a tracker, and its states to tool calls.

A tracker predicts the state of each tool after the last message of the user. It calls a
tool once the conversation has given all of its required arguments.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.data.dialogue import Dialogue, Frame, Turn
from jaxaug.data.schema import Intent, Schema, Service
from jaxaug.formats.records import Parsed
from jaxaug.schemas import read_tools
from jaxaug.schemas.messages import SPEAKERS, put, role_and_content
from jaxaug.schemas.services import catalogue_of
from jaxaug.track.turns import UNKNOWN

Tools = Sequence[Mapping[str, Any]]


class ToolCall(NamedTuple):
    """A call of a tool; its arguments have the types that the tool declares."""

    name: str
    arguments: Mapping[str, Any]


def schema_of(tools: Any) -> Schema:
    """Returns the services of a tool list of the chat-completions interface.

    Raises:
        UserError: the list is empty or breaks the rules of its format.
    """
    return read_tools(tools, "tools").schema


def dialogue_of(messages: Any, services: Sequence[str]) -> Dialogue:
    """Returns the dialogue of a chat; its last turn asks for the states of services.

    The dialogue ends with the last message of the user.

    Args:
        messages: objects with `role` and `content`. System messages and results of
            tools are ignored. Consecutive messages of one speaker become one turn.
        services: names of the services whose states are predicted.

    Raises:
        UserError: a message is malformed, or no message is by the user.
    """
    if not isinstance(messages, list):
        raise UserError(f"messages: expected a list of objects, got {shown(messages)}.")
    turns: list[tuple[str, str]] = []
    for number, one in enumerate(messages):
        role, text = role_and_content(one, f"messages: #{number}")
        if role not in SPEAKERS or not text.strip():
            continue
        speaker = SPEAKERS[role]
        if turns and turns[-1][0] == speaker:
            text = f"{turns.pop()[1]} {text}"
        turns.append((speaker, text))
    while turns and turns[-1][0] != "USER":
        turns.pop()
    if not turns:
        raise UserError("messages: none is by the user. Add one with role user.")
    frames = tuple(Frame(name, UNKNOWN) for name in services)
    last = len(turns) - 1
    found = [
        Turn(speaker, text, frames if number == last else ())  # type: ignore[arg-type]
        for number, (speaker, text) in enumerate(turns)
    ]
    return Dialogue("chat", tuple(services), tuple(found))


def calls_of(
    states: Mapping[str, Parsed], schema: Schema, tools: Tools
) -> Iterator[ToolCall]:
    """Yields a call for each state that has all required arguments of its tool.

    Args:
        states: maps the name of a service to its predicted state.
        schema: result of `schema_of` for the tools.
        tools: tool list of the chat-completions interface.
    """
    names = iter(catalogue_of(schema, "openai")["tools"].values())
    told = {_function(tool)["name"]: _function(tool) for tool in tools}
    for service in schema.services:
        of_intents = {intent.name: next(names)["name"] for intent in service.intents}
        state = states.get(service.name)
        intent = _intent(service, state) if state else None
        if state is None or intent is None:
            continue
        known = {*intent.required_slots, *dict(intent.optional_slots)}
        values = {k: v[0] for k, v in state.slot_values.items() if k in known and v}
        if not values or not set(intent.required_slots) <= values.keys():
            continue
        name = of_intents[intent.name]
        parameters = told.get(name, {}).get("parameters") or {}
        arguments: dict[str, Any] = {}
        for slot, value in values.items():
            put(arguments, slot, value, parameters)
        yield ToolCall(name, arguments)


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = tool.get("function")
    return inner if isinstance(inner, Mapping) else tool


def _intent(service: Service, state: Parsed) -> Intent | None:
    """Returns the active intent; without one, the best fit to the filled slots."""
    filled = state.slot_values.keys()

    def fit(intent: Intent) -> int:
        known = {*intent.required_slots, *dict(intent.optional_slots)}
        return len(filled & known) - len(filled - known)

    active = [one for one in service.intents if one.name == state.active_intent]
    return max(active or service.intents, key=fit, default=None)
