"""Paths, whole files, and folders, local or with a URL (gs://).

Written files and folders appear under their names only when they are complete. They are
written under a hidden name next to the target, which readers ignore, and renamed when
complete. Several processes may do so at once. The name contains the process that
writes, so the next writer of the target removes what killed ones left.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from etils import epath

from jaxaug_base.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk; the system reports them without a file name."""

_OF_WRITING = {*FULL, errno.EIO, errno.EROFS}
_KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_CHUNK_BYTES = 8 << 20
# Reading waits for the disk, and the checksum releases the interpreter lock.
_THREADS = 8


# ---- Paths ----


def absolute(path: epath.PathLike) -> epath.Path:
    """Returns an absolute local path with `~` expanded, or a URL (gs://) unchanged.

    The libraries that write checkpoints accept no other paths.
    """
    text = os.fspath(path)
    if "://" in text:
        return epath.Path(text)
    return epath.Path(os.path.abspath(os.path.expanduser(text)))


def is_same(one: epath.PathLike, other: epath.PathLike) -> bool:
    """Returns whether two paths, with links resolved, are the same."""
    places = (os.fspath(absolute(path)) for path in (one, other))
    first, second = (p if "://" in p else os.path.realpath(p) for p in places)
    return first == second


def user_cache() -> str:
    """Returns the user's cache folder: `$XDG_CACHE_HOME`, else `~/.cache`."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    return caches if os.path.isabs(caches) else os.path.expanduser("~/.cache")


# ---- Reading ----


def special_kind(path: epath.PathLike) -> str | None:
    """Returns "a pipe (FIFO)", "a device", or "a socket" for such a local path."""
    text = os.path.expanduser(os.fspath(path))
    if "://" in text:
        return None
    try:
        mode = os.stat(text).st_mode
    except (OSError, ValueError):
        return None
    ordinary = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return None if ordinary else _KINDS.get(stat.S_IFMT(mode), "no file")


def check_ordinary(path: epath.PathLike) -> None:
    """Raises OSError for a pipe or a device, for which a reader would wait."""
    if kind := special_kind(path):
        reason = f"is {kind}, expected an ordinary file"
        raise OSError(errno.EINVAL, reason, os.fspath(path))


def check_folder(folder: epath.PathLike) -> None:
    """Calls `check_ordinary` for all files below a local folder."""
    for parent, _, names in os.walk(os.fspath(folder)):
        for name in names:
            check_ordinary(os.path.join(parent, name))


def read_bytes(path: epath.PathLike) -> bytes:
    """Returns the content of a file; raises the errors of `check_ordinary`."""
    check_ordinary(path)
    return epath.Path(path).read_bytes()


def read_json(path: epath.PathLike) -> Any:
    """Returns the value of a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not JSON in UTF-8, its values are nested too deeply, or
            an object has a duplicate name.
    """
    try:
        return json.loads(read_bytes(path).decode(), object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


# ---- Checksums ----


def files_below(folder: epath.Path, prefix: str = "") -> Iterator[str]:
    """Yields the names of all files below a folder, such as `a/b.json`."""
    for path in folder.iterdir():
        if path.is_dir():
            yield from files_below(path, f"{prefix}{path.name}/")
        else:
            yield prefix + path.name


def checksums_below(folder: epath.Path) -> dict[str, tuple[int, int]]:
    """Returns name -> (bytes, CRC-32) of all files below a folder, by name."""
    sums = {}
    for name, found in checksums(folder, sorted(files_below(folder))).items():
        if found is None:
            raise OSError(errno.EIO, "cannot be read", os.fspath(folder / name))
        sums[name] = found
    return sums


def checksums(
    folder: epath.Path, names: Iterable[str]
) -> dict[str, tuple[int, int] | None]:
    """Returns file -> (bytes, CRC-32), or None for one that cannot be read.

    CRC-32 detects every flipped bit and misses one in 4 billion other accidents, at 6
    GB/s per core. It does not protect against intent: gzip files of one size whose data
    gzip could not compress have the same sum.
    """
    names = list(names)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda name: _checksum(folder / name), names)
        return dict(zip(names, found, strict=True))


def _checksum(path: epath.Path) -> tuple[int, int] | None:
    size = crc32 = 0
    try:
        check_ordinary(path)
        if not path.is_file():  # Files on gs:// raise other errors.
            return None
        with path.open("rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                size += len(piece)
                crc32 = zlib.crc32(piece, crc32)
    except OSError:
        return None
    return size, crc32


# ---- Writing ----


@contextlib.contextmanager
def naming(path: epath.PathLike) -> Iterator[None]:
    """Adds the name of the written file to errors such as a full disk.

    The system reports no file name when a write to an open file fails. The command line
    turns the error into a message with the file and advice.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _OF_WRITING and error.filename is None:
            error.filename = os.fspath(path)
        raise


