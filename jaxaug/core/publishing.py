"""Files and folders that appear complete under their name, or not at all.

What is being written has a hidden name beside the target, which no reader looks at, and
gets the target's name when it is complete. Several processes may do so at once.
"""

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.paths import absolute

_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


@contextlib.contextmanager
def naming(path: epath.PathLike) -> Iterator[None]:
    """Adds the name of the written file to the block's errors, such as a full disk.

    The system names no file when a write to an open one fails. The command line turns
    the error into a message with the file and what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _OF_WRITING and error.filename is None:
            error.filename = os.fspath(path)
        raise


def temporary_name(target: epath.Path) -> epath.Path:
    """A hidden name beside the target that nobody else uses."""
    return target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.tmp"


def final_name(path: str) -> str:
    """A path in which each temporary name is the one that it stands for."""
    return re.sub(r"(?<![^/])\.([^/]+)\.[0-9a-f]{8}\.tmp(?![^/])", r"\1", path)


def final_target(path: epath.PathLike) -> epath.Path:
    """Where a file is written: `~` and links resolved; a URL (gs://) as it is."""
    target = epath.Path(path).expanduser()
    text = os.fspath(target)
    if "://" not in text and os.path.islink(text):
        return epath.Path(os.path.realpath(text))
    return target


def is_special(target: epath.Path) -> bool:
    """Whether there is something local which is neither file nor folder: a device."""
    text = os.fspath(target)
    return (
        "://" not in text
        and os.path.exists(text)
        and not (os.path.isfile(text) or os.path.isdir(text))
    )


@contextlib.contextmanager
def replacing(path: epath.PathLike) -> Iterator[epath.Path]:
    """A temporary file for the block to write; it replaces `path` if the block ends well.

    `~` is the home folder, and what a link points to is replaced, not the link. Folders
    above `path` are made. Nothing is left behind by a block that fails.
    """
    target = final_target(path)
    if is_special(target):
        raise UserError(f"{path}: is no ordinary file. Name one, or a new one.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    try:
        with naming(target):
            yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_folder(folder: epath.PathLike) -> Iterator[epath.Path]:
    """A temporary folder that gets its name when all is written.

    Raises:
      UserError: there is something of that name.
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
