"""`jaxaug data check`: reports all problems of a data folder.

It applies the rules of the readers (`check`, `schema`, `rename`, `folders`) and the
rules below: problems that readers accept but that harm the training or scores of a
tracker. SGD itself satisfies every rule except the notes. Readers stop at the first
problem; this command reports all of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from etils import epath

from jaxaug.core import json_places
from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, parse_json, read_text, shown
from jaxaug.core.json_places import Keys
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import clean
from jaxaug.data import folders
from jaxaug.data.check import dialogue_problems, place_of, repeated_id
from jaxaug.data.rename import MISMATCH, mismatches
from jaxaug.data.schema import Intent, Problem, Schema, Service, Slot, check_schema

DONTCARE = "dontcare"

Unreadable = Callable[[str, str, str], Sequence[str]]
"""(service, slot, value) -> the formats that cannot read the value back."""


def no_format(service: str, slot: str, value: str) -> Sequence[str]:
    """Returns no format; the `Unreadable` of checks without formats."""
    del service, slot, value
    return ()


def dialogue_doubts(
    data: list[Any], index: int, schema: Schema, unreadable: Unreadable = no_format
) -> Iterator[Problem]:
    """Yields the problems of a dialogue that passes `check.dialogue_problems`.

    The rules are:

    - The id has no line break or tab.
    - Speakers alternate, and the user begins.
    - No value is blank.
    - A categorical value is a possible value of the slot, or `dontcare`.
    - The text of a span is a value of its slot.

    Notes report empty utterances, user frames without a state, and values that a format
    cannot read back.
    """
    name = data[index]["dialogue_id"]
    yield from _name(name, (index, "dialogue_id"), f"dialogue {shown(name)}", "id")
    speakers = ("USER", "SYSTEM")
    for number, turn in enumerate(data[index]["turns"]):
        keys: Keys = (index, "turns", number)
        place = place_of(data, keys)
        if turn["speaker"] != speakers[number % 2]:
            got = f"expected {speakers[number % 2]}, got {turn['speaker']}"
            text = f"{got}: speakers take turns, the user begins"
            fix = "Join the turns of one speaker, or add the missing one."
            yield Problem("speaker order", (*keys, "speaker"), place, text, fix)
            # A single extra turn must not make all later turns wrong.
            speakers = speakers[::-1]
        if not turn["utterance"].strip():
            text, fix = "the utterance is empty", "Leave it so if nothing was said."
            yield Problem("no text", (*keys, "utterance"), place, text, fix, True)
        for frame_number, frame in enumerate(turn["frames"]):
            here = (*keys, "frames", frame_number)
            place = place_of(data, here)
            yield from _frame(turn, frame, here, place, schema, unreadable)


def _name(name: str, keys: Keys, place: str, what: str) -> Iterator[Problem]:
    """Yields a problem if a name is blank, or has a line break or a tab."""
    problem = "" if name.strip() else "is blank"
    if name.splitlines() != [name] or "\t" in name:
        problem = "holds a line break or a tab, which ends a line or field of tables"
    if problem:
        text = f"the {what} {shown(name)} {problem}"
        fix = "Rename it, everywhere in the folder."
        yield Problem("name with a line break", keys, place, text, fix)


def _blank(value: str, keys: Keys, place: str, slot: str) -> Iterator[Problem]:
    if not value.strip():
        text = (
            f"slot {shown(slot)} has the value {shown(value)}, which no format can "
            "write"
        )
        fix = "Write the value, or leave it out."
        yield Problem("empty value", keys, place, text, fix)


def _unread(
    names: Sequence[str], keys: Keys, place: str, slot: str, value: str
) -> Iterator[Problem]:
    if names:
        text = (
            f"slot {shown(slot)} has the value {shown(value)}, which cannot be read "
            f"back from the text of {', '.join(names)}"
        )
        fix = "Reword the value, or use another format."
        yield Problem("value not read back", keys, place, text, fix, True)


def _frame(
    turn: dict[str, Any],
    frame: dict[str, Any],
    keys: Keys,
    place: str,
    schema: Schema,
    unreadable: Unreadable,
) -> Iterator[Problem]:
    service = schema.service(frame["service"])
    state = frame.get("state")
    if state is None and turn["speaker"] == "USER":
        name = shown(service.name)
        text = f"the frame of {name} has no state: nothing is learned from it"
        fix = "Add the state, or leave it so on purpose."
        yield Problem("no state", keys, place, text, fix, True)
    values = state["slot_values"] if state else {}
    for name, found in values.items():
        slot = service.slot(name)
        # A categorical slot without possible values is a problem of the schema.
        possible = slot.possible_values if slot.is_categorical else ()
        for number, value in enumerate(found):
            here = (*keys, "state", "slot_values", name, number)
            if not value.strip():
                yield from _blank(value, here, place, name)
            elif not possible:
                lost = unreadable(service.name, name, value)
                yield from _unread(lost, here, place, name, value)
            elif value not in possible and value != DONTCARE:
                hint = suggestion(value, possible).rstrip(".")
                text = (
                    f"slot {shown(name)} has the value {shown(value)}, expected one of "
                    f"its possible_values or {DONTCARE!r} ({hint})"
                )
                fix = "Correct the value, or add it to the schema."
                yield Problem("value not possible", here, place, text, fix)
    for number, action in enumerate(frame.get("actions", ())):
        for key in ("values", "canonical_values"):
            for place_in, value in enumerate(action.get(key, ())):
                here = (*keys, "actions", number, key, place_in)
                yield from _blank(value, here, place, action.get("slot", ""))
    for number, span in enumerate(frame.get("slots", ())):
        yield from _span(turn, frame, values, span, (*keys, "slots", number), place)


def _span(
    turn: dict[str, Any],
    frame: dict[str, Any],
    state: dict[str, list[str]],
    span: dict[str, Any],
    keys: Keys,
    place: str,
) -> Iterator[Problem]:
    name = span["slot"]
    said = [
        value
        for action in frame.get("actions", ())
        if action.get("slot") == name
        for value in (*action.get("values", ()), *action.get("canonical_values", ()))
    ]
    # In SGD a state may lack a value that the user mentions; actions have all values.
    values = said or state.get(name, [])
    text = turn["utterance"][span["start"] : span["exclusive_end"]]
    if values and text not in values:
        where = [turn["utterance"].find(value) for value in values]
        best = next(
            ((at, v) for at, v in zip(where, values, strict=True) if at >= 0), None
        )
        hint = f"{shown(best[1])} begins at {best[0]}. " if best else ""
        found = (
            f"slot {shown(name)}: the text from {span['start']} to "
            f"{span['exclusive_end']} is {shown(text)}, expected one of its values: "
            f"{shown(values)}"
        )
        fix = (
            f"{hint}Correct start and exclusive_end (characters, from 0), or the value."
        )
        yield Problem("span is not the value", (*keys, "start"), place, found, fix)


def schema_doubts(
    of: Schema, is_note: bool, unreadable: Unreadable = no_format
) -> Iterator[Problem]:
    """Yields the problems of a schema that passes `check_schema`.

    Within a service, descriptions are distinct and not empty. Names have no line breaks
    or tabs, and no possible value is blank. A note reports possible values that a
    format cannot read back.

    Args:
        is_note: whether repeated descriptions are only notes, as in variants, whose
            paraphrases may coincide.
        unreadable: finds the formats that cannot read a value back.
    """
    for index, service in enumerate(of.services):
        yield from _names_and_values(service, index, unreadable)
        yield from _descriptions(service, index, "slots", service.slots, is_note)
        yield from _descriptions(service, index, "intents", service.intents, is_note)


def _descriptions(
    service: Service,
    index: int,
    field: str,
    items: Sequence[Slot | Intent],
    is_note: bool,
) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for number, item in enumerate(items):
        described = clean(item.description, True).rstrip(" .")
        keys = (index, field, number, "description")
        place = f"service {shown(service.name)}, {field[:-1]} {shown(item.name)}"
        if not described:
            text = "the description is empty, and it is all that a tracker reads"
            fix = "Say in a few words what it means."
            yield Problem("no description", keys, place, text, fix, is_note)
        elif described in first:
            text = (
                f"has the description of {shown(first[described])}, "
                f"{shown(item.description)}: a tracker cannot tell them apart"
            )
            fix = "Say in what they differ."
            yield Problem("repeated description", keys, place, text, fix, is_note)
        first.setdefault(described, item.name)


def _names_and_values(
    service: Service, index: int, unreadable: Unreadable
) -> Iterator[Problem]:
    place = f"service {shown(service.name)}"
    yield from _name(service.name, (index, "service_name"), place, "name")
    for number, intent in enumerate(service.intents):
        keys: Keys = (index, "intents", number, "name")
        yield from _name(intent.name, keys, place, "name of the intent")
    for number, slot in enumerate(service.slots):
        keys = (index, "slots", number, "name")
        yield from _name(slot.name, keys, place, "name of the slot")
        for at, value in enumerate(slot.possible_values):
            keys = (index, "slots", number, "possible_values", at)
            yield from _blank(value, keys, place, slot.name)
            if slot.is_categorical and value.strip():
                lost = unreadable(service.name, slot.name, value)
                yield from _unread(lost, keys, place, slot.name, value)


def variant_doubts(original: Schema, other: Schema) -> Iterator[Problem]:
    """Yields the problems of a variant that passes `rename.mismatches`.

    Services keep their order, and categorical slots keep their values. A note reports a
    slot or intent whose name belongs to another one in the original service.
    """
    names = [service.name for service in original.services]
    for index, (old, new) in enumerate(
        zip(original.services, other.services, strict=True)
    ):
        # SGD-X appends the number of the variant.
        meant = new.name if new.name in names else new.name[:-1]
        if meant in names and meant != old.name:
            at = f"stands where the original has {shown(old.name)}"
            text, place = f"{at}, and is called like {shown(meant)}", shown(new.name)
            fix = "Variants are matched by position: restore the order of the services."
            keys: Keys = (index, "service_name")
            yield Problem(MISMATCH, keys, f"service {place}", text, fix)
            continue
        here = f"service {shown(new.name)} (variant of {shown(old.name)})"
        for number, (a, b) in enumerate(zip(old.slots, new.slots, strict=True)):
            if not (a.is_categorical and a.possible_values):
                continue
            if {*a.possible_values} != {*b.possible_values}:
                mine, theirs = list(b.possible_values), list(a.possible_values)
                text = (
                    f"slot {shown(b.name)} has the values {shown(mine)}, the "
                    f"original's {shown(a.name)} has {shown(theirs)}"
                )
                fix = "Dialogues keep their values: restore the values of the original."
                keys = (index, "slots", number, "possible_values")
                yield Problem(MISMATCH, keys, here, text, fix)
        yield from _moved("slot", old.slots, new.slots, (index, "slots"), here)
        yield from _moved("intent", old.intents, new.intents, (index, "intents"), here)


def _moved(
    what: str,
    old: Sequence[Slot | Intent],
    new: Sequence[Slot | Intent],
    keys: Keys,
    place: str,
) -> Iterator[Problem]:
    names = [item.name for item in old]
    for number, item in enumerate(new):
        if item.name in names and item.name != names[number]:
            text = (
                f"{what} {shown(item.name)} stands where the original has "
                f"{shown(names[number])}, and another {what} of the original has its "
                "name"
            )
            fix = "Variants are matched by position: see whether the order was lost."
            at = (*keys, number, "name")
            yield Problem("name of another", at, place, text, fix, True)


LIMIT = 20
"""Maximum number of printed problems per rule."""

_AT = re.compile(r" at line (\d+), column (\d+)")
_OTHER_NAMES = {"dev": ("validation", "valid", "val"), "test": ("eval",)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with its file. Line and column start at 1; None means unknown."""

    path: str
    place: tuple[int, int] | None
    problem: Problem

    def __str__(self) -> str:
        place = ":{}:{}".format(*self.place) if self.place else ""
        kind = "note" if self.problem.is_note else "error"
        return f"{self.path}{place}: {kind}: {self.problem} [{self.problem.rule}]"


