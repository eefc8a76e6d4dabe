"""`jaxaug data import` and `export`: chat messages with tool calls to data folders."""

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec
from jaxaug_base.files import new_folder

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    check_writable,
    parse_json,
    reach,
    shown,
    write_bytes,
    write_text,
)
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders, record_files, rewordings, sgd
from jaxaug.data.dialogue import Dialogue, Frame, State, Turn
from jaxaug.data.schema import Intent, Schema, Service, service_object
from jaxaug.tools.catalogue import Tool
from jaxaug.tools.convert import (
    Imported,
    document_of,
    dumped,
    read_document,
    read_tools,
)
from jaxaug.tools.services import catalogue_of, given_slots, tools_of, without_texts
from jaxaug.tools.views import rewritten

SPEAKERS = {"user": "USER", "assistant": "SYSTEM"}
"""Maps the roles that speak in a dialogue to speakers of SGD."""
ROLES = (*SPEAKERS, "system", "developer", "tool", "function")
_SHOWN = 20
_TYPES: Mapping[Any, Any] = {
    "boolean": lambda text: {"true": True, "false": False}[text.casefold()],
    "integer": int,
    "number": float,
}


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
    with contextlib.suppress(json_reader.JsonError):
        if isinstance(given, str):
            arguments = json_reader.decoded(given) if given.strip() else None
    if arguments is None:
        return name, {}
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
    place[slot] = value
    if value is not None and isinstance(kind, str):
        with contextlib.suppress(KeyError, ValueError):  # Else it stays a text.
            place[slot] = _TYPES[kind](value)


def tell(counts: Counter[str], what: str) -> None:
    """Prints a line for each kind of place that a conversion lost, if there is one."""
    lost = +counts
    if lost:
        print(f"{what}:")
    for name, number in lost.most_common(_SHOWN):
        print(f"  {name}: {number:,}")
    if len(lost) > _SHOWN:
        print(f"  ... and {len(lost) - _SHOWN:,} further kinds")


_NO_TOOLS = Service("chat", "conversation without tools", (), ())
_FIELDS = ("id", "messages", "tools")
_PARTS_OF_MESSAGES = (
    *("role", "content", "tool_calls", "function_call", "tool_call_id", "name"),
)
_CHUNK = 500
_PARTS = "parts of tools that a schema does not hold"
_FIX = (
    'Write {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]} for '
    "each dialogue."
)
Offered = Mapping[str, tuple[Service, Tool]]
"""Maps the name of a tool to its service and its definition."""


@dataclass(slots=True)
class _Turn:
    """Consecutive messages of one speaker."""

    speaker: str
    texts: list[str] = field(default_factory=list)
    calls: list[tuple[Service, str, dict[str, str | None]]] = field(
        default_factory=list
    )


