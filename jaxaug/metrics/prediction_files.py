"""Files of predictions, read twice: first the ids, then one dialogue at a time."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from etils import epath

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    PathLike,
    byte_lines,
    check_ordinary,
    reach,
    read_bytes,
    read_json,
    shown,
)
from jaxaug.metrics.matching import FIX

# The official evaluator leaves this file in the folder that it has scored.
_OFFICIAL_OUTPUT = "dialogues_and_metrics.json"
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class _Name(msgspec.Struct, gc=False):
    """The id of a dialogue; the decoder skips all other fields."""

    dialogue_id: str


_NAME = msgspec.json.Decoder(_Name)

# A dialogue as JSON text or as its value.
_Item = bytes | dict[str, Any]
_Layout = Callable[[epath.Path], Iterable[_Item]]


class _OtherLayout(Exception):
    """The file does not have one dialogue a line."""


_NOT_READ = (
    _OtherLayout,
    OSError,
    UnicodeDecodeError,
    msgspec.DecodeError,
    RecursionError,
)


class PredictionFolder:
    """The dialogues of a folder of predictions.

    The ids of all dialogues are in memory, and the text of one dialogue; of a file with
    several dialogues in a line, the text of the file.

    Attributes:
        file_of: dialogue id -> its file, in the order of the files.

    Raises:
        UserError: the folder is missing or has no predictions, a file is not JSON of
            the format, or a dialogue occurs twice.
    """

    def __init__(self, folder: PathLike, ignored: Counter[str]):
        place = reach(folder, "Name the folder of the JSON files with --predictions.")
        self._layouts: dict[epath.Path, _Layout] = {}
        self.file_of: dict[str, epath.Path] = {}
        for path in _prediction_files(place, ignored):
            self._layouts[path], names = _scanned(path)
            for name in names:
                if name in self.file_of:
                    raise UserError(
                        f"{path}: dialogue {shown(name)} is predicted twice, first in "
                        f"{self.file_of[name]}. Keep one of the two."
                    )
                self.file_of[name] = path
        if not self.file_of:
            raise UserError(
                f"prediction folder {folder}: its files hold no dialogue. Write "
                "predictions in DSTC8 format (a list of dialogues per file)."
            )

    def items(self) -> Iterator[tuple[str, _Item]]:
        """Yields (dialogue id, dialogue) in the order of the files; see `value`."""
        for path, layout in self._layouts.items():
            for item in layout(path):
                yield _name_of(item, path), item

    def value(self, name: str, item: _Item) -> dict[str, Any]:
        """Returns the JSON object of an item of `items`; else `UserError`."""
        if not isinstance(item, bytes):
            return item
        try:
            return json_reader.decoded(item)
        except json_reader.JsonError as error:
            path = self.file_of[name]
            read_json(path, FIX)  # Names the place of the mistake.
            raise UserError(f"{path}: {error}. {FIX}") from None


def _prediction_files(folder: epath.Path, ignored: Counter[str]) -> list[epath.Path]:
    if not folder.is_dir():
        problem = (
            "is a file, expected a folder" if folder.exists() else "does not exist"
        )
        raise UserError(
            f"prediction folder {folder} {problem}. Name the folder that holds the "
            "JSON files with --predictions."
        )
    paths = sorted(folder.glob("*.json"), key=lambda path: path.name)
    chosen = [p for p in paths if p.name not in (_OFFICIAL_OUTPUT, "schema.json")]
    if not chosen:
        raise UserError(
            f"prediction folder {folder} holds no predictions (*.json). Write them in "
            "DSTC8 format, or name another folder with --predictions."
        )
    if len(chosen) < len(paths):
        ignored["files that hold no predictions"] += len(paths) - len(chosen)
    return chosen


def _scanned(path: epath.Path) -> tuple[_Layout, list[str]]:
    """Returns the layout of a file, and the ids of its dialogues."""
    for layout in (_by_line, _by_list):
        with contextlib.suppress(*_NOT_READ):
            return layout, [_name_of(item, path) for item in layout(path)]
    # Names the place of a mistake, if there is one.
    return _checked, [_name_of(item, path) for item in _checked(path)]


def _by_line(path: epath.Path) -> Iterator[bytes]:
    """Yields the dialogues of a file in the layout of `write_predictions`."""
    check_ordinary(path, FIX)
    with path.open("rb") as file:
        lines = byte_lines(file)
        line = next(lines, b"")
        if line != b"[\n":
            raise _OtherLayout
        for line in lines:
            if not line.endswith(b",\n"):
                break
            yield line[:-2]
        if line.startswith(b"{"):
            yield line
            line = next(lines, b"")
        if line != b"]\n" or next(lines, b""):
            raise _OtherLayout


def _by_list(path: epath.Path) -> Iterator[bytes]:
    return map(bytes, _LIST.decode(read_bytes(path, FIX)))


def _checked(path: epath.Path) -> Iterator[dict[str, Any]]:
    data = read_json(path, FIX)
    # The official program accepts {dialogue id: dialogue} too.
    if isinstance(data, dict):
        data = list(data.values())
    if not isinstance(data, list):
        raise UserError(
            f"{path}: expected a list of dialogues, got {shown(data)}. {FIX}"
        )
    return iter(data)


def _name_of(item: Any, path: epath.Path) -> str:
    """Returns the id of a dialogue."""
    if isinstance(item, bytes):
        return _NAME.decode(item).dialogue_id
    if not isinstance(item, dict) or not isinstance(item.get("dialogue_id"), str):
        raise UserError(
            f"{path}: expected a dialogue with a 'dialogue_id', got {shown(item)}. "
            f"{FIX}"
        )
    return item["dialogue_id"]
