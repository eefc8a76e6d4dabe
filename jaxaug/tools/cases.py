"""Cases: messages, the tools that are offered to a model, and the expected calls.

Cases are read from JSON lines, from files of the Berkeley Function Calling Leaderboard
(BFCL), or from the dialogues of a data folder. Source of BFCL's format: its repository,
https://github.com/ShishirPatil/gorilla, folder `berkeley-function-call-leaderboard`.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etils import epath

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, shown
from jaxaug.core.suggestion import check_keys, suggestion
from jaxaug.tools import Imported, read_tools, tools_of
from jaxaug.tools.match import ABSENT, Accepted, Expected

Message = Mapping[str, Any]
Tool = dict[str, Any]
"""A tool in the format of the chat-completions interface."""
MOST_TOOLS = 128
"""Maximum number of tools in a request; OpenAI has the same limit."""
_FIX = (
    'Give JSON lines such as {"messages": [{"role": "user", "content": "..."}], '
    '"calls": [{"name": "...", "arguments": {}}]}, or a file of BFCL.'
)
_ROLES = ("system", "user", "assistant", "tool")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
# Types of BFCL that have another name in JSON Schema.
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_KNOWN_TYPES = {"object", "number", "array", "string", "integer", "boolean", "null"}


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation that a model continues with calls of tools.

    Attributes:
        id: name of the case.
        group: name of the group. Cases of one group are not independent, such as the
            turns of a dialogue.
        messages: the conversation.
        tools: the offered tools.
        expected: the expected calls.
        is_state: whether the call is a dialogue state; see `match.score_state`.
        names: maps a tool or (tool, argument) in `tools` to its original name. Empty if
            the wording changes no names.
        sample: name of one of several requests about the case. It determines the seed
            of the request, and is part of the key in the cache.
    """

    id: str
    group: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    expected: tuple[Expected, ...]
    is_state: bool = False
    names: Mapping[Any, str] = field(default_factory=dict)
    sample: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Cases that share one list of tools.

    Attributes:
        found: the imported tools.
        cases: the cases, with the tools in their original wording.
    """

    found: Imported
    cases: Sequence[Case]


def arguments_of(tool: Tool) -> Mapping[str, Any]:
    """Returns a mapping from the arguments of a tool to their JSON Schema."""
    found = tool["function"]["parameters"].get("properties")
    return found if isinstance(found, dict) else {}


def read(
    path: PathLike,
    tools: Imported | None,
    answers: PathLike | None = None,
    reworded: Callable[[str], str] = str,
) -> list[Source]:
    """Reads a file of cases.

    Args:
        path: JSON lines in our own format or in the format of BFCL's questions.
        tools: the tools; None for a file of BFCL, which contains them.
        answers: BFCL's file of possible answers. None means the file of the same name
            in the folder `possible_answer` next to `path`.
        reworded: function from a description of BFCL to the text that replaces it.

    Returns:
        One source for a file in our own format, or one for each question of BFCL.

    Raises:
        UserError: a file cannot be read, or a case is wrong. The message gives the
            line.
    """
    items = list(_lines(path))
    if not items:
        raise UserError(f"{path}: holds no case. {_FIX}")
    if "question" in items[0][1]:
        if tools is not None:
            raise UserError(f"--schema: {path} is of BFCL and has tools. Leave it out.")
        return _read_bfcl(path, items, answers, reworded)
    if tools is None:
        raise UserError("--schema is missing: name the document with the tools.")
    if answers is not None:
        raise UserError(
            f"--answers: {path} already contains calls. Leave --answers out."
        )
    offered = {one["function"]["name"]: one for one in tools_of(tools, tools.schema)}
    cases = [_own(item, where, offered, number) for where, item, number in items]
    return [Source(tools, cases)]


def _lines(path: PathLike) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yields place, object, and number of each line."""
    text = read_text(path, _FIX)
    with contextlib.suppress(json_reader.JsonError):
        whole = json_reader.decoded(text)
        keys = set(whole) if isinstance(whole, dict) else set()
        is_tools = keys & {"tools", "openapi", "swagger"} and "messages" not in keys
        if is_tools or (whole and isinstance(whole, list)):
            raise UserError(
                f"{path}: is one JSON document, such as a list of tools, and holds no "
                f"cases. Name tools with --schema. {_FIX}"
            )
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            item = json_reader.decoded(line)
        except json_reader.JsonError as error:
            raise UserError(f"{where}: is no JSON: {error}. {_FIX}") from None
        if not isinstance(item, dict):
            raise _wrong(where, "an object", item)
        yield where, item, number


