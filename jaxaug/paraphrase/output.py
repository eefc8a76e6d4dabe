"""The output file of a run: JSON lines that survive an interruption at any moment.

During a run, `<out>.partial` grows by the lines of one batch at a time, in the order of
computation. At the end the lines are sorted by input, written under a temporary name,
and renamed to `<out>`. A restarted run keeps every input whose lines are all present,
in `<out>` or in the partial file.

Object stores cannot append to a file. The partial file of an output on gs:// is
therefore in the cache folder of the machine, and only this machine can resume the run.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

from etils import epath
from jaxaug_base.files import naming, replacing

from jaxaug.core import cache_folder, json_reader
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    PathLike,
    byte_lines,
    check_ordinary,
    check_writable,
    is_remote,
    shown,
)

# The first bytes of every record, as `_lines` writes them.
_BEGINNING = b'{"line": '


class OutputFile:
    """Collects the records of a run; a context manager.

    Records hold `line` (1 for the first input; for a table, 1 is its first row),
    `input`, `index` (0..num-1, best first), `output`, `log_probability`, the notes, and
    the settings of the run.
    """

    def __init__(
        self,
        path: PathLike,
        inputs: Sequence[str],
        settings: Mapping[str, Any],
        num: int,
        notes: Mapping[str, Any] | None = None,
    ):
        """Takes JSON `settings`, equal at a restart, and `notes`, which may differ.

        Raises:
            UserError: the file cannot be written.
        """
        self.path = epath.Path(path).expanduser()
        self.kept = self.path.with_name(f"{self.path.name}.partial")
        self.partial = _appended(self.kept)
        self._inputs = inputs
        self._settings = json.loads(json.dumps(settings))
        self._notes = dict(notes or {})
        self._num = num
        self._file: BinaryIO | None = None
        # Input -> position of its lines in the partial file: (offset, length in bytes).
        self._places: dict[int, tuple[int, int]] = {}
        check_writable(path)

    def __enter__(self) -> Self:
        """Opens the partial file and keeps the records that an earlier run completed.

        Raises:
            UserError: the file is from other settings or inputs, a line is damaged, or
                another run writes to the same file.
        """
        elsewhere = [self.path] if self.kept == self.partial else [self.path, self.kept]
        finished = {path: self._scan(path) for path in elsewhere}
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.partial, "a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._places = self._scan(self.partial)
            # An interruption truncates at most one input, the last one.
            ends = [offset + size for offset, size in self._places.values()]
            self._file.truncate(max(ends, default=0))
            for path, places in finished.items():
                if places:
                    self._copy_from(path, places)
        except BlockingIOError:
            self._file.close()
            raise UserError(
                f"{self.path}: another run is writing to it. Wait for its end, or name "
                "another --out."
            ) from None
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            with naming(self.partial):
                self._file.close()

    def __contains__(self, index: object) -> bool:
        """Returns whether all records of the input at index `index` are present."""
        return index in self._places

    def __len__(self) -> int:
        """Returns the number of complete inputs."""
        return len(self._places)

    def add(self, outputs: Mapping[int, Sequence[tuple[str, float]]]) -> None:
        """Appends the (text, log probability) pairs of some inputs, best first."""
        for index, pairs in outputs.items():
            if index not in self:
                self._append(index, self._lines(index, pairs))
        self._flush()

    def take(self, paths: Iterable[PathLike]) -> None:
        """Adds the records of other files of the same run.

        Raises:
            UserError: a file is from other settings or inputs, or is damaged.
        """
        for path in map(epath.Path, paths):
            self._copy_from(path, self._scan(path))

    def finish(self) -> None:
        """Writes the file in the order of the inputs and removes the partial file."""
        assert self._file is not None and len(self) == len(self._inputs)
        with replacing(self.path) as temporary, temporary.open("wb") as file:
            for index in range(len(self._inputs)):
                offset, size = self._places[index]
                self._file.seek(offset)
                file.write(self._file.read(size))
            if not is_remote(self.path):
                file.flush()
                os.fsync(file.fileno())
        self.partial.unlink()

    def keep(self) -> epath.Path:
        """Returns the partial file, moved to where other machines find it."""
        if self.kept != self.partial:
            with replacing(self.kept) as temporary:
                temporary.write_bytes(self.partial.read_bytes())
            self.partial.unlink()
        return self.kept

    def outputs(self) -> Iterator[list[str]]:
        """Yields the texts of each input in order; requires `finish`."""
        with self.path.open("rb") as file:
            for _ in self._inputs:
                yield [
                    json_reader.decoded(file.readline())["output"]
                    for _ in range(self._num)
                ]

    def _lines(self, index: int, pairs: Sequence[tuple[str, float]]) -> bytes:
        records = [
            {
                "line": index + 1,
                "input": self._inputs[index],
                "index": number,
                "output": text,
                "log_probability": round(log_probability, 6),
                **self._notes,
                **self._settings,
            }
            for number, (text, log_probability) in enumerate(pairs)
        ]
        text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        return text.encode()

    def _append(self, index: int, lines: bytes) -> None:
        assert self._file is not None
        self._places[index] = (self._file.seek(0, os.SEEK_END), len(lines))
        with naming(self.partial):
            self._file.write(lines)

    def _flush(self) -> None:
        assert self._file is not None
        with naming(self.partial):
            self._file.flush()
            os.fsync(self._file.fileno())

    def _copy_from(
        self, path: epath.Path, places: Mapping[int, tuple[int, int]]
    ) -> None:
        """Adds the inputs that the partial file lacks."""
        with path.open("rb") as file:
            for index in sorted(places.keys() - self._places.keys()):
                offset, size = places[index]
                file.seek(offset)
                self._append(index, file.read(size))
        self._flush()

    def _scan(self, path: epath.Path) -> dict[int, tuple[int, int]]:
        """Returns input -> (offset, bytes) of all complete inputs of a file."""
        places: dict[int, tuple[int, int]] = {}
        if not path.exists():
            return places
        check_ordinary(path, "Name another --out.")
        start = size = offset = 0
        expected = (-1, 0)  # input and index of the next record of an input
        with path.open("rb") as file:
            for number, line in enumerate(byte_lines(file), 1):
                if not line.endswith(b"\n"):
                    self._check_cut(line, path, number)
                    break
                found = self._checked(line, path, number)
                if found[1] == 0:
                    start, size, expected = offset, 0, found
                size += len(line)
                offset += len(line)
                if found == expected:
                    expected = (found[0], found[1] + 1)
                    if expected[1] == self._num:
                        places[found[0]] = (start, size)
        return places

    def _check_cut(self, line: bytes, path: epath.Path, number: int) -> None:
        """Checks that a truncated line is the beginning of a record."""
        if not line.startswith(_BEGINNING[: len(line)]):
            raise UserError(
                f"{path}: line {number}: is not a record of `jaxaug paraphrase`. "
                f"Remove {path}, or name another --out."
            )

    def _checked(self, line: bytes, path: epath.Path, number: int) -> tuple[int, int]:
        """Returns input and index of a record; checks that it belongs to this run."""
        where, fix = f"{path}: line {number}", f"Remove {path}, or name another --out."
        try:
            record = json_reader.decoded(line)
            if not type(record["line"]) is type(record["index"]) is int:
                raise TypeError(record["line"], record["index"])
            index, decode = record["line"] - 1, record["index"]
            if not isinstance(record["output"], str):
                raise TypeError(record["output"])
        except (ValueError, TypeError, KeyError):
            raise UserError(
                f"{where}: is not a record of `jaxaug paraphrase`. {fix}"
            ) from None
        for name, value in self._settings.items():
            if record.get(name) != value:
                raise UserError(
                    f"{where}: was made with {name} {_shown(record.get(name))}, this "
                    f"run has {_shown(value)}. {fix}"
                )
        if not 0 <= index < len(self._inputs) or (
            record.get("input") != self._inputs[index]
        ):
            raise UserError(
                f"{where}: was made from input {shown(record.get('input'))}, which is "
                f"not line {record['line']} of the input file. {fix}"
            )
        return index, decode


def _appended(path: epath.Path) -> epath.Path:
    """Returns a local file to append to: `path` itself if it is local."""
    if not is_remote(path):
        return path
    folder = cache_folder.local_cache_dir() / "outputs"
    return folder / f"{digest_of(os.fspath(path))}.jsonl.partial"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
