"""`jaxaug data import`: converts chat messages with tool calls to a data folder."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec
from jaxaug_base.files import new_folder

from jaxaug.core.errors import UserError
from jaxaug.core.files import parse_json, reach, shown, write_bytes, write_text
from jaxaug.core.suggestion import suggestion
from jaxaug.data import record_files
from jaxaug.data.dialogue import Dialogue, Frame, State, Turn
from jaxaug.data.schema import Service, service_object
from jaxaug.tools.catalogue import Tool
from jaxaug.tools.convert import Imported, dumped, read_document, read_tools
from jaxaug.tools.messages import (
    SPEAKERS,
    call_of,
    calls_in,
    role_and_content,
    tell,
)
from jaxaug.tools.services import catalogue_of, tools_of, without_texts

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
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {k: _without_nulls(one) for k, one in value.items() if one is not None}


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


def run(arguments: argparse.Namespace) -> int:
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