class Importer:
    """Converts records to dialogues, and their tools to one schema.

    Tools of the same name but with other definitions become services with the suffix
    `_2`, `_3`, ...

    Attributes:
        services: services of all tools so far, by name.
        lost: number of places that were changed or left out, by their kind.
    """

    def __init__(self, found: Imported | None = None):
        """Takes the tools for records without `tools`, if any."""
        self.services: dict[str, Service] = {}
        self.lost: Counter[str] = Counter()
        self._known: dict[str, Offered] = {}
        self._default = self._merged(found) if found else {}

    def dialogue(self, record: Mapping[str, Any], where: str, name: str) -> Dialogue:
        """Returns the dialogue of a record.

        The state of a user turn has the arguments of all tool calls so far, including
        the calls of the assistant's reply. A turn whose reply calls no tool repeats the
        frames before.

        Args:
            record: object with `messages`, and optionally `tools` and `id`.
            where: place of the record, for errors.
            name: id of a dialogue whose record has none.

        Raises:
            UserError: a message or a call is malformed, a called tool is not defined,
                or no message is by the user.
        """
        self.lost.update(f"fields {key!r}" for key in record if key not in _FIELDS)
        offered = self._offered(record.get("tools"), where)
        turns = self._turns(record.get("messages"), offered, where)
        values: dict[str, dict[str, str]] = {}
        intents: dict[str, str] = {}
        current: list[str] = []
        found = []
        for turn, reply in zip(turns, [*turns[1:], _Turn("SYSTEM")], strict=True):
            frames: list[Frame] = []
            if turn.speaker == "USER":
                called = []
                for service, intent, arguments in reply.calls:
                    state = values.setdefault(service.name, {})
                    for slot, value in arguments.items():
                        if value is None:
                            state.pop(slot, None)
                        else:
                            state[slot] = value
                    intents[service.name] = intent
                    called.append(service.name)
                current = list(dict.fromkeys(called)) or current
                for one in current:
                    told: dict[str, tuple[str, ...]] = {
                        slot: (value,) for slot, value in values[one].items()
                    }
                    frames.append(Frame(one, State(intents[one], (), told)))
            found.append(Turn(turn.speaker, " ".join(turn.texts), tuple(frames)))  # type: ignore[arg-type]
        if found[-1] == Turn("SYSTEM", "", ()):
            del found[-1]
        if not values:
            self.lost["dialogues without a tool call, whose states are empty"] += 1
        services = [*dict.fromkeys(service.name for service, _ in offered.values())]
        services = [name for name in services if name in values or not values]
        if not services:
            self.services.setdefault(_NO_TOOLS.name, _NO_TOOLS)
            services = [_NO_TOOLS.name]
        given = record.get("id")
        name = name if given in (None, "") else str(given)
        return Dialogue(name, tuple(services), tuple(found))

    def _turns(self, messages: Any, offered: Offered, where: str) -> list[_Turn]:
        if not isinstance(messages, list):
            raise UserError(
                f"{where}: messages: expected a list, got {shown(messages)}. {_FIX}"
            )
        turns: list[_Turn] = []
        for number, message in enumerate(messages):
            place = f"{where}: messages #{number}"
            role, text = role_and_content(message, place)
            calls = calls_in(message, place)
            self._count(message)
            if role not in SPEAKERS:
                self.lost[f"messages of the role {role}"] += 1
                continue
            speaker = SPEAKERS[role]
            if not turns and speaker == "SYSTEM":
                self.lost["assistant messages before the first of the user"] += 1
                continue
            if not turns or turns[-1].speaker != speaker:
                turns.append(_Turn(speaker))
            if text:
                turns[-1].texts.append(text)
                self.lost["messages joined with the one before"] += (
                    len(turns[-1].texts) > 1
                )
            turns[-1].calls += [self._call(call, offered, place) for call in calls]
        if not turns:
            raise UserError(f"{where}: no message is by the user. Add one, or drop it.")
        return turns

    def _count(self, message: Mapping[str, Any]) -> None:
        """Counts what a message has in addition to its text and its calls."""
        for key, value in message.items():
            if key not in _PARTS_OF_MESSAGES and value:
                self.lost[f"fields {key!r} of messages"] += 1
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                self.lost[f"parts of messages of the type {shown(kind)}"] += 1

    def _call(
        self, call: Any, offered: Offered, where: str
    ) -> tuple[Service, str, dict[str, str | None]]:
        name, arguments = call_of(call, where)
        if name not in offered:
            raise UserError(
                f"{where}: the called tool {shown(name)} is not defined; "
                f"{suggestion(name, offered)} Add it to the tools of the record, or to "
                "the document of --schema."
            )
        service, tool = offered[name]
        told, unknown = tool.state_of(arguments)
        for one in unknown:
            self.lost[f"arguments {one!r} that {name} does not declare"] += 1
        for slot, value in told.items():
            if value is not None and not value.strip():
                told[slot] = None  # No format of examples can write it.
                self.lost[f"empty values of {slot!r}; they remove the value"] += 1
        return service, tool.intent, told

    def _offered(self, tools: Any, where: str) -> Offered:
        if isinstance(tools, str):
            # A column of Parquet has one type, so that lists of tools are JSON texts.
            tools = parse_json(tools or "[]", f"{where}: tools", _FIX)
        if not tools:
            return self._default
        key = json.dumps(tools)
        if key not in self._known:
            found = read_tools(_without_nulls(tools), f"{where}: tools")
            self.lost[_PARTS] += len(found.lost)
            self._known[key] = self._merged(found)
        return self._known[key]

    def _merged(self, found: Imported) -> Offered:
        schema = without_texts(found.schema) if found.tools else found.schema
        renamed: dict[str, Service] = {}
        for service in schema.services:
            mine, number = service, 1
            while self.services.setdefault(mine.name, mine) != mine:
                number += 1
                mine = replace(service, name=f"{service.name}_{number}")
            self.lost["tools whose name another tool has; renamed"] += number > 1
            renamed[service.name] = mine
        tools = found.tools or tools_of(schema)
        pairs = [(renamed[tool.service], tool) for tool in tools]
        offered: dict[str, tuple[Service, Tool]] = {}
        for kind in ("openai", "mcp"):
            told = catalogue_of(schema, kind)["tools"].values()
            offered |= {t["name"]: pair for t, pair in zip(told, pairs, strict=True)}
        if found.tools:
            offered |= {pair[1].name: pair for pair in reversed(pairs)}
        return offered


