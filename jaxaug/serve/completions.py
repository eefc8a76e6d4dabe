"""Reads requests and writes answers of the chat-completions interface."""

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.schema import Schema
from jaxaug.track import chat
from jaxaug.track.answers import Prediction

MODEL = "tracker"
"""Name of the model in answers; requests may give any name."""
MODELS = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "jaxaug"}],
}


class Asked(NamedTuple):
    """A request for tool calls.

    Attributes:
        schema: schema of the tools.
        tools: tools of the request, unchanged.
        dialogues: the conversation; empty if the last message is not by the user.
    """

    schema: Schema
    tools: list[Any]
    dialogues: list[Dialogue]


def read(asked: Any) -> Asked:
    """Reads a request; ignores fields that a tracker does not use.

    Args:
        asked: decoded JSON of the request.

    Raises:
        UserError: messages or tools are missing or malformed, or the request wants a
            stream.
    """
    if not isinstance(asked, dict):
        raise UserError("the request is no JSON object. Send one.")
    if asked.get("stream"):
        raise UserError("stream: answers come whole. Leave it out.")
    tools, messages = asked.get("tools"), asked.get("messages")
    if not isinstance(tools, list) or not tools:
        raise UserError("tools: is missing or empty. Name the tools to call.")
    schema = chat.schema_of(tools)
    names = [service.name for service in schema.services]
    dialogue = chat.dialogue_of(messages, names)
    is_asked = isinstance(messages, list) and messages[-1]["role"] == "user"
    return Asked(schema, tools, [dialogue] if is_asked else [])


def answer(asked: Asked, predictions: Sequence[Prediction]) -> str:
    """Returns the answer to a request as JSON.

    Args:
        asked: the request.
        predictions: predicted states of `asked.dialogues`.
    """
    states = {f.service: f.state for one in predictions for f in one.frames}
    calls = [
        {
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {
                "name": one.name,
                "arguments": json.dumps(one.arguments, ensure_ascii=False),
            },
        }
        for one in chat.calls_of(states, asked.schema, asked.tools)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else ""}
    choice = {
        "index": 0,
        "finish_reason": "tool_calls" if calls else "stop",
        "message": message | ({"tool_calls": calls} if calls else {}),
    }
    told = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [choice],
    }
    return json.dumps(told, ensure_ascii=False)
