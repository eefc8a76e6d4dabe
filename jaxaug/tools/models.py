"""Asks models for calls: a chat model behind an endpoint, or a trained tracker."""

import difflib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.models.endpoint import asking, replies, usage
from jaxaug.models.endpoint.usage import Usage
from jaxaug.paraphrase.endpoint_grid import Setting
from jaxaug.tools import chat
from jaxaug.tools.cases import Case, Message, Tool
from jaxaug.tools.match import ABSENT, Accepted, Call

TOOL_CALLS, TEXT, PROSE, INVALID = "tool_calls", "JSON text", "prose", "invalid"
_START = re.compile(r"[\[{]")
_ROOM = 512  # Tokens of a reply.
_LONGEST = 20_000  # Characters of a content that are read.
_MOST = 1_000  # Calls of a reply that are read, and brackets in a content.
_OWN = {
    "model": "give --model",
    "messages": "they come from the cases",
    "tools": "they come from the cases",
    "stream": "replies are read whole",
    "n": "give --repeats",
}
"""Fields of a request that a user cannot set, and why."""
_JSON = re.compile(r'[\[{"]|(?:NaN|-?Infinity)\Z')
_NEAR = 0.85  # Similarity of a misspelled name to the right one.
_IN_PROMPT = (
    "You may call these tools:\n{}\nTo call tools, answer with a JSON list of objects "
    '{{"name": ..., "arguments": {{...}}}} and nothing else.'
)


class Reply(NamedTuple):
    """The answer of a model.

    Attributes:
        calls: the calls in the answer.
        form: form of the answer. `TOOL_CALLS` for calls in the field of that name,
            `TEXT` for calls in the content, and `PROSE` for other content. `INVALID` if
            the arguments of a call are no JSON object.
    """

    calls: tuple[Call, ...]
    form: str


Model = Callable[[Sequence[Case], Callable[[], Any]], list[Reply]]
"""Function from cases to replies; it calls its second argument after each case."""


