"""Cases: messages, the tools that are offered to a model, and the expected calls.

Cases are read from JSON lines, from files of the Berkeley Function Calling Leaderboard
(BFCL), or from the dialogues of a data folder. Further wordings come from the grammar
or from files.
"""

import contextlib
import functools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from etils import epath

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, shown
from jaxaug.core.suggestion import check_keys, suggestion
from jaxaug.data import folders, sgd
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.rename import Renaming
from jaxaug.data.schema import Intent, Schema, Service
from jaxaug.metrics.benchmark import scored_frames
from jaxaug.tools import Imported, bfcl, read_document, read_tools, tools_of
from jaxaug.tools.catalogue import DONTCARE
from jaxaug.tools.match import ABSENT, Call, Expected
from jaxaug.tools.services import UNFIT, names_of, ordered, with_names
from jaxaug.tools.views import rewritten, without

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


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation that a model continues with calls of tools.

    Attributes:
        id: name of the case.
        group: name of the group. Cases of one group are not independent, such as the
            turns of a dialogue.
        messages: the conversation.
        tools: the offered tools.
        expected: the expected calls, with the original names; calls of a dialogue state
            have the names of `tools`.
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

    def original(self, calls: Sequence[Call]) -> Sequence[Call]:
        """Returns calls with the original names; other names become "?"."""
        if not self.names:
            return calls
        return [
            Call(
                self.names.get(name, "?"),
                {self.names.get((name, key), "?"): one for key, one in values.items()},
            )
            for name, values in calls
        ]


@dataclass(frozen=True, slots=True)
class Source:
    """Cases that share one list of tools.

    Attributes:
        found: the imported tools.
        cases: the cases, with the tools in their original wording.
        left_out: number of turns that are no cases, by reason.
    """

    found: Imported
    cases: Sequence[Case]
    left_out: Mapping[str, int] = field(default_factory=dict)


def arguments_of(tool: Tool) -> Mapping[str, Any]:
    """Returns a mapping from the arguments of a tool to their JSON Schema."""
    found = tool["function"]["parameters"].get("properties")
    return found if isinstance(found, dict) else {}


def read(
    path: PathLike,
    tools: Imported | None,
    answers: PathLike | None = None,
    reworded: Callable[[str], str] = str,
    limit: int | None = None,
) -> list[Source]:
    """Reads a file of cases.

    Args:
        path: JSON lines in our own format or in the format of BFCL's questions.
        tools: the tools; None for a file of BFCL, which contains them.
        answers: BFCL's file of possible answers. None means the file of the same name
            in the folder `possible_answer` next to `path`.
        reworded: function from a description of BFCL to the text that replaces it.
        limit: number of cases that are needed; further questions of BFCL with one turn
            are left out. None means all.

    Returns:
        One source for a file in our own format. For BFCL, one for each question, or one
        for all dialogues with the same tools.

    Raises:
        UserError: a file cannot be read, or a case is wrong. The message gives the
            line.
    """
    items = list(_lines(path))
    if not items:
        raise UserError(f"{path}: holds no case. {_FIX}")
    _check_ids(items)
    if "question" in items[0][1]:
        if tools is not None:
            raise UserError(f"--schema: {path} is of BFCL and has tools. Leave it out.")
        return _read_bfcl(path, items, answers, reworded, limit)
    if tools is None:
        raise UserError(f"{path}: has no tools. Name their document with --schema.")
    if answers is not None:
        raise UserError(
            f"--answers: {path} already contains calls. Leave --answers out."
        )
    offered = {one["function"]["name"]: one for one in tools_of(tools, tools.schema)}
    cases = [own_case(item, where, offered, number) for where, item, number in items]
    return [Source(tools, cases)]


def _lines(path: PathLike) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yields place, object, and number of each line."""
    text, path = read_text(path, _FIX), str(path)
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
        check_finite(item, where)
        yield where, item, number


def check_finite(value: Any, where: str) -> None:
    """Refuses numbers that a request cannot hold; `where` starts the message."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise UserError(
            f"{where}: has NaN, Infinity, or a number above 1e308, which JSON does not "
            "have. Correct the number."
        ) from None


def _check_ids(items: Sequence[tuple[str, dict[str, Any], int]]) -> None:
    """Refuses ids that are neither texts nor whole numbers, or that come twice."""
    first: dict[str, str] = {}
    for where, item, number in items:
        name = item.get("id", number)
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise _wrong(f"{where}: id", "a text or a whole number", name)
        if first.setdefault(str(name), where) != where:
            raise UserError(
                f"{where}: the id {shown(name)} is that of {first[str(name)]}. Give "
                "one of them another id."
            )


