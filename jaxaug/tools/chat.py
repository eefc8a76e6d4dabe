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
from jaxaug.tools import read_tools
from jaxaug.tools.catalogue import ABSENT, DONTCARE, Tool
from jaxaug.tools.messages import SPEAKERS, role_and_content
from jaxaug.tools.services import without_texts
from jaxaug.track.turns import UNKNOWN


class ToolCall(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]


def schema_of(tools: Any) -> Schema:
    """Returns the services of a tool list; see `resolved`."""
    return resolved(tools)[0]


def resolved(tools: Any) -> tuple[Schema, tuple[Tool, ...]]:
    """Returns the services of a tool list of the chat-completions interface.

    Args:
        tools: parsed JSON. Tools that are no functions are left out.

    Returns:
        The schema, and the tool of each of its intents.

    Raises:
        UserError: the list has no function or breaks the rules of its format.
    """
    if isinstance(tools, list):
        tools = [one for one in tools if _is_function(one)]
        if not tools:
            raise UserError(
                "tools: none is a function. Give one with the type function."
            )
    found = read_tools(tools, "tools")
    return without_texts(found.schema), tuple(found.tools)


def _is_function(tool: Any) -> bool:
    """Returns whether a tool is a function; malformed tools count as functions."""
    return not isinstance(tool, dict) or tool.get("type") in (None, "function")


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
        if isinstance(one, dict) and one.get("role") == "function":
            continue  # The older form of a result of a tool.
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
    states: Mapping[str, Parsed],
    schema: Schema,
    tools: Sequence[Any],
    as_declared: bool = False,
) -> Iterator[ToolCall]:
    """Yields a call for each state that has all required arguments of its tool.

    Args:
        states: maps the name of a service to its predicted state.
        schema: the services of the tools, from `resolved`.
        tools: tools from `resolved`, or the tool list that it read.
        as_declared: whether to leave out a text that has no form in the declared type;
            otherwise it stays a text, so that an evaluation sees the wrong value.
    """
    if not all(isinstance(tool, Tool) for tool in tools):
        tools = resolved(tools)[1]
    for service in schema.services:
        state = states.get(service.name)
        intents = {one.intent: one for one in tools if one.service == service.name}
        intent = _intent(service, state, intents) if state else None
        if state is None or intent is None:
            continue
        tool = intents[intent.name]
        arguments = tool.arguments_of(state.slot_values)
        if not as_declared:
            arguments = _with_texts(arguments, tool, state)
        missing = {*intent.required_slots} - state.slot_values.keys()
        if arguments and not missing and not tool.lacking(arguments):
            yield ToolCall(tool.name, arguments)


def closest(states: Mapping[str, Parsed], tools: Sequence[Tool]) -> list[ToolCall]:
    """Returns the call that states fit best, even without its required arguments.

    Args:
        states: maps the name of a service to its predicted state.
        tools: tools from `resolved`; the first one counts if no state fits.
    """

    def rank(tool: Tool) -> tuple[bool, int]:
        state = states.get(tool.service) or Parsed({})
        arguments = tool.arguments_of(state.slot_values)
        return state.active_intent == tool.intent, len(arguments)

    best = max(tools, key=rank)
    state = states.get(best.service) or Parsed({})
    return [ToolCall(best.name, best.arguments_of(state.slot_values))]


def _with_texts(made: dict[str, Any], tool: Tool, state: Parsed) -> dict[str, Any]:
    """Adds the texts without a form in the declared type to the arguments of a call."""
    for one in tool.arguments:
        text = next(iter(state.slot_values.get(one.slot, ())), DONTCARE)
        is_plain = one.values is None and None not in one.path
        if is_plain and text != DONTCARE and one.cast(text) is ABSENT:
            place: dict[Any, Any] = made
            for name in one.path[:-1]:
                place = place.setdefault(name, {})
            place[one.path[-1]] = text
    return made


def _intent(
    service: Service, state: Parsed, tools: Mapping[str, Tool]
) -> Intent | None:
    """Returns the active intent; without one, the best fit to the filled slots.

    Args:
        service: service of the intents.
        state: predicted state.
        tools: tools that may be called, by intent.
    """
    filled = state.slot_values.keys()

    def fit(intent: Intent) -> int:
        known = {*intent.required_slots, *dict(intent.optional_slots)}
        return len(filled & known) - len(filled - known)

    intents = [one for one in service.intents if one.name in tools]
    active = [one for one in intents if one.name == state.active_intent]
    return max(active or intents, key=fit, default=None)
