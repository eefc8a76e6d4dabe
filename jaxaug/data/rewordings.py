"""The corpus of rewordings: descriptions and sentences, each in five other wordings.

Language models wrote every text; none comes from a data set. docs/rewordings.md is the
data card. `benchmarks/rewordings.py` checks the pieces of the corpus and packs them
into `rewordings.jsonl.xz`.
"""

import functools
import hashlib
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from etils import epath
from jaxaug_base.files import replacing

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable
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
        out: folder to write.
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
