"""Reads and writes whole files, local or on gs://, with clear errors."""

import codecs
import contextlib
import errno
import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from etils import epath
from jaxaug_base import files as _files
from jaxaug_base.files import (
    final_target,
    new_folder,  # noqa: F401 (a name of jaxaug.core)
    replacing,
    temporary_name,
)

from jaxaug.core import json_reader, storage
from jaxaug.core.errors import UserError

PathLike = str | os.PathLike[str]

FETCH_AGAIN = (
    "Correct the file, or get it again (`jaxaug data fetch sgd` for SGD and SGD-X)."
)
"""Advice for a wrong file of a data folder."""

MAX_BYTES = 2 << 30
"""Maximum size of a file that is read as a whole."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# UTF-32 comes first: its little-endian mark starts with the mark of UTF-16.
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_ANSWERS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError)


def shown(value: Any) -> str:
    """Returns a shortened value for an error message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # The latter is for very large integers.
        return f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= 80 else f"{text[:77]}..."


def shortened(message: object) -> str:
    """Returns the text of an error, without the middle of a long quotation."""
    text = str(message)
    return text if len(text) <= 600 else f"{text[:400]} ... {text[-195:]}"


def is_remote(path: PathLike) -> bool:
    """Returns whether a path has a storage scheme, such as gs://."""
    return _SCHEME.match(os.fspath(path)) is not None


def unreachable(path: PathLike) -> str | None:
    """Returns why a path cannot be accessed; None if it is local or reachable.

    The result is a clause for a message, with the missing part and advice. Whether the
    path exists does not matter.
    """
    scheme = _SCHEME.match(os.fspath(path))
    if scheme is None:
        return None
    try:
        storage.ask(path)
    except Exception as error:  # noqa: BLE001 (each service has its classes)
        return _of_storage(scheme[0], error)
    return None


def reach(path: PathLike, fix: str) -> epath.Path:
    """Returns the path with `~` expanded, after checking that its storage is reachable.

    Args:
        path: local, gs://, or s3://; it need not exist.

    Raises:
        UserError: its kind is unknown, a package for it is missing, or the service does
            not answer.
    """
    problem = unreachable(path)
    if problem:
        raise UserError(f"{path}: {problem}. {fix}")
    return epath.Path(path).expanduser()


@contextlib.contextmanager
def reached(path: PathLike, fix: str) -> Iterator[None]:
    """Turns errors of a path's storage service into `UserError` inside the context.

    Answers such as "no such file" are passed on, and so are all errors of local paths.
    """
    scheme = _SCHEME.match(os.fspath(path))
    try:
        yield
    except (UserError, *_ANSWERS):
        raise
    except Exception as error:
        if scheme is None:
            raise
        raise UserError(f"{path}: {_of_storage(scheme[0], error)}. {fix}") from error


def _of_storage(scheme: str, error: Exception) -> str:
    # TensorFlow and fsspec are not imported; their errors are recognized by name.
    if isinstance(error, KeyError):
        return (
            f"{scheme} is no storage that is known (local paths, gs:// and s3:// are)"
        )
    lines = str(error).strip().splitlines() or [""]
    what = f"{type(error).__name__}: {lines[0]}"
    if isinstance(error, ImportError):
        return f"{scheme} needs a package that is missing ({what}). Install it"
    if type(error).__name__ == "UnimplementedError":
        return (
            f"TensorFlow cannot read {scheme} ({what}). Run `pip install fsspec "
            f"{scheme[:-3]}fs` and set EPATH_USE_TF=0"
        )
    return (
        f"cannot be reached ({what}). Check the address, the network and the "
        f"credentials for {scheme}"
    )


def check_ordinary(path: PathLike, fix: str, limit: int | None = None) -> None:
    """Checks that a path is an ordinary file, because a reader might wait forever.

    A missing file, a folder, and a remote path pass: their readers report them.

    Args:
        limit: maximum size in bytes; None accepts any size.

    Raises:
        UserError: the path is a pipe, a socket, or a device, or the file is too large.
    """
    try:
        _files.check_ordinary(path)
        local = os.path.expanduser(os.fspath(path))
        size = os.path.getsize(local) if os.path.isfile(local) else 0
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}. Write what it gives to a file and name that. "
            f"{fix}"
        ) from None
    if limit is not None and size > limit:
        raise UserError(
            f"{path}: has {size / 1e9:.1f} GB, more than the {limit / 1e9:.1f} GB "
            f"that are read at once. Divide the file. {fix}"
        )


@contextlib.contextmanager
def fitting(path: PathLike, fix: str) -> Iterator[None]:
    """Turns a `MemoryError` in the context into a `UserError` with the file name."""
    try:
        yield
    except MemoryError:
        raise UserError(
            f"{path}: does not fit into memory. Divide the file, or use a machine with "
            f"more memory. {fix}"
        ) from None


def read_bytes(path: PathLike, fix: str) -> bytes:
    """Returns the content of a file, local or gs://.

    Raises:
        UserError: the file is missing, unreachable, too large, or not an ordinary file.
    """
    try:
        with reached(path, fix), fitting(path, fix):
            check_ordinary(path, fix, MAX_BYTES)
            return epath.Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such file. {fix}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, expected a file. {fix}") from None