def _own(
    item: dict[str, Any], where: str, tools: Mapping[str, Tool], number: int
) -> Case:
    check_keys(item, ("id", "messages", "calls", "tools"), where)
    names = item.get("tools", list(tools))
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise _wrong(f"{where}: tools", "names of tools", names)
    offered = tuple(tools[_known(name, tools, where)] for name in names)
    _check_number(offered, where)
    calls = item.get("calls")
    if not isinstance(calls, list):
        raise _wrong(f"{where}: calls", "a list, empty if no tool fits", calls)
    mine = {one["function"]["name"]: one for one in offered}
    expected = tuple(_call(call, f"{where}: calls", mine) for call in calls)
    name = str(item.get("id", number))
    return Case(name, name, _messages(item.get("messages"), where), offered, expected)


def _call(call: Any, where: str, tools: Mapping[str, Tool]) -> Expected:
    if not isinstance(call, dict):
        raise _wrong(where, "objects with name and arguments", call)
    check_keys(call, ("name", "arguments", "accepted"), where)
    name = _known(call.get("name"), tools, where)
    known = arguments_of(tools[name])
    given, others = call.get("arguments", {}), call.get("accepted", {})
    for what, value in (("arguments", given), ("accepted", others)):
        if not isinstance(value, dict):
            raise _wrong(f"{where}: {what} of {name}", "an object", value)
        for key in value:
            if key not in known:
                raise UserError(
                    f"{where}: {name} has no argument {shown(key)}; "
                    f"{suggestion(key, known)}"
                )
    accepted = {key: (_pattern(value),) for key, value in given.items()}
    for key, more in others.items():
        if not isinstance(more, list):
            raise _wrong(f"{where}: accepted {key}", "a list of further values", more)
        accepted[key] = accepted.get(key, (ABSENT,)) + tuple(map(_pattern, more))
    lacking = [
        key
        for key in tools[name]["function"]["parameters"].get("required", ())
        if key not in accepted
    ]
    if lacking:
        raise UserError(
            f"{where}: the call of {name} lacks {', '.join(lacking)}, which the tool "
            "requires. Add it to arguments."
        )
    return Expected(name, accepted, _listed(tools[name]))


def _listed(tool: Tool) -> frozenset[str]:
    found = arguments_of(tool).items()
    return frozenset(n for n, one in found if isinstance(one, dict) and "enum" in one)


def _pattern(value: Any) -> Any:
    """Returns a value in the format of `match`, with alternatives at each key."""
    if isinstance(value, dict):
        return {key: (_pattern(one),) for key, one in value.items()}
    return [_pattern(one) for one in value] if isinstance(value, list) else value


def _messages(given: Any, where: str) -> tuple[Message, ...]:
    good = isinstance(given, list) and given and all(isinstance(m, dict) for m in given)
    if not good or any(m.get("role") not in _ROLES for m in given):
        raise _wrong(
            f"{where}: messages", "a list of objects with role and content", given
        )
    return tuple(given)


