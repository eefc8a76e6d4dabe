"""Files and folders that appear under their names only when they are complete.

They are written under a hidden name next to the target, which readers ignore, and
renamed when complete. Several processes may do so at once. The name contains the
process that writes, so the next writer of the target removes what killed ones left.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.paths import absolute

_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


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

    Removes files and folders under such names of the target that no living process
    writes.
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


def is_special(target: epath.Path) -> bool:
    """Returns whether a local path is neither file nor folder, such as a device."""
    text = os.fspath(target)
    return (
        "://" not in text
        and os.path.exists(text)
        and not (os.path.isfile(text) or os.path.isdir(text))
    )


@contextlib.contextmanager
def replacing(path: epath.PathLike, private: bool = False) -> Iterator[epath.Path]:
    """Yields a temporary file, which replaces `path` if the context succeeds.

    `~` is the home folder. The target of a link is replaced, not the link. Missing
    parent folders are created. A failed context leaves nothing behind.

    Args:
        path: path of the file.
        private: whether only the user may read the file; it has no effect on remote
            paths.
    """
    target = final_target(path)
    if is_special(target):
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

    Raises:
        UserError: the path already exists.
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
