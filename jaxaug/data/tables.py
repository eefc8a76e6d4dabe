"""Reads and writes texts in files: lines, or a column of CSV, TSV, or JSON lines."""

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, parse_json, read_stdin, read_text, shown
from jaxaug.core.suggestion import suggestion

LINES, JSONL = "lines", "jsonl"
STDIN = "-"
DELIMITERS = {"csv": ",", "tsv": "\t"}
"""Kind of a table -> its usual delimiter."""
SOURCE_ROW, SCHEME, NUMBER = "source_row", "scheme", "number"
"""Added columns; `NUMBER` only if there are several outputs of a row."""

_FIX = "Name a UTF-8 file with --in: lines of text, .csv, .tsv or .jsonl."
_DEFAULT_COLUMN = "text"
_MARK = codecs.BOM_UTF8.decode()
_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".jsonl": JSONL}
# Excel writes the delimiter into the first line.
_DIRECTIVE = re.compile(r'"?sep=."?', re.IGNORECASE)
_MARKS = (",", ";", "\t", "|")
# The csv module refuses longer fields.
_LONGEST_FIELD = 1 << 30
_LONGEST = 100_000


class Row(NamedTuple):
    """A row of a table: its text, and the other columns. Blank texts stay unchanged."""

    text: str
    rest: Any


@dataclass(frozen=True)
class Table:
    """The content of a file of texts.

    Attributes:
        kind: `LINES`, a key of `DELIMITERS`, or `JSONL`.
        rows: rows in the order of the file.
        column: column of the texts; empty for lines.
        header: names of the columns of CSV and TSV.
        delimiter: delimiter of CSV and TSV.
        newline: line ending of the file.
        mark: byte order mark at the start of the file, or empty.
    """

    kind: str
    rows: Sequence[Row]
    column: str = ""
    header: Sequence[str] = ()
    delimiter: str = ""
    newline: str = "\n"
    mark: str = ""


def read(path: PathLike, column: str | None = None) -> Table:
    """Reads the texts of a file.

    The delimiter of .csv and .tsv files may also be `,`, `;`, tab, or `|`, if the
    header and all rows use it.

    Args:
        path: file whose suffix gives the kind; `-` reads lines from standard input.
        column: column of the texts; None means `text`, or the only column.

    Raises:
        UserError: the file is missing, is not UTF-8, or is malformed; it has no text, a
            text that is too long, or no such column. The message gives the line.
    """
    table = _read(path, column)
    unit = "row" if table.kind in DELIMITERS else "line"
    for number, row in enumerate(table.rows, 1):
        if len(row.text) > _LONGEST:
            raise UserError(
                f"{_name(path)}: {unit} {number}: a text of {len(row.text):,} "
                f"characters, {_LONGEST:,} are the most. Divide it into sentences, one "
                f"a {unit}."
            )
    return table


def read_texts(path: PathLike, column: str | None = None) -> list[str]:
    """Returns the texts of a file, including blank ones; see `read` for the arguments.

    Raises:
        UserError: for the reasons of `read`, or if every text is blank.
    """
    texts = [row.text for row in read(path, column).rows]
    if not any(text.strip() for text in texts):
        raise UserError(f"{_name(path)}: holds no text. {_FIX}")
    return texts


def _name(path: PathLike) -> str:
    return "standard input" if path == STDIN else str(path)


