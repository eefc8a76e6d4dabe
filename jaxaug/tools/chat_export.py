"""`jaxaug data export`: converts a data folder to chat messages with tool calls."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.files import check_writable
from jaxaug.data import folders, record_files, rewordings, sgd
from jaxaug.data.dialogue import Dialogue, Turn
from jaxaug.data.schema import Intent, Schema
from jaxaug.tools.convert import document_of
from jaxaug.tools.messages import put, tell

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


class _Call(NamedTuple):
    service: str
    intent: str
    values: Mapping[str, str | None]


@dataclass(slots=True)
class _Memory:
    """States that the calls so far tell, by service, and the services of the last."""

    values: dict[str, dict[str, str]] = field(default_factory=dict)
    intents: dict[str, str] = field(default_factory=dict)
    services: list[str] = field(default_factory=list)


def _parameters(intent: Intent) -> set[str]:
    return {*intent.required_slots, *dict(intent.optional_slots)}


class Exporter:
    """Converts dialogues to records; inverts `chat_import.Importer`.

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
                is_reply = reply is not None and reply.speaker == "SYSTEM"
                text = reply.utterance if reply is not None and is_reply else ""
                answered = reply if is_reply else None
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
            is_idle = state is None or (
                state.active_intent == _NONE
                and not state.slot_values
                and frame.service not in memory.intents
            )
            if state is None or is_idle:
                continue
            names.append(frame.service)
            now = {slot: values[0] for slot, values in state.slot_values.items()}
            last = memory.intents.get(frame.service)
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
        return max(intents.values(), key=lambda one: len(_parameters(one) & now.keys()))

    def _of_frame(
        self, service: str, intent: Intent, before: Mapping, now: Mapping
    ) -> Iterator[_Call]:
        """Yields calls of other intents for changed slots, then of `intent`."""
        mine = _parameters(intent)
        left = {
            slot: now.get(slot)
            for slot in {**before, **now}
            if slot not in mine and before.get(slot) != now.get(slot)
        }
        for other in self._services[service].intents:
            part = {s: left.pop(s) for s in [*left] if s in _parameters(other)}
            if part:
                yield _Call(service, other.name, part)
        self.lost["values of slots that no intent takes"] += len(left)
        told = {slot: now.get(slot) for slot in {**now, **before} if slot in mine}
        yield _Call(service, intent.name, told)

    def _written(self, call: _Call, number: int) -> dict[str, Any]:
        function = self._tools[call.service, call.intent]["function"]
        arguments: dict[str, Any] = {}
        for slot, value in call.values.items():
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


def run(arguments: argparse.Namespace) -> int:
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