@dataclass(frozen=True)
class ToolRequest:
    """A request for tool calls; see `jaxaug.models.endpoint.asking.Asked`."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    seed: int
    parameters: Mapping[str, Any]
    sample: str  # Another sample is another request to the cache.

    def body(self, left_out: AbstractSet[str]) -> dict[str, Any]:
        """Returns the messages and the tools."""
        tools = {"tools": list(self.tools)} if self.tools else {}
        return {"messages": list(self.messages), **tools}

    def read(self, message: Mapping[str, Any]) -> str:
        """Returns content and calls of a message as JSON."""
        names = ("content", "tool_calls", "function_call")
        return json.dumps({name: message.get(name) for name in names})


class ChatModel:
    """A chat model behind an endpoint, with the cache and the limits of `paraphrase`.

    Attributes:
        setting: the server and its options.
        parameters: further fields of the requests; the temperature is 0 by default.
    """

    def __init__(
        self,
        setting: Setting,
        seed: int = 0,
        in_prompt: bool = False,
        fields: Mapping[str, Any] | None = None,
    ):
        """
        Args:
            setting: the server and its options; the prompt and number are not used.
            seed: seed of the server's sampling.
            in_prompt: whether the tools are part of the first message, for models whose
                chat template has no tools.
            fields: further fields of the requests, which the server knows.

        Raises:
            UserError: all requests have one seed although the server samples.
        """
        self.setting, self._seed, self._in_prompt = setting, seed, in_prompt
        defaults = {"max_tokens": _ROOM, "temperature": 0.0}
        if "max_completion_tokens" in (fields or {}):
            del defaults["max_tokens"]
        self.parameters = defaults | setting.options.parameters | dict(fields or {})
        if "seed" in self.parameters and self.parameters["temperature"] != 0:
            raise UserError(
                f"--option seed={self.parameters['seed']}: one seed for all requests "
                "hides the noise of a temperature above 0. Leave it out; --seed sets "
                "the seeds of all requests."
            )

    def __call__(
        self, cases: Sequence[Case], done: Callable[[], Any] = lambda: None
    ) -> list[Reply]:
        """Returns the replies to cases.

        Raises:
            UserError: see `Client.complete`. Earlier replies are kept.
        """
        server = self.setting.server

        def work(case: Case) -> Reply:
            reply = asking.reply(server, self._request(case))
            return parsed(json_reader.decoded(reply, "the reply"))

        return asking.together(server, cases, work, done)

    def plan(self, cases: Sequence[Case]) -> list[str]:
        """Returns the lines of a dry run; the server receives no request."""
        expected = Usage(is_estimate=True)
        for case in cases:
            request = self._request(case)
            if asking.kept(self.setting.server, request) is not None:
                expected.kept += 1
                continue
            expected.requests += 1
            expected.read += usage.asked_tokens(request.body(set()))
            told = [[one.name, list(one.accepted)] for one in case.expected]
            expected.written += 2 * usage.tokens(json.dumps(told))
        return asking.plan(self.setting.server, expected)

    def spent(self) -> str:
        """Returns one line about the requests so far."""
        return asking.spent(self.setting.server)

    def _request(self, case: Case) -> ToolRequest:
        messages, tools = case.messages, case.tools
        if self._in_prompt:
            told, tools = _IN_PROMPT.format(json.dumps(list(tools))), ()
            messages = with_system(messages, told)
        seed = seed_of(case, self._seed)
        return ToolRequest(messages, tools, seed, self.parameters, case.sample)


def fields_of(texts: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    """Returns fields of a request from NAME=VALUE; a value is JSON, or else a text.

    Args:
        texts: the options.
        known: names of options that are no such fields; a similar name is an error.

    Raises:
        UserError: an option has no name or value, comes twice, is set otherwise, or its
            value begins like JSON but is invalid.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise UserError(
                f"--option {text}: write it as NAME=VALUE, such as "
                "reasoning_effort=low; an empty text is NAME='\"\"'."
            )
        if name in found:
            raise UserError(f"--option {name}: comes twice. Leave one out.")
        if name in _OWN:
            raise UserError(f"--option {name}: {_OWN[name]}. Leave the option out.")
        if near := difflib.get_close_matches(name, known, 1, _NEAR):
            raise UserError(f"--option {text}: did you mean {near[0]!r}?")
        try:
            found[name] = json_reader.decoded(value)
            json.dumps(found[name], allow_nan=False)
        except ValueError as error:
            if _JSON.match(value) or name in found:
                raise UserError(
                    f"--option {text}: {error}. Give a JSON value in one pair of "
                    f"quotes, such as {name}='[\"a\", 1]', or a text."
                ) from None
            found[name] = value
    return found


def seed_of(case: Case, seed: int) -> int:
    """Returns the seed of a request about a case, below 2^31."""
    # Equal seeds would make the answers under two wordings more alike than chance.
    return zlib.crc32(f"{seed} {case.id} {case.sample}".encode()) & 0x7FFFFFFF