def _read(path: PathLike, column: str | None) -> Table:
    where = _name(path)
    if path == STDIN:
        text = read_stdin(_FIX)
        marked = text.startswith(_MARK)
        text = text.removeprefix(_MARK)
    else:
        text = read_text(path, _FIX)
        with epath.Path(path).open("rb") as file:
            marked = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
    mark = _MARK if marked else ""
    suffix = epath.Path(path).suffix.lower()
    kind = _SUFFIXES.get(suffix, LINES)
    if suffix == ".json":
        raise UserError(f"{where}: one JSON text is no table of texts. {_FIX}")
    if not text.strip():
        raise UserError(f"{where}: holds no text. {_FIX}")
    if kind == LINES and column is not None:
        raise UserError(
            f"--column {column}: {where} is lines of text. Leave --column out, or name "
            "a .csv, .tsv or .jsonl file."
        )
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    # `splitlines` would also split at characters that belong to a text.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if kind == LINES:
        rows = [Row(line, None) for line in lines]
        return Table(kind, rows, newline=newline, mark=mark)
    if kind == JSONL:
        rows, column = _objects(lines, column, where)
        return Table(kind, rows, column, newline=newline, mark=mark)
    if _DIRECTIVE.fullmatch(lines[0]):
        raise UserError(
            f"{where}: line 1 is {shown(lines[0])}, a setting for Excel, expected the "
            "names of the columns. Remove the line: the delimiter is found without it."
        )
    delimiter = _delimiter(text, DELIMITERS[kind], where)
    header, cells = _cells(text, delimiter, where)
    column = _column(column, header, where)
    place = header.index(column)
    rows = [Row(row[place], row) for row in cells]
    return Table(kind, rows, column, header, delimiter, newline, mark)


def _delimiter(text: str, usual: str, where: str) -> str:
    """Returns the delimiter of a table.

    Args:
        usual: delimiter of the suffix, also used for a single column.

    Raises:
        UserError: two delimiters fit the header and every row.
    """
    marks = [usual, *(mark for mark in _MARKS if mark != usual)]
    dividing = []
    for mark in marks:
        try:
            header = next(_reader(text, mark))
        except csv.Error:
            continue
        if len(header) > 1:
            dividing.append(mark)
    if len(dividing) > 1:
        fitting = [mark for mark in dividing if _fits(text, mark, where)]
        if len(fitting) > 1:
            named = " and ".join(map(shown, fitting))
            raise UserError(
                f"{where}: the columns can be divided at {named}. Use one of these "
                "marks only, and quote the fields and names with another one in them."
            )
        dividing = fitting or dividing
    return dividing[0] if dividing else usual


def _fits(text: str, delimiter: str, where: str) -> bool:
    try:
        _cells(text, delimiter, where)
    except UserError:
        return False
    return True


def _reader(text: str, delimiter: str) -> Any:
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def _cells(text: str, delimiter: str, where: str) -> tuple[list[str], list[list[str]]]:
    reader = _reader(text, delimiter)
    rows = []
    try:
        header = next(reader)
        if not any(name.strip() for name in header):
            raise UserError(
                f"{where}: line 1 names no column. Write the names of the columns "
                "there."
            )
        for row in reader:
            # In a table with a single column, a blank line is an empty text.
            if not row and len(header) > 1:
                continue
            if len(row or [""]) != len(header):
                raise UserError(
                    f"{where}: line {reader.line_num}: {len(row)} columns, the header "
                    f"has {len(header)}. Quote fields with {shown(delimiter)} in them."
                )
            rows.append(row or [""])
    except csv.Error as error:
        raise UserError(
            f"{where}: line {reader.line_num}: {error}. Quote fields that hold a "
            "quote, and double it."
        ) from None
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"{where}: two columns are called {name!r}. Rename one.")
    return header, rows


def _objects(
    lines: Sequence[str], column: str | None, where: str
) -> tuple[list[Row], str]:
    rows = []
    for number, line in enumerate(lines, 1):
        place = f"{where}: line {number}"
        if not line.strip():
            raise UserError(f"{place} is blank. Remove it: JSON lines are objects.")
        found = parse_json(line, place, "Write one JSON object a line.")
        if not isinstance(found, dict):
            raise UserError(f"{place}: {shown(found)} is no object. Write one a line.")
        column = _column(column, list(found), place)
        text = "" if found[column] is None else found[column]
        if not isinstance(text, str):
            raise UserError(
                f"{place}: {column!r} is {shown(text)}, expected a text. Name another "
                "--column."
            )
        rows.append(Row(text, found))
    return rows, column or ""


