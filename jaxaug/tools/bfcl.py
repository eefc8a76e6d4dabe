"""Records of the Berkeley Function Calling Leaderboard (BFCL).

Source of the format: https://github.com/ShishirPatil/gorilla, folder
`berkeley-function-call-leaderboard`. In its dialogues, tools are Python classes that
the leaderboard executes, and the right calls are Python texts. Nothing is executed
here, so only turns that need no result of a tool can be scored.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxaug.tools.match import ABSENT, Accepted, plain
from jaxaug.tools.services import UNFIT
from jaxaug.tools.views import rewritten, with_texts

# Types that have another name in JSON Schema.
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_KNOWN_TYPES = {"object", "number", "array", "string", "integer", "boolean", "null"}
FUNCTIONS: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system.json",
    "MathAPI": "math_api.json",
    "MessageAPI": "message_api.json",
    "TicketAPI": "ticket_api.json",
    "TradingBot": "trading_bot.json",
    "TravelAPI": "travel_booking.json",
    "TwitterAPI": "posting_api.json",
    "VehicleControlAPI": "vehicle_control.json",
}
"""Maps a class to the file in `multi_turn_func_doc` that describes its functions."""
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_RESULT = "The call succeeded. Its result is not shown."
MISSING: Mapping[str, str] = {
    "missed_function": "the leaderboard's message that offers a tool later",
    "long_context": "long results of tools, which only executed classes return",
}
"""Maps a mark of a kind of dialogue that cannot be read to its missing part."""
NO_CALL, SEVERAL, NEEDS_RESULT = (
    "without a right call",
    "with several steps",
    "with values from results",
)
"""Reasons to leave out a turn."""


def function(given: Any, reworded: Callable[[str], str] = str) -> Any:
    """Returns a function of BFCL as a tool of the chat-completions interface.

    Args:
        given: the function.
        reworded: function from a description to the text that replaces it.
    """
    if not isinstance(given, dict):
        return given

    def typed(made: dict[str, Any]) -> dict[str, Any]:
        if isinstance(kind := made.get("type"), str):
            made["type"] = _TYPES.get(kind, kind)
            if made["type"] not in _KNOWN_TYPES:
                del made["type"]
        return made

    name = UNFIT.sub("_", str(given.get("name")))
    made = rewritten(with_texts(given, reworded), typed)
    return {"type": "function", "function": made | {"name": name}}


def accepted(arguments: Mapping[str, Any]) -> dict[str, Accepted]:
    """Returns the accepted values of arguments, from a possible answer."""
    return rewritten(
        arguments, lambda made: {key: _alternatives(one) for key, one in made.items()}
    )


def _alternatives(values: Any) -> Accepted:
    """Returns accepted values; an empty text makes the argument optional."""
    given = values if isinstance(values, list) else [values]
    optional = (ABSENT, "") if "" in given else ()
    return (*(one for one in given if one != ""), *optional)


class Turn(NamedTuple):
    """A turn of a dialogue that can be scored.

    Attributes:
        number: number of the turn in the dialogue, from 0.
        messages: the conversation up to the turn, with the right calls before it.
        name: name of the function to call.
        accepted: maps an argument to its accepted values.
    """

    number: int
    messages: list[dict[str, Any]]
    name: str
    accepted: dict[str, Accepted]


def turns(
    asked: Sequence[Sequence[dict[str, Any]]],
    answers: Sequence[Sequence[str]],
    functions: Mapping[str, dict[str, Any]],
    left_out: Counter[str],
) -> Iterator[Turn]:
    """Yields the turns with one right call whose values the conversation has.

    Args:
        asked: messages of each turn.
        answers: right calls of each turn, in Python.
        functions: maps the names of the offered functions to them.
        left_out: receives the number of other turns by reason.

    Raises:
        ValueError: a call cannot be read, or the numbers of turns differ.
    """
    if not isinstance(answers, list) or len(asked) != len(answers):
        raise ValueError(
            f"expected the calls of all {len(asked)} turns, got {answers!r:.80}"
        )
    said: list[dict[str, Any]] = []
    values: list[Any] = []  # Of arguments of earlier calls.
    for number, (messages, texts) in enumerate(zip(asked, answers, strict=True)):
        said = [*said, *messages]
        calls = [_call(text, functions) for text in texts]
        if len(calls) != 1:
            left_out[SEVERAL if calls else NO_CALL] += 1
        elif not _is_known(*calls[0], functions, said, values):
            left_out[NEEDS_RESULT] += 1
        else:
            ((name, arguments),) = calls
            told = _properties(functions[name])
            defaults = {
                k: one["default"] for k, one in told.items() if "default" in one
            }
            right: dict[str, Accepted] = {k: (ABSENT, v) for k, v in defaults.items()}
            for key, value in arguments.items():
                own = rewritten(value, lambda made: {k: (v,) for k, v in made.items()})
                is_default = key in defaults and defaults[key] == value
                right[key] = (own, ABSENT) if is_default else (own,)
            yield Turn(number, said, name, right)
        said = [*said, *_history(calls, number)]
        values += [pair for _, one in calls for pair in one.items()]


def _properties(function: Mapping[str, Any]) -> Mapping[str, Any]:
    return function["parameters"]["properties"]


def _call(
    text: str, functions: Mapping[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Returns name and arguments of a call in Python."""
    try:
        made: Any = ast.parse(text, mode="eval").body
        places = _properties(functions[made.func.id])
        values = [*zip(places, made.args, strict=False)]
        values += [(str(one.arg), one.value) for one in made.keywords]
        # Tuples become lists.
        found = {key: ast.literal_eval(value) for key, value in values}
        return made.func.id, json.loads(json.dumps(found))
    except (AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"cannot read the call {text!r}: {error}") from None
    except KeyError:
        raise ValueError(f"no function of the call {text!r}") from None


