"""Reads requests and writes answers of the chat-completions interface."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.suggestion import suggestion
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.schema import Schema
from jaxaug.tools import chat
from jaxaug.tools.catalogue import Tool
from jaxaug.track.answers import Prediction

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
    count = asked.get("n")
    count = 1 if count is None else count
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
    schema, found = chat.resolved(tools)
    mode, names = _choice(choice, found)
    may_be_called = tuple(one for one in found if names is None or one.name in names)
    services = {one.service: None for one in may_be_called}
    schema = Schema(tuple(schema.service(name) for name in services))
    dialogue = chat.dialogue_of(messages, list(services))
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
    found = [*chat.calls_of(states, asked.schema, asked.tools, as_declared=True)]
    if asked.is_required and not found:
        found = chat.closest(states, asked.tools)
    told = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL["id"],
        "choices": [
            {
                "index": index,
                "finish_reason": _reason(found, asked.is_older),
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


def _reason(calls: Sequence[chat.ToolCall], is_older: bool) -> str:
    if not calls:
        return "stop"
    return "function_call" if is_older else "tool_calls"


def _message(calls: Sequence[chat.ToolCall], is_older: bool) -> Mapping[str, Any]:
    functions = [
        {
            "name": one.name,
            "arguments": json.dumps(one.arguments, ensure_ascii=False, allow_nan=False),
        }
        for one in calls
    ]
    message: dict[str, Any] = {"role": "assistant", "refusal": None}
    if not calls:
        return message | {"content": ""}
    message["content"] = None
    if is_older:
        return message | {"function_call": functions[0]}
    return message | {
        "tool_calls": [
            {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": one}
            for one in functions
        ]
    }