@dataclass(slots=True)
class Report:
    """A summary of a folder and its problems.

    Attributes:
        findings: the first `LIMIT` errors and the first `LIMIT` notes of each rule.
        errors: rule -> number of errors.
        notes: rule -> number of notes, which readers accept.
        summary: lines about splits and variants.
    """

    findings: list[Finding] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    summary: list[str] = field(default_factory=list)

    def add(self, path: PathLike, text: str, problems: Iterable[Problem]) -> None:
        """Adds the problems of a file.

        Args:
            text: JSON text of the file, which gives lines and columns; empty if
                unknown.
        """
        kept = []
        for problem in problems:
            counts = self.notes if problem.is_note else self.errors
            counts[problem.rule] = counts.get(problem.rule, 0) + 1
            if counts[problem.rule] <= LIMIT:
                kept.append(problem)
        if not kept:
            return
        wanted = [problem.keys for problem in kept if text]
        places = json_places.places(text, wanted)
        found = [Finding(str(path), places.get(one.keys), one) for one in kept]
        self.findings += sorted(found, key=lambda one: one.place or (0, 0))

    def add_error(self, rule: str, path: PathLike, error: UserError) -> None:
        """Adds an error that a reader raised."""
        self.errors[rule] = self.errors.get(rule, 0) + 1
        if self.errors[rule] > LIMIT:
            return
        text, _, fix = str(error).removeprefix(f"{path}: ").partition(". ")
        match = _AT.search(text)
        place = (int(match[1]), int(match[2])) if match else None
        problem = Problem(rule, (), "", text, fix)
        self.findings.append(Finding(str(path), place, problem))

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        for counts in (self.errors, self.notes):
            for rule, count in counts.items():
                if count > LIMIT:
                    lines.append(f"... and {count - LIMIT} more [{rule}]")
        if lines:
            lines.append("")
        errors, notes = sum(self.errors.values()), sum(self.notes.values())
        last = f"{errors or 'no'} error{'' if errors == 1 else 's'}"
        if notes:
            last += f", {notes} note{'' if notes == 1 else 's'}"
        return "\n".join([*lines, *self.summary, last])