def own_case(
    item: dict[str, Any], where: str, tools: Mapping[str, Tool], number: int
) -> Case:
    """Returns a case of our own format.

    Args:
        item: parsed line of the file.
        where: place of the line, for messages.
        tools: maps the names of the tools to the tools.
        number: number of the line, which names a case without an id.

    Raises:
        UserError: the case is wrong.
    """
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
    check_keys(call, ("name", "name_alternatives", "arguments", "accepted"), where)
    name = _known(call.get("name"), tools, where)
    known = arguments_of(tools[name])
    given, further = call.get("arguments", {}), call.get("accepted", {})
    for what, value in (("arguments", given), ("accepted", further)):
        if not isinstance(value, dict):
            raise _wrong(f"{where}: {what} of {name}", "an object", value)
        for key in value:
            if key not in known:
                raise UserError(
                    f"{where}: {name} has no argument {shown(key)}; "
                    f"{suggestion(key, known)}"
                )
    accepted = {key: (_pattern(value),) for key, value in given.items()}
    for key, more in further.items():
        if not isinstance(more, list):
            raise _wrong(f"{where}: accepted {key}", "a list of further values", more)
        accepted[key] = accepted.get(key, (ABSENT,)) + tuple(map(_pattern, more))
    lacking = [
        key
        for key in tools[name]["function"]["parameters"].get("required") or ()
        if key not in accepted
    ]
    if lacking:
        raise UserError(
            f"{where}: the call of {name} lacks {', '.join(lacking)}, which the tool "
            "requires. Add it to arguments."
        )
    more = call.get("name_alternatives", [])
    if not isinstance(more, list):
        raise _wrong(f"{where}: name_alternatives", "a list of tools", more)
    others = tuple(_known(one, tools, where) for one in more)
    return Expected(name, accepted, _listed(tools[name]), others)


def _listed(tool: Tool) -> frozenset[str]:
    found = arguments_of(tool).items()
    return frozenset(n for n, one in found if isinstance(one, dict) and "enum" in one)


def _pattern(value: Any) -> Any:
    """Returns a value in the format of `match`, with alternatives at each key."""
    return rewritten(value, lambda made: {key: (one,) for key, one in made.items()})


def _messages(given: Any, where: str) -> tuple[Message, ...]:
    good = isinstance(given, list) and given and all(isinstance(m, dict) for m in given)
    if not good or any(m.get("role") not in _ROLES for m in given):
        raise _wrong(
            f"{where}: messages", "a list of objects with role and content", given
        )
    for number, content in enumerate(one.get("content") for one in given):
        parts = content if isinstance(content, list) else [{}]
        is_text = content is None or isinstance(content, str | list)
        if not is_text or not all(isinstance(one, dict) for one in parts):
            raise _wrong(
                f"{where}: messages: content of #{number}",
                "a text, null, or a list of objects",
                content,
            )
    return tuple(given)


def _known(name: Any, tools: Mapping[str, Tool], where: str) -> str:
    """Returns the name of an offered tool; `_` replaces characters that are refused."""
    if not isinstance(name, str):
        raise _wrong(where, "the name of a tool", name)
    fitted = UNFIT.sub("_", name)[:60]
    ends = [one for one in tools if one.endswith(f"__{name}")]
    for one in (name, fitted, *(ends if len(ends) == 1 else ())):
        if one in tools:
            return one
    raise UserError(f"{where}: no tool {shown(name)}; {suggestion(name, tools)}")


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
    limit: int | None,
) -> list[Source]:
    beside = epath.Path(path).parent
    answers = answers or beside / "possible_answer" / epath.Path(path).name
    if "involved_classes" in items[0][1]:
        functions = beside / "multi_turn_func_doc"
        return _read_bfcl_dialogues(items, functions, answers, reworded)
    known: dict[str, Any] = {}
    if not all("irrelevance" in str(item.get("id")) for _, item, _ in items):
        known = _answers(answers)
    sources = []
    for where, item, _ in items[:limit]:
        name, turns = str(item.get("id")), item.get("question")
        if isinstance(turns, list) and turns and isinstance(turns[0], dict):
            turns = [turns]
        if not isinstance(turns, list) or len(turns) != 1:
            raise _wrong(f"{where}: question", "one turn", turns)
        functions = item.get("function")
        functions = functions if isinstance(functions, list) else [functions]
        found = read_tools([bfcl.function(one, reworded) for one in functions], where)
        tools = tools_of(found, found.schema)
        _check_number(tools, where)
        mine = {one["function"]["name"]: one for one in tools}
        truth = [] if "irrelevance" in name else known.get(name)
        if not isinstance(truth, list):
            raise UserError(f"{where}: {answers} has no answer to {name}.")
        calls = tuple(
            Expected(
                _known(UNFIT.sub("_", tool), mine, where),
                bfcl.accepted(told),
                _listed(mine[_known(UNFIT.sub("_", tool), mine, where)]),
            )
            for one in truth
            for tool, told in _told(one, answers, name)
        )
        messages = _messages(turns[0], where)
        case = Case(name, name, messages, tuple(tools), calls)
        sources.append(Source(found, [case]))
    return sources


