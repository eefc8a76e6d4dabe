"""Files and folders that appear complete under their name, or not at all.

What is being written has a hidden name beside the target, which no reader looks at, and
gets the target's name when it is complete. Several processes may do so at once.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator

from absl import logging
from etils import epath

from jaxaug.core.errors import UserError

_ABANDONED_SECONDS = 24 * 3600


def temporary_name(target: epath.Path) -> epath.Path:
    """A hidden name beside the target that nobody else uses."""
    return target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.tmp"


@contextlib.contextmanager
def replacing(path: epath.PathLike) -> Iterator[epath.Path]:
    """A temporary file for the block to write; it replaces `path` if the block ends well.

    Folders above `path` are made. Nothing is left behind by a block that fails.
    """
    target = epath.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    try:
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
    target = epath.Path(folder).expanduser()
    if target.exists():
        raise UserError(f"{target} exists. Name a folder that does not, or remove it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(target)
    except BaseException:
        temporary.rmtree(missing_ok=True)
        raise


def publish(
    folder: epath.Path,
    write: Callable[[epath.Path], None],
    is_whole: Callable[[epath.Path], bool],
) -> None:
    """Makes a folder of a cache, or replaces one that cannot be used.

    Several processes may publish the same folder at once; one of them wins.

    Args:
      folder: what to make.
      write: fills the temporary folder that it is given.
      is_whole: whether a folder of that name can be used; else it is replaced.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    logging.info("building the cache %s", folder)
    temporary = temporary_name(folder)
    temporary.mkdir()
    try:
        write(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not is_whole(folder):
                # Damaged: something deleted or cut files of a folder once whole.
                folder.rmtree(missing_ok=True)
                temporary.rename(folder)
    finally:
        temporary.rmtree(missing_ok=True)


def _remove_abandoned(folder: epath.Path) -> None:
    """Removes what builders of this folder left behind when they were killed."""
    for path in folder.parent.glob(f".{folder.name}.*.tmp"):
        try:
            if time.time() - path.stat().mtime > _ABANDONED_SECONDS:
                path.rmtree(missing_ok=True)
        except FileNotFoundError:
            continue