Formats = Callable[[Schema], Unreadable]
"""Schema -> function that finds the formats that cannot read a value back."""


def _no_formats(schema: Schema) -> Unreadable:
    del schema
    return no_format


def inspect(data_dir: PathLike | None, formats: Formats = _no_formats) -> Report:
    """Returns a report on all schemas, dialogues, and variants of a data folder.

    Args:
        data_dir: folder in the layout of the SGD repository, local or gs://.
        formats: formats that must read every value back; none by default.

    Raises:
        UserError: the folder is missing, or no split in it has a schema.
    """
    folder = folders.resolve_data_dir(data_dir)
    report = Report()
    schemas = {}
    for split in folders.SPLITS:
        found = _split(folder, split, report, formats)
        if found is not None:
            schemas[split] = found
    try:
        variants = folders.variant_folders(folder)
    except UserError as error:
        report.add_error("variants folder", folder, error)
        variants = {"sgdx": folders.sgdx_folder(folder)}
    for name, path in variants.items():
        _variants(name, path, schemas, report)
    if not any(folders.variant_names(path) for path in variants.values()):
        report.summary.append("no variants: schema sensitivity cannot be measured")
    return report


def _parsed(path: epath.Path, report: Report) -> tuple[str, Any] | None:
    try:
        text = read_text(path, FETCH_AGAIN)
        return text, parse_json(text, path, FETCH_AGAIN)
    except UserError as error:
        report.add_error("not JSON", path, error)
        return None


