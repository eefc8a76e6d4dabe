"""Converts MultiWOZ 2.2 from its published layout to a data folder of jaxaug.

MultiWOZ 2.2 (Zang et al., 2020) differs from the layout of SGD in these points:

- A single `schema.json` for all splits omits empty fields of slots and intents.
- Dialogues have frames of services that they are not about.
- Some slots have a value copied from another slot instead of a span.
- Some names are not in the schema.

The readers of data folders reject these points, so the conversion corrects them and
counts every change.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json, write_text
from jaxaug.data import folders
from jaxaug.data.check import ServiceRules, is_idle, rules_of
from jaxaug.data.datasets import DataSet
from jaxaug.data.schema import Schema, check_schema, refuse

_FIX = (
    "Name the folder data/MultiWOZ_2.2 of the repository budzianowski/multiwoz, or "
    "get it with `jaxaug data fetch multiwoz22`."
)
_NONE = "NONE"
_COMMIT = "fe0c8e65cfcd8462bd33c86e35f21addc84ca82b"


@dataclass(slots=True)
class Report:
    """The result of a conversion.

    Attributes:
        changes: description of a change -> number of occurrences.
        first: description of a change -> dialogue, turn, and value of its first
            occurrence.
    """

    dialogues: Counter[str] = field(default_factory=Counter)
    user_turns: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def note(self, change: str, where: str, what: object) -> None:
        """Counts one change."""
        self.changes[change] += 1
        self.first.setdefault(change, f"{where}: {what}")

    def __str__(self) -> str:
        lines = [
            f"{split}: {self.dialogues[split]:,} dialogues, "
            f"{self.user_turns[split]:,} turns of the user"
            for split in folders.SPLITS
            if split in self.dialogues
        ]
        lines += [
            f"{change}: {count:,} (first: {self.first[change]})"
            for change, count in self.changes.items()
        ]
        return "\n".join(lines)


def convert(source: Path, out: Path, mentioned_only: bool = False) -> Report:
    """Writes MultiWOZ 2.2 in the layout that jaxaug reads.

    Each user turn gets a frame for every service of the schema; frames of unused
    services are empty. Joint accuracy therefore covers all domains of a turn and counts
    hallucinated domains as errors.

    Args:
        source: folder with `schema.json` and `{train,dev,test}/dialogues_*.json`.
        out: data folder to write; existing files are replaced.

    Raises:
        UserError: a file is missing or does not have the layout of MultiWOZ 2.2.
    """
    writer = Writer.of(source / "schema.json", out, mentioned_only, _FIX)
    for split in folders.SPLITS:
        paths = sorted((source / split).glob("dialogues_*.json"))
        if not paths:
            raise UserError(f"{source / split}: has no dialogues_*.json. {_FIX}")
        for path in paths:
            data = read_json(path, _FIX)
            try:
                writer.write(split, path.name, data)
            except (KeyError, TypeError, AttributeError) as error:
                raise UserError(
                    f"{path}: is not in the layout of MultiWOZ 2.2 "
                    f"({type(error).__name__}: {error}). {_FIX}"
                ) from None
    return writer.report


@dataclass(slots=True)
class Writer:
    """Writes a data folder from dialogues in the layout of MultiWOZ 2.2."""

    out: Path
    objects: list[dict[str, Any]]
    schema: Schema
    mentioned_only: bool
    report: Report = field(default_factory=Report)

    @classmethod
    def of(cls, path: Path, out: Path, mentioned_only: bool, fix: str) -> "Writer":
        """Reads the schema of MultiWOZ 2.2 and adds the empty fields that it omits.

        Raises:
            UserError: the file is missing or is no schema; the message ends with `fix`.
        """
        data = read_json(path, fix)
        for service in data if isinstance(data, list) else ():
            for slot in service.get("slots", ()):
                slot.setdefault("possible_values", [])
            for intent in service.get("intents", ()):
                intent.setdefault("result_slots", [])
        schema, problems = check_schema(data)
        refuse(problems, path)
        return cls(out, data, schema, mentioned_only)

    def write(self, split: str, name: str, data: Iterable[Mapping[str, Any]]) -> None:
        """Converts and writes one file of dialogues and the schema next to it."""
        rules = rules_of(self.schema)
        found = [
            _dialogue(item, rules, self.mentioned_only, self.report) for item in data
        ]
        folder = self.out / split
        write_text(folder / "schema.json", json.dumps(self.objects, indent=2) + "\n")
        write_text(folder / name, json.dumps(found, indent=1) + "\n")
        self.report.dialogues[split] += len(found)
        self.report.user_turns[split] += sum(
            turn["speaker"] == "USER" for item in found for turn in item["turns"]
        )


def _dialogue(
    item: Mapping[str, Any],
    rules: Mapping[str, ServiceRules],
    mentioned_only: bool,
    report: Report,
) -> dict[str, Any]:
    name = item["dialogue_id"]
    turns = [
        {
            "speaker": turn["speaker"],
            "utterance": turn["utterance"],
            "frames": _frames(turn, rules, f"{name} turn {index}", report),
        }
        for index, turn in enumerate(item["turns"])
    ]
    frames = [frame for turn in turns for frame in turn["frames"]]
    about = {frame["service"] for frame in frames if not is_idle(frame)}
    services = [n for n in rules if n in about or n in item["services"]]
    if not services:
        report.note("a dialogue about no service is given all", name, item["services"])
        services = list(rules)
    for turn in turns:
        there = {frame["service"]: frame for frame in turn["frames"]}
        if turn["speaker"] != "USER":
            continue
        wanted = services if mentioned_only else rules
        turn["frames"] = [there.get(n) or _idle_frame(n) for n in wanted]
    return {"dialogue_id": name, "services": services, "turns": turns}


def _idle_frame(service: str) -> dict[str, Any]:
    state = {"active_intent": _NONE, "requested_slots": [], "slot_values": {}}
    return {"service": service, "slots": [], "actions": [], "state": state}


def _frames(
    turn: Mapping[str, Any],
    rules: Mapping[str, ServiceRules],
    where: str,
    report: Report,
) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for frame in turn["frames"]:
        service = frame["service"]
        if service not in rules:
            report.note("a frame of no service is left out", where, service)
            continue
        if service in found:
            report.note("a second frame of a service is left out", where, service)
            continue
        of = rules[service]
        spans = _spans(frame, turn["utterance"], of, where, report)
        written = {"service": service, "slots": spans, "actions": []}
        if turn["speaker"] == "USER":
            written["state"] = _state(frame.get("state") or {}, of, where, report)
        elif not spans:
            continue
        found[service] = written
    return list(found.values())


def _spans(
    frame: Mapping[str, Any],
    utterance: str,
    rules: ServiceRules,
    where: str,
    report: Report,
) -> list[dict[str, Any]]:
    found = []
    for span in frame.get("slots", ()):
        start, end = span.get("start"), span.get("exclusive_end")
        if "copy_from" in span:
            report.note("a value copied from a slot is no span", where, span)
        elif span["slot"] not in rules.slots:
            report.note("a span of no slot is left out", where, span)
        elif not (
            type(start) is type(end) is int and 0 <= start < end <= len(utterance)
        ):
            report.note("a span outside the text is left out", where, span)
        else:
            found.append({"slot": span["slot"], "start": start, "exclusive_end": end})
    return found


def _state(
    state: Mapping[str, Any], rules: ServiceRules, where: str, report: Report
) -> dict[str, Any]:
    intent = state.get("active_intent", _NONE)
    if intent not in rules.active_intents:
        report.note("an intent that the schema lacks becomes NONE", where, intent)
        intent = _NONE
    values = {}
    for name, spellings in state.get("slot_values", {}).items():
        if name not in rules.slots:
            report.note("a value of no slot is left out", where, name)
        elif not spellings:
            report.note("a slot with an empty list of values is left out", where, name)
        else:
            values[name] = _texts(spellings)
    requested = state.get("requested_slots", ())
    for name in requested:
        if name not in rules.slots:
            report.note(
                "a requested slot that the schema lacks is left out", where, name
            )
    return {
        "active_intent": intent,
        "requested_slots": [name for name in requested if name in rules.slots],
        "slot_values": values,
    }


def _texts(spellings: Iterable[Any]) -> list[str]:
    return [str(value) for value in spellings]


DATA_SET = DataSet(
    url=f"https://github.com/budzianowski/multiwoz/archive/{_COMMIT}.tar.gz",
    archive="multiwoz.tar.gz",
    keep=r"(?:data/MultiWOZ_2\.2/)?"
    r"((?:train|dev|test)/dialogues_\d+\.json|schema\.json|LICENSE)",
    layout="train/, dev/ and test/, as `jaxaug data convert multiwoz22` writes them "
    "from the repository's data/MultiWOZ_2.2",
    trees={"data/MultiWOZ_2.2": "7049b21a6f91953971abe2057a97810474cefe4c"},
    note="MultiWOZ 2.2, MIT, in the layout of SGD. Use it with --data_dir.",
    convert=convert,
)
