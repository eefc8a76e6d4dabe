"""Labeled pairs of sentences: MSRP, Quora, Twitter, and user-defined ones.

A file has a header and one pair per line. Columns are separated by tabs, or by commas
in `.csv` files. `FORMS` has the three known headers. Files of Twitter URL paraphrases
have none: their columns are the sentences and the label.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, shown


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, and whether annotators judged them to have the same meaning."""

    first: str
    second: str
    same: bool


class Form(NamedTuple):
    """The columns of a file; if `quoted`, quotation marks may enclose a cell."""

    label: str
    first: str
    second: str
    quoted: bool = True


FORMS: Mapping[str, Form] = {
    "MSRP": Form("Quality", "#1 String", "#2 String", quoted=False),
    "Quora": Form("is_duplicate", "question1", "question2"),
    "any other": Form("label", "first", "second", quoted=False),
}
"""Name of a format -> its columns; files may have further columns."""

_WITHOUT_HEADER = ["first", "second", "label"]

_FIX = (
    "Write a header and a pair a line, tabs between the columns `label`, `first` and "
    "`second`; a label is 1 or 0. MSRP (Quality, #1 String, #2 String) and Quora's "
    "question pairs (is_duplicate, question1, question2) are read as published, and "
    "files without a header whose columns are first, second, and label (Twitter)."
)


def read(path: PathLike) -> list[Pair]:
    """Returns the pairs of a file in order.

    Raises:
        UserError: the file is missing, its header is unknown, or a line lacks a label
            or a sentence.
    """
    lines = io.StringIO(read_text(path, _FIX), newline="")
    mark = "," if str(path).lower().endswith(".csv") else "\t"
    header = lines.readline().rstrip("\r\n").split(mark)
    names = [name.strip('"') for name in header]
    first_row = 2
    if len(header) == 3 and header[2] in ("0", "1"):
        names, first_row = _WITHOUT_HEADER, 1
        lines.seek(0)
    form = next((f for f in FORMS.values() if {*f[:3]} <= set(names)), None)
    if form is None:
        raise UserError(f"{path}: its header is {shown(names)}. {_FIX}")
    if form.quoted or mark == ",":
        rows = csv.reader(lines, delimiter=mark)
    else:
        rows = csv.reader(lines, delimiter=mark, quoting=csv.QUOTE_NONE)
    return list(_pairs(path, rows, form, names, first_row))


def _pairs(
    path: PathLike, rows: Iterator, form: Form, names: list[str], first_row: int
) -> Iterator:
    label, first, second = (names.index(name) for name in form[:3])
    for number, cells in enumerate(rows, first_row):
        problem = None
        if len(cells) != len(names):
            problem = f"{len(cells)} columns, the header has {len(names)}"
        elif cells[label].strip() not in ("0", "1"):
            problem = f"label {shown(cells[label])}, expected 0 or 1"
        elif not (cells[first].strip() and cells[second].strip()):
            problem = "a sentence is empty"
        if problem:
            raise UserError(f"{path}: row {number}: {problem}: {shown(cells)}. {_FIX}")
        yield Pair(
            cells[first].strip(), cells[second].strip(), cells[label].strip() == "1"
        )