def _schema(
    path: epath.Path, is_variant: bool, report: Report, formats: Formats = _no_formats
) -> Schema | None:
    """Returns the schema in a file, or None if the file is not JSON."""
    parsed = _parsed(path, report)
    if parsed is None:
        return None
    text, data = parsed
    schema, problems = check_schema(data)
    report.add(path, text, problems)
    if not problems:
        unreadable = formats(schema)
        report.add(path, text, schema_doubts(schema, is_variant, unreadable))
    return schema


def _split(
    folder: epath.Path, split: str, report: Report, formats: Formats
) -> Schema | None:
    """Checks a split. Returns its schema, or None if no schema can be read."""
    try:
        path = folders.schema_path(folder, split)
    except UserError as missing:
        error = missing
        for other in _OTHER_NAMES.get(split, ()):
            if (folder / other).is_dir():
                error = UserError(f"{folder / other} is no split. Call it {split}.")
        report.add_error("missing file", folder / split / "schema.json", error)
        report.summary.append(f"{split}: missing")
        return None
    schema = _schema(path, False, report, formats)
    try:
        paths = folders.dialogue_paths(folder, split)
    except UserError as error:
        report.add_error("missing file", path.parent, error)
        paths = []
    for other in sorted(path.parent.glob("*.json"), key=lambda path: path.name):
        if other not in paths and other != path:
            text = "is not read: dialogues are in dialogues_*.json"
            fix = "Rename the file, such as to dialogues_001.json."
            report.add(other, "", [Problem("not read", (), "", text, fix, True)])
    if schema is None:
        report.summary.append(f"{split}: the schema cannot be read, dialogues were not")
        return None
    dialogues = turns = 0
    unreadable = formats(schema)
    first: dict[str, epath.Path] = {}
    for file in progress(paths, desc=split, unit="file", leave=False):
        parsed = _parsed(file, report)
        if parsed is not None:
            found = _dialogues(file, *parsed, schema, first, report, unreadable)
            dialogues, turns = dialogues + found[0], turns + found[1]
    report.summary.append(
        f"{split}: {len(schema.services):,} services, {dialogues:,} dialogues, "
        f"{turns:,} turns"
    )
    return schema


