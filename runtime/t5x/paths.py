"""Paths from users: local paths, which may be relative, and URLs (gs://)."""

import contextlib
import copy
import errno
import json
import os
from collections.abc import Iterator
from typing import Any

from etils import epath

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk; the system reports them without a file name."""


def absolute(path: str | os.PathLike) -> str:
    """Returns an absolute local path without `~`, or a URL unchanged.

    orbax accepts no relative paths.
    """
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def with_absolute_path(restore_cfg: Any) -> Any:
    """Returns a copy of a RestoreCheckpointConfig with absolute paths."""
    cfg = copy.copy(restore_cfg)
    if isinstance(cfg.path, (str, os.PathLike)):
        cfg.path = absolute(cfg.path)
    else:
        cfg.path = [absolute(path) for path in cfg.path]
    return cfg


def check_ordinary(path: str | os.PathLike) -> None:
    """Checks that a local path is not a pipe or device, for which a reader would wait.

    Raises:
        OSError: the path is neither a file nor a folder.
    """
    text = os.fspath(path)
    ordinary = os.path.isfile(text) or os.path.isdir(text)
    if "://" not in text and os.path.exists(text) and not ordinary:
        raise OSError(
            errno.EINVAL, "is a pipe or a device, expected an ordinary file", text
        )


def check_folder(folder: str | os.PathLike) -> None:
    """Checks all files below a local folder, for libraries that open them directly.

    Raises:
        OSError: a file is a pipe or a device.
    """
    for parent, _, names in os.walk(os.fspath(folder)):
        for name in names:
            check_ordinary(os.path.join(parent, name))


def read_bytes(path: str | os.PathLike) -> bytes:
    """Returns the content of a file; raises the errors of `check_ordinary`."""
    check_ordinary(path)
    return epath.Path(path).read_bytes()


def read_json(path: str | os.PathLike) -> Any:
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


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[epath.Path]:
    """Yields a temporary file that replaces `path` if the context succeeds."""
    target = epath.Path(path)
    temporary = target.with_name(f"{target.name}.tmp")
    try:
        with naming(target):
            yield temporary
    except OSError:
        temporary.unlink(missing_ok=True)  # The incomplete file would waste space.
        raise
    temporary.replace(target)


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Adds the name of the written file to errors such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = os.fspath(path)
        raise


def user_cache() -> str:
    """Returns the user's cache folder: `$XDG_CACHE_HOME`, else `~/.cache`."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    return caches if os.path.isabs(caches) else os.path.expanduser("~/.cache")