def with_system(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Returns messages with a text appended to the system message.

    Without a system message, the text becomes one.
    """
    first = messages[0]
    if first.get("role") == "system":
        content = f"{first.get('content')}\n\n{text}"
        return ({**first, "content": content}, *messages[1:])
    return ({"role": "system", "content": text}, *messages)


def parsed(message: Mapping[str, Any]) -> Reply:
    """Returns the calls of a message of a model.

    Args:
        message: message of the chat-completions interface. Its `content` is read if it
            has neither `tool_calls` nor the older `function_call`.
    """
    given = message.get("tool_calls")
    older = message.get("function_call")
    if not given and isinstance(older, dict):
        given = [{"function": older}]
    if isinstance(given, list) and given:
        given = given[:_MOST]
        found = [
            _call(one.get("function") if isinstance(one, dict) else 0, {})
            for one in given
        ]
        calls = tuple(one for one in found if one is not None)
        return Reply(calls, TOOL_CALLS if len(calls) == len(given) else INVALID)
    content = message.get("content")
    if isinstance(content, list):  # Parts of a content.
        texts = [one.get("text") for one in content if isinstance(one, dict)]
        content = "".join(one for one in texts if isinstance(one, str))
    calls = tuple(_of_text(content)) if isinstance(content, str) else ()
    return Reply(calls, TEXT if calls else PROSE)


def _of_text(content: str) -> Iterator[Call]:
    """Yields the calls in a text: JSON objects, also in lists, tags, and fences."""
    text, place = replies.bare(content)[:_LONGEST], 0
    decoder = json.JSONDecoder()
    for _ in range(_MOST):
        if (start := _START.search(text, place)) is None:
            return
        try:
            value, place = decoder.raw_decode(text, start.start())
        except RecursionError:
            return
        except ValueError:
            place = start.end()
            continue
        for one in value if isinstance(value, list) else [value]:
            inner = one.get("function") if isinstance(one, dict) else None
            found = _call(inner if isinstance(inner, dict) else one)
            if found is not None:
                yield found


def _call(value: Any, default: Any = None) -> Call | None:
    """Returns a call, or None; `default` replaces missing or null arguments."""
    if not isinstance(value, dict):
        return None
    name = value.get("name", value.get("function"))
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = json_reader.decoded(arguments) if arguments.strip() else {}
        except json_reader.JsonError:
            return None
    arguments = default if arguments is None else arguments
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return Call(name, arguments)


def with_shots(cases: Sequence[Case], shots: Sequence[Case]) -> list[Case]:
    """Returns cases whose system message shows solved cases.

    Args:
        cases: the cases.
        shots: the solved cases. Their conversations and calls are shown without tools.
    """
    if not shots:
        return list(cases)
    solved = "\n\n".join(_solved(one) for one in shots)
    text = f"Examples of conversations and the right calls:\n\n{solved}"
    return [replace(one, messages=with_system(one.messages, text)) for one in cases]


def _solved(case: Case) -> str:
    return f"{conversation(case)}\nCALLS: {told(case)}"


def conversation(case: Case) -> str:
    """Returns the messages of a case without instructions, one a line."""
    return "\n".join(
        f"{one['role'].upper()}: {one.get('content')}"
        for one in case.messages
        if one["role"] != "system"
    )


def told(case: Case) -> str:
    """Returns the expected calls of a case as JSON."""
    calls = [
        {"name": one.name, "arguments": _firsts(one.accepted)} for one in case.expected
    ]
    return json.dumps(calls, ensure_ascii=False)


def _firsts(accepted: Mapping[str, Accepted]) -> dict[str, Any]:
    """Returns the first accepted value of each argument that has one."""
    given = {
        key: [v for v in one if v is not ABSENT and (v != "" or ABSENT not in one)]
        for key, one in accepted.items()
    }
    return {key: _plain(values[0]) for key, values in given.items() if values}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _firsts(value)
    return [_plain(one) for one in value] if isinstance(value, list) else value


class TrackerModel:
    """A trained tracker as a model of tool calls; see `jaxaug.tools.chat`."""

    def __init__(self, tracker: Any):
        """
        Args:
            tracker: a `jaxaug.Tracker`; its own schema is not used.
        """
        self._tracker = tracker

    def __call__(
        self, cases: Sequence[Case], done: Callable[[], Any] = lambda: None
    ) -> list[Reply]:
        """Returns the replies to cases; cases with the same tools are batched."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for place, case in enumerate(cases):
            groups.setdefault(tuple(map(id, case.tools)), []).append(place)
        found: dict[int, Reply] = {}
        for places in groups.values():
            tools = cases[places[0]].tools
            schema, found_tools = chat.resolved(list(tools))
            names = [one.name for one in schema.services]
            dialogues = [
                chat.dialogue_of(list(cases[place].messages), names) for place in places
            ]
            answers = self._tracker.about(schema).predict_all(dialogues)
            for place, answer in zip(places, answers, strict=True):
                states = {frame.service: frame.state for frame in answer.frames}
                calls = tuple(chat.calls_of(states, schema, found_tools))
                found[place] = Reply(calls, TOOL_CALLS)
                done()
        return [found[place] for place in range(len(cases))]