def _answers(path: PathLike) -> dict[str, Any]:
    return {str(one.get("id")): one.get("ground_truth") for _, one, _ in _lines(path)}


def _told(call: Any, answers: PathLike, name: str) -> ItemsView[str, Any]:
    """Returns the tool and the arguments of an expected call of BFCL."""
    values = [*call.values()] if isinstance(call, dict) else []
    if len(values) != 1 or not isinstance(values[0], dict):
        place = next(w for w, one, _ in _lines(answers) if str(one.get("id")) == name)
        rule = 'objects such as {"NAME": {"ARGUMENT": [VALUE, ...]}}'
        raise _wrong(f"{place}: ground_truth", rule, call)
    return call.items()


def _read_bfcl_dialogues(
    items: Sequence[tuple[str, dict[str, Any], int]],
    folder: epath.Path,
    answers: PathLike,
    reworded: Callable[[str], str],
) -> list[Source]:
    """Returns the turns that can be scored; dialogues with equal tools share them."""
    for where, item, _ in items:
        _check_dialogue(item, where)
    known = _answers(answers)
    files: dict[str, dict[str, Any]] = {}
    made: dict[tuple[str, ...], tuple[Imported, dict[str, Tool]]] = {}
    cases: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    left_out: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for where, item, _ in items:
        functions: dict[str, dict[str, Any]] = {}
        for one in item["involved_classes"]:
            if one not in files:
                files[one] = _functions(folder / bfcl.FUNCTIONS[one], where)
            functions |= without(files[one], *item.get("excluded_function", ()))
        if (key := tuple(functions)) not in made:
            worded = [bfcl.function(one, reworded) for one in functions.values()]
            found = read_tools(worded, where)
            offered = tools_of(found, found.schema)
            _check_number(offered, where)
            made[key] = found, {one["function"]["name"]: one for one in offered}
        if (name := str(item.get("id"))) not in known:
            raise UserError(f"{where}: {answers} has no answer to {name}.")
        tools = made[key][1]
        try:
            for turn in bfcl.turns(
                item["question"], known[name], functions, left_out[key]
            ):
                tool = _known(turn.name, tools, where)
                expected = Expected(tool, turn.accepted, _listed(tools[tool]))
                cases[key].append(
                    Case(
                        f"{name} {turn.number}",
                        name,
                        tuple(turn.messages),
                        tuple(tools.values()),
                        (expected,),
                    )
                )
        except ValueError as error:
            raise UserError(f"{where}: {answers}: {error}.") from None
    return [
        Source(found, cases[key], left_out[key]) for key, (found, _) in made.items()
    ]


def _check_dialogue(item: dict[str, Any], where: str) -> None:
    """Refuses a dialogue that cannot be read, and names what is missing."""
    for mark, missing in bfcl.MISSING.items():
        if mark in item or mark in str(item.get("id")):
            raise UserError(
                f"{where}: such a dialogue needs {missing}. Use BFCL's files "
                "multi_turn_base and multi_turn_miss_param."
            )
    classes, turns = item.get("involved_classes"), item.get("question")
    for one in classes if isinstance(classes, list) else [classes]:
        if one not in bfcl.FUNCTIONS:
            raise UserError(
                f"{where}: needs the results of {shown(one)}, which only the "
                "leaderboard's program executes. Classes whose dialogues are read: "
                f"{', '.join(bfcl.FUNCTIONS)}."
            )
    if not isinstance(turns, list):
        raise _wrong(f"{where}: question", "a list of turns", turns)
    for one in turns:
        _messages(one, f"{where}: question")


