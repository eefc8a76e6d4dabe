"""Chats with tools for a tracker: requests, messages, and calls that states make.

A tracker predicts the state of each tool after the last message of the user. It calls a
tool once the conversation has given all of its required arguments. Requests and answers
have the form of the chat-completions interface.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.suggestion import suggestion
from jaxaug.data.dialogue import Dialogue, Frame, Turn
from jaxaug.data.schema import Intent, Schema
from jaxaug.formats.records import Parsed
from jaxaug.tools import read_tools
from jaxaug.tools.catalogue import ABSENT, DONTCARE, Tool, put_at
from jaxaug.tools.conversations import SPEAKERS, role_and_content
from jaxaug.tools.match import Call
from jaxaug.tools.services import given_slots, without_texts
from jaxaug.track.answers import Prediction
from jaxaug.track.turns import UNKNOWN


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
    tools: Sequence[Tool],
    as_declared: bool = False,
) -> Iterator[Call]:
    """Yields a call for each state that has all required arguments of its tool.

    Args:
        states: maps the name of a service to its predicted state.
        schema: the services of the tools, from `resolved`.
        tools: tools from `resolved`.
        as_declared: whether to leave out a text that has no form in the declared type;
            otherwise it stays a text, so that an evaluation sees the wrong value.
    """
    for service in schema.services:
        state = states.get(service.name)
        known = {one.intent: one for one in tools if one.service == service.name}
        intents = [one for one in service.intents if one.name in known]
        if state is None or not intents:
            continue
        intent = max(intents, key=partial(_fit, state=state))
        tool = known[intent.name]
        arguments = tool.arguments_of(state.slot_values)
        if not as_declared:
            arguments = _with_texts(arguments, tool, state)
        missing = {*intent.required_slots} - state.slot_values.keys()
        if arguments and not missing and not tool.lacking(arguments):
            yield Call(tool.name, arguments)


def closest(states: Mapping[str, Parsed], tools: Sequence[Tool]) -> list[Call]:
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
    return [Call(best.name, best.arguments_of(state.slot_values))]


def _with_texts(made: dict[str, Any], tool: Tool, state: Parsed) -> dict[str, Any]:
    """Adds the texts without a form in the declared type to the arguments of a call."""
    for one in tool.arguments:
        text = next(iter(state.slot_values.get(one.slot, ())), DONTCARE)
        is_plain = one.values is None and None not in one.path
        if is_plain and text != DONTCARE and one.cast(text) is ABSENT:
            put_at(made, one.path, text)
    return made


def _fit(intent: Intent, state: Parsed) -> tuple[bool, int]:
    """Returns whether an intent is active, and how well it fits the filled slots."""
    filled, known = state.slot_values.keys(), {*given_slots(intent)}
    is_active = intent.name == state.active_intent
    return is_active, len(filled & known) - len(filled - known)


MODEL = {"id": "tracker", "object": "model", "created": 0, "owned_by": "jaxaug"}
"""The model of the server; requests may give any name."""
_MODES = ("auto", "none", "required")
_MOST_CHOICES = 128


class Asked(NamedTuple):
    """A request for tool calls.

    Attributes:
        schema: schema of the tools.
        tools: tools of the request that may be called, resolved.
        dialogues: the conversation; empty if no call is wanted.
        is_required: whether at least one tool must be called.
        most: maximum number of calls; None means no limit.
        choices: number of choices.
        is_older: whether the request has `functions` instead of `tools`.
    """

    schema: Schema
    tools: tuple[Tool, ...]
    dialogues: list[Dialogue]
    is_required: bool = False
    most: int | None = None
    choices: int = 1
    is_older: bool = False


def parsed(body: bytes) -> Any:
    """Returns the JSON value of a request.

    Raises:
        UserError: the body is no JSON in UTF-8.
    """
    try:
        return json_reader.decoded(body)
    except json_reader.JsonError as error:
        raise UserError(
            f"the request is no JSON in UTF-8: {error}. Send one JSON object."
        ) from None


def read(body: bytes) -> Asked:
    """Reads a request; ignores fields that a tracker does not use.

    A call is predicted if the last message is by the user, or if the request requires
    one.

    Raises:
        UserError: messages or tools are missing or malformed, a field has a wrong
            value, or the request wants a stream.
    """
    asked = parsed(body)
    if not isinstance(asked, dict):
        raise UserError("the request is no JSON object. Send one.")
    if asked.get("stream"):
        raise UserError("stream: answers come whole. Leave it out.")
    tools: Any = asked.get("tools")
    messages: Any = asked.get("messages")
    count = 1 if asked.get("n") is None else asked["n"]
    if type(count) is not int or not 1 <= count <= _MOST_CHOICES:
        raise UserError(
            f"n: expected a number from 1 to {_MOST_CHOICES}, got {shown(count)}."
        )
    choice = asked.get("tool_choice")
    functions: Any = asked.get("functions")
    is_older = not tools and isinstance(functions, list)
    if is_older:
        tools = [{"type": "function", "function": one} for one in functions]
        choice = asked.get("function_call")
    if not isinstance(tools, list) or not tools:
        raise UserError("tools: is missing or empty. Name the tools to call.")
    schema, found = resolved(tools)
    mode, names = _choice(choice, found)
    may_be_called = tuple(one for one in found if names is None or one.name in names)
    services = {one.service: None for one in may_be_called}
    schema = Schema(tuple(schema.service(name) for name in services))
    dialogue = dialogue_of(messages, list(services))
    is_asked = mode == "required" or messages[-1]["role"] == "user"
    is_single = is_older or asked.get("parallel_tool_calls") is False
    return Asked(
        schema,
        may_be_called,
        [dialogue] if is_asked and mode != "none" else [],
        mode == "required",
        1 if is_single else None,
        count,
        is_older,
    )


def _choice(choice: Any, tools: Sequence[Tool]) -> tuple[str, list[str] | None]:
    """Returns "auto", "none" or "required", and names of tools; None means all."""
    if choice is None or choice in _MODES:
        return choice or "auto", None
    mode: Any = "required"
    chosen: Any = [choice]
    inner = choice.get("allowed_tools") if isinstance(choice, dict) else None
    if isinstance(inner, dict):
        mode, chosen = inner.get("mode", "auto"), inner.get("tools")
    if mode not in _MODES or not isinstance(chosen, list) or not chosen:
        raise _wrong_choice(choice)
    names = [_name(one) for one in chosen]
    known = {one.name: one for one in tools}
    for name in names:
        if name is None:
            raise _wrong_choice(choice)
        if name not in known:
            raise UserError(
                f"tool_choice: {shown(name)} is no function of the request; "
                f"{suggestion(name, known)}"
            )
    return mode, [name for name in names if name]


def _name(choice: Any) -> str | None:
    inner = choice.get("function", choice) if isinstance(choice, dict) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else None


def _wrong_choice(choice: Any) -> UserError:
    return UserError(
        f"tool_choice: expected {', '.join(_MODES)}, or an object with type and "
        f"function.name, got {shown(choice)}."
    )


def answer(
    asked: Asked, predictions: Sequence[Prediction], usage: tuple[int, int]
) -> str:
    """Returns the answer to a request as JSON.

    Args:
        asked: the request.
        predictions: predicted states of `asked.dialogues`.
        usage: number of tokens of the inputs and of the outputs.
    """
    states = {f.service: f.state for one in predictions for f in one.frames}
    found = [*calls_of(states, asked.schema, asked.tools, as_declared=True)]
    if asked.is_required and not found:
        found = closest(states, asked.tools)
    called = "function_call" if asked.is_older else "tool_calls"
    told = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL["id"],
        "choices": [
            {
                "index": index,
                "finish_reason": called if found else "stop",
                "logprobs": None,
                "message": _message(found[: asked.most], asked.is_older),
            }
            for index in range(asked.choices)
        ],
        "usage": {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        },
    }
    return json.dumps(told, ensure_ascii=False, allow_nan=False)


def _message(calls: Sequence[Call], is_older: bool) -> Mapping[str, Any]:
    functions = [
        {
            "name": one.name,
            "arguments": json.dumps(one.arguments, ensure_ascii=False, allow_nan=False),
        }
        for one in calls
    ]
    message: dict[str, Any] = {"role": "assistant", "refusal": None, "content": None}
    if not calls:
        return message | {"content": ""}
    if is_older:
        return message | {"function_call": functions[0]}
    return message | {
        "tool_calls": [
            {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": one}
            for one in functions
        ]
    }