# Host, process, start of the process, and a random number.
_SUFFIX = r"(?:([0-9a-f]{8})-(\d+)-(\d+)-)?[0-9a-f]{8}\.tmp"
# Processes of other hosts, which share the file system, cannot be seen.
_ABANDONED_SECONDS = 24 * 3600


def temporary_name(target: epath.Path) -> epath.Path:
    """Returns a unique hidden name next to the target.

    Removes what dead processes left under such names of the target.
    """
    _remove_abandoned(target)
    process = os.getpid()
    owner = f"{_host()}-{process}-{_started(process)}"
    return target.parent / f".{target.name}.{owner}-{uuid.uuid4().hex[:8]}.tmp"


def _host() -> str:
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def _started(process: int) -> int:
    """Returns the start of a process in ticks; 0 if it is not alive or not known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            state, *values = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if state in (b"X", b"Z") else int(values[18])


def _is_alive(process: int, started: int) -> bool:
    if started:
        return _started(process) == started
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _remove_abandoned(target: epath.Path) -> None:
    parent = os.fspath(target.parent)
    if "://" in parent or not os.path.isdir(parent):
        return
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{_SUFFIX}")
    for entry in os.scandir(parent):
        if not (match := pattern.fullmatch(entry.name)):
            continue
        with contextlib.suppress(OSError):  # Another process may remove it too.
            if match[1] == _host():
                left = not _is_alive(int(match[2]), int(match[3]))
            else:
                left = time.time() - entry.stat().st_mtime > _ABANDONED_SECONDS
            if left and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry, ignore_errors=True)
            elif left:
                os.unlink(entry)


def final_name(path: str) -> str:
    """Replaces temporary names in a path with their targets."""
    return re.sub(rf"(?<![^/])\.([^/]+)\.{_SUFFIX}(?![^/])", r"\1", path)


def final_target(path: epath.PathLike) -> epath.Path:
    """Returns the path to write: `~` and links resolved; a URL (gs://) unchanged."""
    target = epath.Path(path).expanduser()
    text = os.fspath(target)
    if "://" not in text and os.path.islink(text):
        return epath.Path(os.path.realpath(text))
    return target


@contextlib.contextmanager
def replacing(path: epath.PathLike, private: bool = False) -> Iterator[epath.Path]:
    """Yields a temporary file, which replaces `path` if the context succeeds.

    `~` is the home folder. The target of a link is replaced, not the link. Missing
    parent folders are created. A failed context leaves nothing behind.

    Args:
        private: whether only the user may read the file; it has no effect on remote
            paths.
    """
    target = final_target(path)
    if special_kind(target):
        raise UserError(f"{path}: is no ordinary file. Name one, or a new one.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    try:
        with naming(target):
            if private and "://" not in os.fspath(target):
                os.close(
                    os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                )
            yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def scratch_folder(target: epath.PathLike) -> Iterator[epath.Path]:
    """Yields an empty hidden folder next to the target, removed at the end."""
    temporary = temporary_name(epath.Path(target))
    temporary.mkdir()
    try:
        yield temporary
    finally:
        temporary.rmtree(missing_ok=True)


@contextlib.contextmanager
def new_folder(folder: epath.PathLike) -> Iterator[epath.Path]:
    """Yields a temporary folder that is renamed when everything is written.

    Raises UserError if the path exists.
    """
    target = absolute(folder)
    if target.exists():
        raise UserError(f"{target} exists. Name a folder that does not, or remove it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    temporary.mkdir()
    try:
        with naming(target):
            yield temporary
        temporary.rename(target)
    except BaseException:
        temporary.rmtree(missing_ok=True)
        raise
