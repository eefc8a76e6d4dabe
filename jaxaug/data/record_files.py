"""Reads and writes records: JSON lines, JSON, Parquet, Hugging Face `datasets` folders.

`Dataset.save_to_disk` writes streams of Arrow record batches (.arrow); other folders
have one file or several for each split, such as `train-00000-of-00002.parquet`. Source:
https://huggingface.co/docs/datasets, "Load" and "Process".
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from etils import epath
from jaxaug_base.files import replacing

from jaxaug.core import hub, json_reader, pins
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    PathLike,
    check_ordinary,
    parse_json,
    reach,
    read_text,
    shown,
)
from jaxaug.core.installed import extras_of
from jaxaug.data import fetch

SUFFIXES = (".jsonl", ".json", ".parquet", ".arrow")
_FIX = (
    "Name a file of records (.jsonl, .json, .parquet, .arrow), or a folder with them."
)
_SPLITS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
# Files with which `save_to_disk` describes the data.
_ABOUT = (
    "dataset_dict.json", "dataset_info.json", "state.json", "dataset_infos.json",
    pins.NOTE,
)  # fmt: skip
_ROWS = 256


def read(path: PathLike, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place of each record, for messages, and the record.

    Args:
        path: file, folder of files, or `hf:OWNER/NAME` on the hub; Parquet and Arrow
            need the package pyarrow.
        split: "train", "dev", or "test". In a folder whose files or folders are named
            after splits, only the ones of this split are read.

    Raises:
        UserError: the path does not exist, is in another format, has no record, or a
            record is not an object.
    """
    number = 0
    if str(path).startswith(hub.PREFIX):
        path = fetch.of_hub(str(path))
    for file in _files(reach(path, _FIX), split):
        for where, record in _READERS[file.suffix.lower()](file):
            number += 1
            if not isinstance(record, dict):
                raise UserError(
                    f"{where}: expected an object with messages, got {shown(record)}. "
                    "Write one object for each dialogue."
                )
            yield where, record
    if not number:
        raise UserError(f"{path}: holds no record. {_FIX}")


def _files(path: epath.Path, split: str) -> list[epath.Path]:
    if not path.exists():
        raise UserError(f"{path}: no such file or folder. {_FIX}")
    if not path.is_dir():
        if path.suffix.lower() not in SUFFIXES:
            raise UserError(f"{path}: the suffix names no format of records. {_FIX}")
        return [path]
    inside = [one for one in sorted(path.iterdir()) if one.name not in _ABOUT]
    known = tuple(start for starts in _SPLITS.values() for start in starts)
    of_splits = [one for one in inside if one.name.startswith(known)]
    if of_splits:
        inside = [one for one in of_splits if one.name.startswith(_SPLITS[split])]
        if not inside:
            names = ", ".join(one.name for one in of_splits[:5])
            raise UserError(
                f"{path}: has nothing of the split {split}, only {names}. Name another "
                "one with --split."
            )
    found = [one for one in inside if one.suffix.lower() in SUFFIXES]
    for folder in inside:
        # `data` is the usual folder of a repository of Parquet files.
        if folder.is_dir() and (of_splits or folder.name == "data"):
            found += _files(folder, split)
    if not found:
        raise UserError(f"{path}: has no file of records. {_FIX}")
    return found


def _read_lines(path: epath.Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_text(path, _FIX).split("\n"), 1):
        where = f"{path}: line {number}"
        if line.strip():
            try:
                yield where, json_reader.decoded(line)
            except json_reader.JsonError as error:
                raise UserError(
                    f"{where}: is no JSON: {error}. Write one object a line."
                ) from None


def _read_json(path: epath.Path) -> Iterator[tuple[str, Any]]:
    """Yields the items of a list, or the objects of lines."""
    text = read_text(path, _FIX)
    if not text.lstrip().startswith("["):
        yield from _read_lines(path)
        return
    for number, record in enumerate(parse_json(text, path, _FIX)):
        yield f"{path}: record {number}", record


def _read_arrow(path: epath.Path) -> Iterator[tuple[str, Any]]:
    """Yields the rows of a Parquet file, or of a stream of Arrow batches."""
    with extras_of(f"{path.suffix} file"):
        import pyarrow
        import pyarrow.parquet
    check_ordinary(path, _FIX)
    number = 0
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".parquet":
                batches = pyarrow.parquet.ParquetFile(file).iter_batches(_ROWS)
            else:
                batches = iter(pyarrow.ipc.open_stream(file))
            for batch in batches:
                kind = pyarrow.struct(batch.schema)
                for record in batch.to_pylist():
                    where = f"{path}: record {number}"
                    yield where, _decoded(record, kind, where)
                    number += 1
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: cannot be read after {number} records: {error}. Write the file "
            "again."
        ) from None


def _decoded(value: Any, kind: Any, where: str) -> Any:
    """Returns a value of an Arrow type, with JSON texts (`arrow.json`) decoded.

    `datasets` writes objects as JSON texts if they have different fields.
    """
    if getattr(kind, "extension_name", "") == "arrow.json":
        return None if value is None else parse_json(value, where, _FIX)
    if isinstance(value, list):
        return [_decoded(one, kind.value_type, where) for one in value]
    if isinstance(value, dict):
        return {
            key: _decoded(one, kind.field(key).type, where)
            for key, one in value.items()
        }
    return value


_READERS = {".jsonl": _read_lines, ".json": _read_json} | dict.fromkeys(
    (".parquet", ".arrow"), _read_arrow
)


def check_suffix(path: PathLike) -> None:
    """Raises `UserError` unless `write` can write the file."""
    suffix = epath.Path(path).suffix.lower()
    if suffix not in (".jsonl", ".parquet"):
        raise UserError(
            f"--out {path}: the suffix is {shown(suffix)}. Name a file that ends in "
            ".jsonl or .parquet."
        )


def write(
    path: PathLike, records: Iterator[dict[str, Any]], columns: Mapping[str, Any]
) -> int:
    """Writes records to a .jsonl or .parquet file; returns their number.

    Args:
        records: values that JSON can represent.
        columns: type of each column of a Parquet file: "string", a list with the type
            of its items, or a mapping from the fields of an object to types. Other
            values in a column of strings are written as JSON.

    Raises:
        UserError: the package pyarrow is missing, or the file cannot be written.
    """
    number = 0
    if epath.Path(path).suffix.lower() == ".jsonl":
        with replacing(path) as temporary, temporary.open("w") as file:
            for record in records:
                number += 1
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return number
    with extras_of(".parquet file"):
        import pyarrow
        import pyarrow.parquet
    schema = pyarrow.schema({name: _arrow(kind) for name, kind in columns.items()})
    texts = [name for name, kind in columns.items() if kind == "string"]
    with (
        replacing(path) as temporary,
        temporary.open("wb") as file,
        pyarrow.parquet.ParquetWriter(file, schema) as writer,
    ):
        rows: list[dict[str, Any]] = []
        for record in records:
            number += 1
            rows.append(
                record | {key: _text(record[key]) for key in texts if key in record}
            )
            if len(rows) == _ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    return number


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _arrow(kind: Any) -> Any:
    import pyarrow

    if isinstance(kind, list):
        return pyarrow.list_(_arrow(kind[0]))
    if isinstance(kind, Mapping):
        return pyarrow.struct({name: _arrow(one) for name, one in kind.items()})
    return pyarrow.type_for_alias(kind)