def byte_lines(file: BinaryIO, longest: int = 1 << 26) -> Iterator[bytes]:
    """Yields the lines of an open file; lines over `longest` bytes come in pieces.

    A file without line ends, such as a file of zeros, would otherwise fill the memory.
    """
    return iter(functools.partial(file.readline, longest), b"")


def read_text(path: PathLike, fix: str, otherwise: str | None = None) -> str:
    """Returns the text of a UTF-8 file, without an initial byte-order mark (BOM).

    Args:
        fix: advice for the user; ends every error message.
        otherwise: encoding of a file that is not UTF-8, such as `latin-1`; None refuses
            it.

    Raises:
        UserError: `read_bytes` refuses the file, or it contains bytes that are not
            UTF-8 or are zero, as in UTF-16.
    """
    with fitting(path, fix):
        return _decoded(read_bytes(path, fix), path, fix, otherwise)


def _decoded(data: bytes, path: PathLike, fix: str, otherwise: str | None) -> str:
    for mark, name in _OTHER_MARKS.items():
        if data.startswith(mark):
            raise UserError(
                f"{path}: is {name}, expected UTF-8. Convert it: `iconv -f {name} -t "
                f"UTF-8`. {fix}"
            )
    zero = data.find(0)
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise UserError(
            f"{path}: line {line}: byte 0x00 at offset {zero}, expected text in UTF-8: "
            f"this is another encoding or no text. {fix}"
        )
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        if otherwise is not None:
            return data.decode(otherwise)
        offset = error.start + (len(data) - len(error.object))
        line = data.count(b"\n", 0, offset) + 1
        raise UserError(
            f"{path}: line {line}: byte {data[offset]:#04x} at offset "
            f"{offset} is not UTF-8. {fix}"
        ) from None


def read_stdin(fix: str) -> str:
    """Returns the text of standard input, including an initial BOM; it is UTF-8.

    Raises:
        UserError: standard input is not UTF-8.
    """
    try:
        text = sys.stdin.read()
        text.encode()  # Python may hide bytes of another encoding in surrogates.
    except UnicodeError as error:
        raise UserError(f"standard input: is not UTF-8: {error}. {fix}") from None
    return text


def read_json(path: PathLike, fix: str) -> Any:
    """Returns the value in a JSON file; see `read_text` for the arguments.

    Raises:
        UserError: the file is missing, unreachable, empty, incomplete, or not UTF-8 or
            JSON; an object has a duplicate name, a number has too many digits, or a
            string contains half of a surrogate pair.
    """
    return parse_json(read_text(path, fix), path, fix)


def parse_json(text: str | bytes, path: PathLike, fix: str) -> Any:
    """Returns the value of a JSON text that was read from `path`; see `read_json`."""
    try:
        with fitting(path, fix):
            return json_reader.decoded(text, "the file")
    except json_reader.JsonError as error:
        raise UserError(f"{path}: {error}. {fix}") from None


def check_pairs(value: Any, where: str, fix: str) -> None:
    """Raises `UserError` for a JSON value with half of a surrogate pair in a string.

    `where` starts the message, and `fix` ends it. JSON can escape such a half, but
    UTF-8 files and tokenizers cannot represent it.
    """
    try:
        json_reader.check_pairs(value)
    except json_reader.JsonError as error:
        raise UserError(f"{where}: {error}. {fix}") from None


def check_writable(path: PathLike, argument: str = "--out") -> None:
    """Creates the folder of an output file and checks it before a long run.

    Raises:
        UserError: the file cannot be written, or the path is not an ordinary file.
    """
    target = final_target(path)
    probe = temporary_name(target)
    fix = f"Name a file in a folder that can be written with {argument}."
    try:
        with reached(path, fix):
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            _files.check_ordinary(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"")
            probe.unlink()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}). {fix}"
        ) from error


def write_text(path: PathLike, text: str, private: bool = False) -> None:
    """Writes a UTF-8 file under a temporary name, then renames it.

    Bytes of file names that are not UTF-8 (lone surrogates) become escapes. If
    `private`, only the user may read the file.

    Raises:
        UserError: the storage of a remote path is unreachable.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"), private)


def write_texts(texts: Mapping[PathLike, str]) -> None:
    """Writes several UTF-8 files, or none if one of them cannot be written.

    Raises:
        UserError: the storage of a remote path is unreachable.
    """
    with contextlib.ExitStack() as stack:
        for path, text in texts.items():
            stack.enter_context(reached(path, "Name a file in another place."))
            temporary = stack.enter_context(replacing(path))
            temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_bytes(path: PathLike, data: bytes, private: bool = False) -> None:
    """Writes a file under a temporary name, then renames it; see `write_text`.

    Raises:
        UserError: the storage of a remote path is unreachable.
    """
    fix = "Name a file in another place."
    with reached(path, fix), replacing(path, private) as temporary:
        temporary.write_bytes(data)