def _is_known(
    name: str,
    arguments: Mapping[str, Any],
    functions: Mapping[str, dict[str, Any]],
    said: Sequence[Mapping[str, Any]],
    values: Sequence[tuple[str, Any]],
) -> bool:
    """Returns whether the values of a call follow from the conversation.

    A text must stand in a message of the user or in an earlier call, and a number in a
    message or as the same argument of an earlier call. Flags, listed values, and
    defaults stand in the tool.
    """
    told = _properties(functions[name])
    spoken = [str(one.get("content")) for one in said if one["role"] == "user"]
    texts = plain("\n".join([*spoken, *(str(value) for _, value in values)]))
    numbers = {
        float(one.replace(",", "")) for text in spoken for one in _NUMBER.findall(text)
    }

    def is_known(key: str, value: Any, schema: Mapping[str, Any]) -> bool:
        if isinstance(value, list):
            inner = schema.get("items") or {}
            return all(is_known(key, one, inner) for one in value)
        if isinstance(value, dict):
            inner = schema.get("properties") or {}
            return all(is_known(k, v, inner.get(k) or {}) for k, v in value.items())
        if isinstance(value, bool) or value is None:
            return True
        if value in (schema.get("enum") or ()) or schema.get("default") == value:
            return True
        if isinstance(value, str):
            return plain(value) in texts
        return abs(value) in numbers or (key, value) in values

    return all(is_known(k, v, told.get(k) or {}) for k, v in arguments.items())


def _history(
    calls: Sequence[tuple[str, dict[str, Any]]], number: int
) -> Iterator[dict[str, Any]]:
    """Yields the messages of right calls; their results are unknown."""
    if not calls:
        return
    made = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(calls)
    ]
    yield {"role": "assistant", "content": None, "tool_calls": made}
    for one in made:
        yield {"role": "tool", "tool_call_id": one["id"], "content": _RESULT}