def _dialogues(
    path: epath.Path,
    text: str,
    data: Any,
    schema: Schema,
    first: dict[str, epath.Path],
    report: Report,
    unreadable: Unreadable,
) -> tuple[int, int]:
    """Checks a dialogue file. Returns its number of dialogues and of turns."""
    problems = dialogue_problems(data, schema)
    wrong = {problem.keys[0] for problem in problems if problem.keys}
    dialogues = turns = 0
    for index, dialogue in enumerate(data if isinstance(data, list) else ()):
        dialogues += 1
        if index in wrong:
            listed = dialogue.get("turns") if isinstance(dialogue, dict) else None
            turns += len(listed) if isinstance(listed, list) else 0
            continue
        turns += len(dialogue["turns"])
        name = dialogue["dialogue_id"]
        if first.setdefault(name, path) is not path:
            problems.append(repeated_id(name, index, first[name]))
        problems += dialogue_doubts(data, index, schema, unreadable)
    report.add(path, text, problems)
    return dialogues, turns


def _variants(
    name: str, folder: epath.Path, schemas: dict[str, Schema], report: Report
) -> None:
    labels = folders.variant_names(folder)
    found = {label: folders.variant_splits(folder, label) for label in labels}
    every = [s for s in folders.SPLITS if any(s in splits for splits in found.values())]
    for label, splits in found.items():
        for split in every or folders.SPLITS[:1]:
            if split not in splits:
                path = folder / label / split / "schema.json"
                text = f"is missing: {label} has no wording for {split}"
                fix = "Add the file, or remove the variant."
                problem = Problem("missing variant", (), "", text, fix, bool(splits))
                report.add(path, "", [problem])
        for split in splits:
            path = folder / label / split / "schema.json"
            schema = _schema(path, True, report)
            if schema is None or split not in schemas:
                continue
            problems = mismatches(schemas[split], schema)
            problems += [] if problems else variant_doubts(schemas[split], schema)
            report.add(path, read_text(path, FETCH_AGAIN), problems)
    if labels:
        report.summary.append(
            f"variants {name}: {', '.join(labels)} ({', '.join(every) or 'no split'})"
        )
