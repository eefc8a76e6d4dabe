"""`jaxaug data check`: reports all problems of a data folder.

It applies the rules of the readers (`check`, `schema`, `rename`, `folders`) and the
rules of `consistency`. Readers stop at the first problem; this command reports all of
them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from etils import epath

from jaxaug.core import json_places
from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, parse_json, read_text
from jaxaug.core.progress import progress
from jaxaug.data import consistency, folders
from jaxaug.data.check import dialogue_problems, repeated_id
from jaxaug.data.problem import Problem
from jaxaug.data.rename import mismatches
from jaxaug.data.schema import Schema, check_schema

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
            path: file of the problems.
            text: JSON text of the file, which gives lines and columns; empty if
                unknown.
            problems: problems to add.
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


Formats = Callable[[Schema], consistency.Unreadable]
"""Schema -> function that finds the formats that cannot read a value back."""


def _no_formats(schema: Schema) -> consistency.Unreadable:
    del schema
    return consistency.no_format


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
        report.add(path, text, consistency.schema(schema, is_variant, unreadable))
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
    unreadable: consistency.Unreadable,
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
        problems += consistency.dialogue(data, index, schema, unreadable)
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
            problems += [] if problems else consistency.variant(schemas[split], schema)
            report.add(path, read_text(path, FETCH_AGAIN), problems)
    if labels:
        report.summary.append(
            f"variants {name}: {', '.join(labels)} ({', '.join(every) or 'no split'})"
        )