def _functions(path: epath.Path, where: str) -> dict[str, Any]:
    """Returns the functions of a class by name."""
    if not path.exists():
        raise UserError(
            f"{where}: its tools stand in {path}, which does not exist. Copy BFCL's "
            f"folder {path.parent.name} there."
        )
    return {str(one.get("name")): one for _, one, _ in _lines(path)}


_TASK = (
    "Call the tool with everything that the user has asked for so far. Leave out "
    f"arguments that the user has not spoken about. The value {DONTCARE} means that "
    "the user has no preference."
)


def as_tool(service: Service) -> Service:
    """Returns a service with one intent, whose slots are all optional."""
    given = tuple((slot.name, DONTCARE) for slot in service.slots)
    intent = Intent(service.name, service.description, False, (), given, ())
    return Service(service.name, service.description, service.slots, (intent,))


def with_intents(original: Schema, tools: Schema) -> Schema:
    """Returns the schema of services that were reworded as tools; inverts `as_tool`.

    Args:
        original: supplies the names of the services, and their intents.
        tools: reworded tools in the same order, one service with one intent each. They
            supply the slots, and the intent's description becomes the service's.
    """
    return Schema(
        tuple(
            Service(own.name, one.intents[0].description, one.slots, own.intents)
            for own, one in zip(original.services, tools.services, strict=True)
        )
    )


def read_dialogues(
    data_dir: epath.Path,
    split: str,
    variant: str | None = None,
    limit: int | None = None,
) -> Source:
    """Reads the annotated frames of a split as cases.

    Args:
        data_dir: data folder in the layout of SGD.
        split: "train", "dev" or "test".
        variant: name of the wording, such as "v1"; None means the original.
        limit: number of dialogues from the start; None means all.

    Raises:
        UserError: a file is missing or wrong.
    """
    folder, _ = folders.evaluated_variants(data_dir, split)
    schema = sgd.read_schema_of(data_dir, split, variant, folder)
    found = Imported("sgd", Schema(tuple(map(as_tool, schema.services))), ())
    made = tools_of(found, found.schema)
    tools = {s.name: t for s, t in zip(schema.services, made, strict=True)}
    names = _originals(sgd.renaming_of(data_dir, split, variant, folder))
    dialogues = islice(sgd.read_dialogues(data_dir, split, variant, folder), limit)
    cases = [
        case for one in dialogues for case in _frames(one, found.schema, tools, names)
    ]
    return Source(found, cases)


def _originals(names: Renaming | None) -> dict[object, str]:
    found: dict[object, str] = {}
    for old, new in (names or {}).items():
        found[new.service] = old
        found |= {(new.service, slot): own for own, slot in new.slots.items()}
    return found


def _frames(
    dialogue: Dialogue, schema: Schema, tools: dict[str, Tool], names: dict[object, str]
) -> Iterator[Case]:
    said: list[Message] = [{"role": "system", "content": _TASK}]
    for index, turn in enumerate(dialogue.turns):
        role = "user" if turn.speaker == "USER" else "assistant"
        said.append({"role": role, "content": turn.utterance})
        for frame, state in scored_frames(turn):
            service = schema.service(frame.service)
            listed = frozenset(s.name for s in service.slots if s.is_categorical)
            accepted = {
                slot: tuple(values[:1] if slot in listed else values)
                for slot, values in state.slot_values.items()
            }
            expected = Expected(
                tools[service.name]["function"]["name"], accepted, listed
            )
            original = names.get(service.name, service.name)
            yield Case(
                f"{dialogue.dialogue_id} {index} {original}",
                dialogue.dialogue_id,
                tuple(said),
                (tools[service.name],),
                (expected,),
                True,
                names,
            )


ORIGINAL, CONTROL = "original", "control"
"""The given wording, and the same wording asked again."""
Wordings = Mapping[str, Sequence[Case]]
"""Maps a wording to its cases, in the same order; the original wording is first."""
Text = tuple[str, str]
"""Identifies a description: (tool, argument), or (tool, "") for the tool itself."""