def _column(column: str | None, names: Sequence[str], where: str) -> str:
    """Returns the column of the texts; raises `UserError` without such a column."""
    if column is not None and column not in names:
        raise UserError(f"{where}: no column {column!r}; {suggestion(column, names)}")
    if column is None and _DEFAULT_COLUMN not in names and len(names) != 1:
        raise UserError(
            f"{where}: no column {_DEFAULT_COLUMN!r}. Name the column of the texts "
            f"with --column: {', '.join(map(shown, names))}."
        )
    return column or (_DEFAULT_COLUMN if _DEFAULT_COLUMN in names else names[0])


def check(table: Table, path: PathLike, out: PathLike, num: int) -> None:
    """Checks the output file before the long work starts.

    Raises:
        UserError: the suffix of `out` does not fit the kind of output, or the input
            already has one of the added columns.
    """
    kind = JSONL if table.kind == LINES and num > 1 else table.kind
    named = _SUFFIXES.get(epath.Path(out).suffix.lower(), LINES)
    if named not in (kind, LINES):
        raise UserError(
            f"--out {out}: {kind} are written, as the input is {table.kind} and --num "
            f"is {num}. Name another file."
        )
    names = set(table.header)
    if table.kind == JSONL:
        names.update(*(row.rest for row in table.rows))
    for added in (SOURCE_ROW, SCHEME, *((NUMBER,) if num > 1 else ())):
        if added in names:
            raise UserError(
                f"{path}: there is a column {added!r}, which is to be added. Rename it."
            )


def written(
    table: Table, outputs: Sequence[Sequence[str]], scheme: str, num: int
) -> str:
    """Returns the content of the output file: the table with outputs instead of texts.

    Args:
        outputs: one or more outputs of each row.
        scheme: name of the scheme that made the outputs.
        num: requested number of outputs per row; several are numbered.

    Raises:
        UserError: an output for a file of lines contains a line break.
    """
    several = num > 1
    if table.kind in DELIMITERS:
        file = io.StringIO(newline="")
        writer = csv.writer(
            file, delimiter=table.delimiter, lineterminator=table.newline
        )
        added = (SOURCE_ROW, SCHEME, *((NUMBER,) if several else ()))
        writer.writerow([*table.header, *added])
        place = table.header.index(table.column)
        for row, number, output in _flat(outputs):
            cells = list(table.rows[row].rest)
            cells[place] = output
            writer.writerow([*cells, row + 1, scheme, *([number] if several else [])])
        return table.mark + file.getvalue()
    if table.kind == LINES and not several:
        found = [output for _, _, output in _flat(outputs)]
        for number, output in enumerate(found, 1):
            if "\n" in output:
                raise UserError(
                    f"line {number}: {scheme} gave a text with a line break, "
                    f"{shown(output)}. Put the texts into a .csv or .jsonl file."
                )
        return table.mark + table.newline.join([*found, ""])
    lines = (
        json.dumps(record, ensure_ascii=False)
        for record in _records(table, outputs, scheme, several)
    )
    return table.mark + table.newline.join([*lines, ""])


def _records(
    table: Table, outputs: Sequence[Sequence[str]], scheme: str, several: bool
) -> Iterator[dict[str, Any]]:
    for row, number, output in _flat(outputs):
        text, rest = table.rows[row]
        added = {SOURCE_ROW: row + 1, SCHEME: scheme}
        added |= {NUMBER: number} if several else {}
        if table.kind == LINES:
            yield {"input": text, "output": output, **added}
        else:  # A null text stays null.
            yield {
                **rest,
                table.column: output if text else rest[table.column],
                **added,
            }


def _flat(outputs: Sequence[Sequence[str]]) -> Iterator[tuple[int, int, str]]:
    """Yields (row from 0, number from 1, output) for each output."""
    for row, found in enumerate(outputs):
        for number, output in enumerate(found, 1):
            yield row, number, output