def _without_nulls(value: Any) -> Any:
    """Returns tools without fields that are null: Arrow fills missing fields so."""
    return rewritten(
        value, lambda made: {k: v for k, v in made.items() if v is not None}
    )


def _encoded(dialogues: list[Dialogue]) -> bytes:
    """Returns a dialogue file in the layout of SGD."""
    made = []
    for dialogue in dialogues:
        one = msgspec.to_builtins(dialogue)
        for turn in one["turns"]:
            for frame in turn["frames"]:
                del frame["service_call"], frame["service_results"]
        made.append(one)
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def run_import(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug data import`."""
    split = arguments.split
    found = read_document(arguments.schema) if arguments.schema else None
    importer = Importer(found)
    importer.lost[_PARTS] += len(found.lost) if found else 0
    ids: dict[str, str] = {}
    counts: Counter[str] = Counter()
    target = reach(arguments.out, "Name a folder with --out.") / split

    def dialogues() -> Iterator[Dialogue]:
        for where, record in record_files.read(arguments.source, split):
            one = importer.dialogue(record, where, f"{split}_{len(ids):06d}")
            if ids.setdefault(one.dialogue_id, where) != where:
                raise UserError(
                    f"{where}: the id {shown(one.dialogue_id)} is also in "
                    f"{ids[one.dialogue_id]}. Give each record another id, or none."
                )
            for turn in one.turns:
                counts["user turn"] += turn.speaker == "USER"
                counts["state"] += len(turn.frames)
            yield one

    with new_folder(target) as folder:
        stream = dialogues()
        for number, first in enumerate(stream, 1):
            chunk = [first, *islice(stream, _CHUNK - 1)]
            write_bytes(folder / f"dialogues_{number:03d}.json", _encoded(chunk))
        services = [service_object(one) for one in importer.services.values()]
        write_text(folder / "schema.json", dumped(services))
    sizes = {"dialogue": len(ids), **counts, "service": len(services)}
    listed = ", ".join(f"{n:,} {one}{'s' * (n != 1)}" for one, n in sizes.items())
    print(f"wrote {listed} to {target}")
    tell(importer.lost, "changed or left out")
    return 0


_NONE = "NONE"
_CALL = {
    "id": "string",
    "type": "string",
    "function": {"name": "string", "arguments": "string"},
}
_COLUMNS = {
    "id": "string",
    "messages": [{"role": "string", "content": "string", "tool_calls": [_CALL]}],
    # JSON text: one type of column cannot hold the parameters of different tools.
    "tools": "string",
}


@dataclass(slots=True)
class _Memory:
    """States that the calls so far tell, by service, and the services of the last."""

    values: dict[str, dict[str, str]] = field(default_factory=dict)
    intents: dict[str, str] = field(default_factory=dict)
    services: list[str] = field(default_factory=list)


_Call = tuple[str, str, Mapping[str, str | None]]
"""A service, its intent, and the values of slots."""


class Exporter:
    """Converts dialogues to records; inverts `Importer`.

    Attributes:
        lost: number of places that the records do not hold, by their kind.
    """

    def __init__(self, schema: Schema):
        """Takes the schema of the dialogues.

        Raises:
            UserError: no intent can be a tool.
        """
        tools, dropped, _ = document_of(schema, "openai")
        self._services = {service.name: service for service in schema.services}
        names = ((s.name, i.name) for s in schema.services for i in s.intents)
        self._tools = dict(zip(names, tools, strict=True))
        self.lost = Counter({"parts of the schema": len(dropped)})

    def record(self, dialogue: Dialogue) -> dict[str, Any]:
        """Returns the messages and the tools of a dialogue.

        The assistant's reply to a user turn calls tools if a state changed. The calls
        have all arguments of the states; null removes an argument.
        """
        memory = _Memory()
        messages: list[dict[str, Any]] = []
        answered = None
        number = 0
        turns = dialogue.turns
        for turn, reply in zip(turns, [*turns[1:], None], strict=True):
            self._count(turn)
            if turn.speaker == "SYSTEM":
                if turn is not answered:
                    messages.append({"role": "assistant", "content": turn.utterance})
                continue
            messages.append({"role": "user", "content": turn.utterance})
            calls = self._calls(turn, memory)
            if calls:
                answered = reply if reply and reply.speaker == "SYSTEM" else None
                text = answered.utterance if answered else ""
                made = [self._written(one, number + n) for n, one in enumerate(calls)]
                number += len(made)
                messages.append(
                    {"role": "assistant", "content": text, "tool_calls": made}
                )
        tools = [
            self._tools[name, intent.name]
            for name in dialogue.services
            for intent in self._services[name].intents
        ]
        return {"id": dialogue.dialogue_id, "messages": messages, "tools": tools}

    def _calls(self, turn: Turn, memory: _Memory) -> list[_Call]:
        """Returns the calls that tell the states of a user turn, if one is new."""
        calls: list[_Call] = []
        names = []
        is_new = False
        for frame in turn.frames:
            state, before = frame.state, memory.values.get(frame.service, {})
            last = memory.intents.get(frame.service)
            if state is None or (
                state.active_intent == _NONE and not state.slot_values and last is None
            ):
                continue
            names.append(frame.service)
            now = {slot: values[0] for slot, values in state.slot_values.items()}
            intent = self._intent(frame.service, state.active_intent, last, now)
            is_new |= now != before or intent.name != last
            calls += self._of_frame(frame.service, intent, before, now)
            memory.values[frame.service] = now
            memory.intents[frame.service] = intent.name
        if not names and memory.services:
            self.lost["user turns without a state; they repeat the last one"] += 1
        if not names or not (is_new or names != memory.services):
            return []
        memory.services = names
        return calls

    def _intent(
        self, service: str, active: str, last: str | None, now: Mapping[str, str]
    ) -> Intent:
        """Returns the active intent, else the last one, else the best fit to slots."""
        intents = {one.name: one for one in self._services[service].intents}
        if active != _NONE:
            return intents[active]
        self.lost[f"active intents {_NONE}; they become the last intent"] += 1
        if last is not None:
            return intents[last]
        return max(intents.values(), key=lambda one: len(now.keys() & given_slots(one)))

    def _of_frame(
        self, service: str, intent: Intent, before: Mapping, now: Mapping
    ) -> Iterator[_Call]:
        """Yields calls of other intents for changed slots, then of `intent`."""
        mine = given_slots(intent)
        left = {
            slot: now.get(slot)
            for slot in {**before, **now}
            if slot not in mine and before.get(slot) != now.get(slot)
        }
        for other in self._services[service].intents:
            part = {s: left.pop(s) for s in [*left] if s in given_slots(other)}
            if part:
                yield service, other.name, part
        self.lost["values of slots that no intent takes"] += len(left)
        told = {slot: now.get(slot) for slot in {**now, **before} if slot in mine}
        yield service, intent.name, told

    def _written(self, call: _Call, number: int) -> dict[str, Any]:
        service, intent, values = call
        function = self._tools[service, intent]["function"]
        arguments: dict[str, Any] = {}
        for slot, value in values.items():
            put(arguments, slot, value, function["parameters"])
        text = json.dumps(arguments, ensure_ascii=False)
        inner = {"name": function["name"], "arguments": text}
        return {"id": f"call_{number}", "type": "function", "function": inner}

    def _count(self, turn: Turn) -> None:
        for frame in turn.frames:
            self.lost["spans"] += len(frame.slots)
            self.lost["actions"] += len(frame.actions)
            self.lost["service calls"] += frame.service_call is not None
            self.lost["service results"] += len(frame.service_results or ())
            if frame.state is not None:
                values = frame.state.slot_values.values()
                self.lost["requested slots"] += len(frame.state.requested_slots)
                self.lost["further wordings of values"] += sum(map(len, values)) - len(
                    values
                )


def run_export(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug data export`."""
    if arguments.dir == rewordings.NAME and arguments.split is None:
        return rewordings.run_export(arguments)
    if arguments.split is None or arguments.out is None or arguments.format:
        raise UserError(
            f"data export {arguments.dir or ''}: a data folder needs --split and "
            "--out, whose suffix says the format. The corpus is "
            "`jaxaug data export rewordings`."
        )
    record_files.check_suffix(arguments.out)
    check_writable(arguments.out)
    folder = folders.resolve_data_dir(arguments.dir)
    exporter = Exporter(sgd.read_schema_of(folder, arguments.split))
    records = map(exporter.record, sgd.read_dialogues(folder, arguments.split))
    number = record_files.write(arguments.out, records, _COLUMNS)
    print(f"wrote {number:,} dialogue{'s' * (number != 1)} to {arguments.out}")
    tell(exporter.lost, "left out")
    return 0
