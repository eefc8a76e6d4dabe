"""The corpus of rewordings: descriptions and sentences, each in five other wordings.

Language models wrote every text; none comes from a data set. docs/rewordings.md is the
data card. `benchmarks/rewordings.py` checks the pieces of the corpus and packs them
into `rewordings.jsonl.xz`.

A prompt of the model that rewords has the description of the service and the names of
the other slots, if any, and then the text. Each line behind it has a grade, from 1
(near the text) to 5 (far from it), and a rewording. The model learns several lines of a
text in one sequence, in random order of their grades. One line is enough for its use:

    Books visits at a veterinary clinic
    slots: pet_name, owner_phone
    slot visit_date: Date of the visit
    3: Day on which the visit takes place

Training and inference both use `Source.prompt`, so that their tokens are equal.
"""

import functools
import hashlib
import json
import lzma
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from etils import epath
from jaxaug_base.files import replacing

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable
from jaxaug.core.text import clean
from jaxaug.data import record_files

ARCHIVE = Path(__file__).with_suffix(".jsonl.xz")
NAME = "rewordings"
SPLITS = ("train", "validation", "test")
KINDS = ("service", "intent", "slot", "name", "sentence")
CARD = """---
license: cc-by-4.0
language: en
task_categories: [text-generation]
configs:
- config_name: default
  data_files:
{files}
---
# Rewordings

Descriptions of services, operations, and parameters, names, and sentences of users.
Each has five faithful rewordings (`good`, from the nearest to the farthest) and two
near misses (`bad`), which share words with the text and mean something else. Language
models wrote all texts for the project jaxaug. License: CC BY 4.0.
"""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text with its rewordings.

    Attributes:
        service: name of the invented service or domain, such as `VetClinic_1`.
        kind: `service`, `intent`, or `slot` for a description, `name` for the name of a
            slot or intent, `sentence` for a sentence of a user.
        name: name of the described part, or the type of a sentence, such as `question`.
        values: values of a categorical slot, else None.
        text: the original.
        good: five faithful rewordings, from the nearest to the farthest.
        bad: two near misses.
    """

    service: str
    kind: str
    name: str
    values: tuple[Any, ...] | None
    text: str
    good: tuple[str, ...]
    bad: tuple[str, ...]

    @property
    def split(self) -> str:
        """Split of the service: a tenth each are `validation` and `test`.

        The number behind the name of a service does not count, so that services of one
        domain stay together.
        """
        domain = self.service.rsplit("_", 1)[0]
        part = int(hashlib.sha256(domain.encode()).hexdigest(), 16) % 10
        return {0: "validation", 1: "test"}.get(part, "train")


@functools.cache
def records() -> tuple[Record, ...]:
    """Returns the whole corpus, in the order of its services."""
    return read(ARCHIVE)


def read(path: PathLike) -> tuple[Record, ...]:
    """Returns the records of a file of JSON lines, plain or compressed by xz.

    Raises:
        UserError: a line is no record of the corpus.
    """
    data = epath.Path(path).read_bytes()
    if epath.Path(path).suffix == ".xz":
        data = lzma.decompress(data)
    found = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=Record))
        except msgspec.MsgspecError as error:
            raise UserError(
                f"{path}: line {number}: {error}. Write an object with the keys "
                f"{', '.join(Record.__struct_fields__)}."
            ) from None
    return tuple(found)


def split(name: str) -> list[Record]:
    """Returns the records of a split: `train`, `validation`, or `test`."""
    return [one for one in records() if one.split == name]


def pairs(name: str) -> list[tuple[str, str]]:
    """Returns the (text, rewording) pairs of a split, without names."""
    return [
        (one.text, good)
        for one in split(name)
        if one.kind != "name"
        for good in one.good
    ]


def export(out: PathLike, form: str) -> Counter[str]:
    """Writes a folder that `datasets.load_dataset` reads, a file for each split.

    Args:
        form: `jsonl` or `parquet`, which needs the package pyarrow.

    Returns:
        Number of records of each split.

    Raises:
        UserError: a file cannot be written, or pyarrow is missing.
    """
    lists = {"values", "good", "bad"}
    columns = {
        key: ["string"] if key in lists else "string"
        for key in Record.__struct_fields__
    }
    check_writable(out)
    folder = epath.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for name in SPLITS:
        rows = (msgspec.to_builtins(one) for one in split(name))
        # A column of a table has one type, so numbers among the values are texts.
        rows = (
            row | {"values": row["values"] and [_text(v) for v in row["values"]]}
            for row in rows
        )
        counts[name] = record_files.write(folder / f"{name}.{form}", rows, columns)
    files = "\n".join(f"  - split: {name}\n    path: {name}.{form}" for name in SPLITS)
    with replacing(folder / "README.md") as temporary:
        temporary.write_text(CARD.format(files=files))
    return counts


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def run_export(arguments: Any) -> int:
    """Runs `jaxaug data export rewordings`."""
    out = arguments.out or NAME
    counts = export(out, arguments.format or "jsonl")
    found = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print(f"wrote {found} records to {out}")
    return 0


GRADES = (1, 2, 3, 4, 5)
END = "\n"
"""End of a rewording."""
_SIBLINGS = 6
# Share of the examples without service, slots, and name, as for texts without a schema.
_BARE = 0.2


class Source(NamedTuple):
    """A text to reword.

    Attributes:
        kind: a kind of `rewordings.KINDS`.
        text: the description, name, or sentence.
        name: name of the described slot or intent, if any.
        service: description of its service, if any.
        siblings: names of other slots of the service; the first few are used.
    """

    kind: str
    text: str
    name: str = ""
    service: str = ""
    siblings: Sequence[str] = ()

    def prompt(self, grade: int) -> str:
        """Returns the prompt for a rewording of a grade.

        The rewording follows with a space before it and `END` behind it.
        """
        lines = [clean(self.service, False)] if self.service else []
        if self.siblings:
            lines.append(f"slots: {', '.join(self.siblings[:_SIBLINGS])}")
        named = f"{self.kind} {self.name}" if self.name else self.kind
        lines += [f"{named}: {clean(self.text, False)}", f"{grade}:"]
        return "\n".join(lines)


def examples(
    records: Iterable[Record], passes: int, most: int
) -> list[tuple[str, str]]:
    """Returns (prompt, lines) examples of the corpus; equal calls have equal results.

    Args:
        passes: number of examples in which each rewording occurs. In every other pass,
            the text and its nearest rewording trade places.
        most: largest number of rewordings of an example.
    """
    found = list(records)
    contexts = _contexts(found)
    chosen = random.Random(0)
    return [
        example
        for number in range(passes)
        for record in found
        for example in _examples(
            record, contexts[record.service], number % 2 == 1, most, chosen
        )
    ]


class _Context(NamedTuple):
    description: str
    slots: list[str]


def _contexts(records: Sequence[Record]) -> dict[str, _Context]:
    contexts: dict[str, _Context] = {}
    for record in records:
        context = contexts.setdefault(record.service, _Context("", []))
        if record.kind == "service":
            contexts[record.service] = context._replace(description=record.text)
        if record.kind == "slot":
            context.slots.append(record.name)
        if record.kind == "name":
            context.slots.append(record.text)
    return contexts


def _source(record: Record, context: _Context, text: str) -> Source:
    own = record.text if record.kind == "name" else record.name
    others = [name for name in context.slots if name != own]
    match record.kind:
        case "slot":
            return Source("slot", text, record.name, context.description, others)
        case "intent":
            return Source("intent", text, record.name, context.description)
        case "name":
            return Source("name", text, siblings=others)
    return Source(record.kind, text)


def _examples(
    record: Record, context: _Context, trades: bool, most: int, chosen: random.Random
) -> Iterator[tuple[str, str]]:
    text, good = record.text, list(record.good)
    if trades:
        text, good[0] = good[0], text
    order = list(GRADES[: len(good)])
    chosen.shuffle(order)
    parts = -(-len(order) // most)
    for part in range(parts):
        source = _source(record, context, text)
        if chosen.random() < _BARE:
            source = Source(source.kind, source.text)
        grades = order[part::parts]
        lines = [f" {clean(good[grade - 1], False)}{END}" for grade in grades]
        behind = [f"{grade}:{line}" for grade, line in zip(grades, lines, strict=True)]
        yield source.prompt(grades[0]), lines[0] + "".join(behind[1:])