def _known(name: Any, tools: Mapping[str, Tool], where: str) -> str:
    """Returns the name of an offered tool; `_` replaces characters that are refused."""
    fitted = _UNFIT.sub("_", name)[:60] if isinstance(name, str) else ""
    ends = [one for one in tools if isinstance(name, str) and one.endswith(f"__{name}")]
    for one in (name, fitted, *(ends if len(ends) == 1 else ())):
        if one in tools:
            return one
    raise UserError(f"{where}: no tool {shown(name)}; {suggestion(str(name), tools)}")


def _check_number(tools: Sequence[Tool], where: str) -> None:
    if not 1 <= len(tools) <= MOST_TOOLS:
        raise UserError(
            f"{where}: offers {len(tools):,} tools; a request takes 1 to {MOST_TOOLS}. "
            'Name some in the case: "tools": ["NAME", ...].'
        )


def _wrong(where: str, expected: str, got: Any) -> UserError:
    return UserError(f"{where}: expected {expected}, got {shown(got)}. {_FIX}")


def _read_bfcl(
    path: PathLike,
    items: Sequence[tuple[str, dict[str, Any], int]],
    answers: PathLike | None,
    reworded: Callable[[str], str],
) -> list[Source]:
    default = epath.Path(path).parent / "possible_answer" / epath.Path(path).name
    known: dict[str, Any] = {}
    if not all("irrelevance" in str(item.get("id")) for _, item, _ in items):
        found = _lines(answers or default)
        known = {str(item.get("id")): item.get("ground_truth") for _, item, _ in found}
    sources = []
    for where, item, _ in items:
        name, turns = str(item.get("id")), item.get("question")
        if isinstance(turns, list) and turns and isinstance(turns[0], dict):
            turns = [turns]
        if not isinstance(turns, list) or len(turns) != 1:
            raise _wrong(f"{where}: question", "one turn", turns)
        functions = item.get("function")
        functions = functions if isinstance(functions, list) else [functions]
        found = read_tools([_function(one, reworded) for one in functions], where)
        tools = tools_of(found, found.schema)
        _check_number(tools, where)
        mine = {one["function"]["name"]: one for one in tools}
        truth = [] if "irrelevance" in name else known.get(name)
        if not isinstance(truth, list):
            raise UserError(f"{where}: {answers or default} has no answer to {name}.")
        calls = tuple(
            Expected(
                _known(_UNFIT.sub("_", tool), mine, where),
                {key: _alternatives(value) for key, value in told.items()},
                _listed(mine[_known(_UNFIT.sub("_", tool), mine, where)]),
            )
            for one in truth
            for tool, told in one.items()
        )
        messages = _messages(turns[0], where)
        case = Case(name, name, messages, tuple(tools), calls)
        sources.append(Source(found, [case]))
    return sources


def _function(given: Any, reworded: Callable[[str], str]) -> Any:
    """Returns a function of BFCL as a tool of the chat-completions interface."""
    if not isinstance(given, dict):
        return given
    name = _UNFIT.sub("_", str(given.get("name")))
    return {"type": "function", "function": _typed(given, reworded) | {"name": name}}


def _typed(value: Any, reworded: Callable[[str], str]) -> Any:
    """Returns a function of BFCL with the types of JSON Schema and other texts."""
    if isinstance(value, list):
        return [_typed(one, reworded) for one in value]
    if not isinstance(value, dict):
        return value
    made = {key: _typed(one, reworded) for key, one in value.items()}
    if isinstance(text := made.get("description"), str):
        made["description"] = reworded(text)
    kind = made.get("type")
    if isinstance(kind, str):
        made["type"] = _TYPES.get(kind, kind)
        if made["type"] not in _KNOWN_TYPES:
            del made["type"]
    return made


def _alternatives(values: Any) -> Accepted:
    """Returns accepted values; an empty text in BFCL makes the argument optional."""
    given = values if isinstance(values, list) else [values]
    named = [_inner(one) for one in given if one != ""]
    return (*named, *((ABSENT, "") if "" in given else ()))


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _alternatives(one) for key, one in value.items()}
    return [_inner(one) for one in value] if isinstance(value, list) else value