def of_sources(sources: Sequence[Source], number: int, seed: int) -> Wordings:
    """Returns cases under faithful rewordings by the grammar.

    Args:
        sources: the cases.
        number: number of rewordings.
        seed: seed of the draw.

    Raises:
        UserError: no description has a faithful rewording.
    """
    from jaxaug.track import rewordings  # The grammar and the judge.

    found: dict[str, list[Case]] = {ORIGINAL: [], CONTROL: []}
    found |= {f"r{n}": [] for n in range(1, number + 1)}
    any_text = False

    @functools.cache  # Sources share services.
    def choices_of(service: Service) -> list[rewordings.Choice]:
        return [
            rewordings.Choice(
                item, own[1:] or own
            )  # The given text would not be a rewording.
            for item, own in rewordings.choices(service)
            if item.kind != "service"  # A tool has the description of its intent.
        ]

    for source in sources:
        used = {tool["function"]["name"] for one in source.cases for tool in one.tools}
        draws: list[dict[str, dict[str, str]]] = [{} for _ in range(number)]
        services = list(_used(source, used))
        for service in services:
            choices = choices_of(service)
            any_text |= any(one.texts != (one.item.text,) for one in choices)
            drawn = rewordings.drawn(choices, number, seed)
            for draw, texts in zip(draws, drawn, strict=True):
                draw[service.name] = texts
        for name in (ORIGINAL, CONTROL):
            found[name] += source.cases
        for name, draw in zip([*found][2:], draws, strict=True):
            schema = rewordings.worded_schema(Schema(tuple(services)), draw)
            found[name] += with_tools(source, schema)
    if not any_text:
        raise UserError(
            "no description has a faithful rewording by the grammar, so there is "
            "nothing to compare. Give other wordings with --wordings_from TOOLS.json "
            "..."
        )
    return found


def of_files(source: Source, paths: Sequence[PathLike]) -> Wordings:
    """Returns cases under the descriptions of other files with the same tools.

    Raises:
        UserError: a file cannot be read, or has other tools or arguments.
    """
    found = {ORIGINAL: source.cases, CONTROL: source.cases}
    own = source.found.schema
    for path in paths:
        other = read_document(path)
        check_finite(other.document, f"--wordings_from {path}")
        renamed = with_names(ordered(other.schema, own), names_of(own))
        if names_of(renamed) != names_of(own):
            raise UserError(
                f"--wordings_from {path}: has other tools or arguments than --schema. "
                "Only descriptions may differ."
            )
        name = epath.Path(path).stem
        if name in found:
            raise UserError(f"--wordings_from {path}: the name {name!r} comes twice.")
        found[name] = with_tools(source, renamed)
    return found


def _names(found: Imported) -> dict[tuple[str, str], str]:
    """Returns the name of the tool of each (service, intent)."""
    pairs = [(s.name, i.name) for s in found.schema.services for i in s.intents]
    tools = tools_of(found, found.schema)
    return dict(zip(pairs, (one["function"]["name"] for one in tools), strict=True))


def _used(source: Source, used: AbstractSet[str]) -> Iterator[Service]:
    """Yields the services with at least one of the used tools."""
    names = _names(source.found)
    for service in source.found.schema.services:
        if any(names[service.name, one.name] in used for one in service.intents):
            yield service


def with_tools(source: Source, schema: Schema) -> list[Case]:
    """Returns the cases of a source with tools described by another schema.

    Args:
        source: the cases.
        schema: other descriptions of the same services, intents, and slots.
    """
    tools = {one["function"]["name"]: one for one in tools_of(source.found, schema)}
    return [
        replace(
            case,
            tools=tuple(tools[tool["function"]["name"]] for tool in case.tools),
        )
        for case in source.cases
    ]


def texts_of(case: Case) -> dict[Text, str]:
    """Returns the descriptions of a case's tools, under the tools' original names."""
    found: dict[Text, str] = {}
    for tool in case.tools:
        name = tool["function"]["name"]
        key = case.names.get(name, name)
        found[key, ""] = tool["function"].get("description", "")
        for argument, schema in arguments_of(tool).items():
            own = case.names.get((name, argument), argument)
            found[key, own] = schema.get("description", "")
    return found


def advised(source: Source, texts: Mapping[Text, str]) -> Schema:
    """Returns the schema of the tools with better descriptions.

    Args:
        source: the tools.
        texts: maps a description to its new text. Other descriptions, and descriptions
            inside an object, do not change.
    """
    from jaxaug.track import rewordings

    names = _names(source.found)
    found: dict[str, dict[str, str]] = {}
    for service in source.found.schema.services:
        tools = [names[service.name, one.name] for one in service.intents]
        found[service.name] = chosen = {}
        for item in rewordings.items_of(service):
            keys = [(tool, item.name) for tool in tools]
            if item.kind == "intent":
                keys = [(names[service.name, item.name], "")]
            for key in keys:
                if item.kind != "service" and key in texts:
                    chosen[item.id] = texts[key]
    return rewordings.worded_schema(source.found.schema, found)
