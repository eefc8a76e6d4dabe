"""Clear error messages for saves that the file system refuses."""

import contextlib
import errno
import logging as std_logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jaxaug_base.errors
from etils import epath

from t5x.checkpoint.folders import all_steps
from t5x.errors import UserError

_ERRNOS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
}
# TensorStore reports the operating system's message inside a ValueError.
_TEXT = re.compile(
    r"No space left on device|Disk quota exceeded|File too large"
    r"|Read-only file system|Permission denied|Input/output error"
)


def _causes(error: BaseException) -> Iterator[BaseException]:
    pending, seen = [error], set()
    while pending:
        e = pending.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        if isinstance(e, BaseExceptionGroup):
            pending += e.exceptions
        pending += [x for x in (e.__cause__, e.__context__) if x is not None]


def file_system_reason(error: BaseException) -> str | None:
    """Returns the file system's message if it caused `error`, else None."""
    for e in _causes(error):
        if isinstance(e, OSError) and e.errno in _ERRNOS:
            return e.strerror or str(e)
        match = _TEXT.search(str(e))
        if match:
            return match.group(0)
    return None


@contextlib.contextmanager
def clear_save_errors(
    folder: epath.PathLike, clean_up: Callable[[], None]
) -> Iterator[None]:
    """Turns file-system failures inside the context into one UserError.

    Args:
        folder: model folder, named in the message.
        clean_up: called after any failure to remove the unfinished checkpoint.
    """
    try:
        yield
    except Exception as e:
        with contextlib.suppress(OSError):
            clean_up()
        reason = file_system_reason(e)
        if reason is None or isinstance(e, jaxaug_base.errors.UserError):
            raise
        raise UserError(
            f"Cannot save a checkpoint in {folder}: {reason}. {_intact(folder)} Free "
            "space there (SaveCheckpointConfig.keep bounds the number of checkpoints) "
            "or use another MODEL_DIR, then run the same command again."
        ) from e


def _intact(folder: epath.PathLike) -> str:
    try:
        steps = all_steps(folder)
    except OSError:
        steps = []
    if not steps:
        return "There was no earlier checkpoint."
    return f"The checkpoint of step {steps[-1]} is intact."


class _QuietOrbax(std_logging.Filter):
    """Drops orbax's error logs and its note about a bare state folder.

    The exceptions arrive here anyway and become one message.
    """

    def filter(self, record: std_logging.LogRecord) -> bool:
        if "/orbax/" not in record.pathname:
            return True
        if record.levelno >= std_logging.ERROR:
            return False
        return "Metadata file does not exist" not in record.getMessage()


def _tells_more(record: std_logging.LogRecord) -> bool:
    """Returns False for asyncio's logs of writes that fail after the first one.

    orbax awaits all writes, raises the first error, and drops the others. Their errors
    are logged when they are garbage-collected.
    """
    error = record.exc_info[1] if record.exc_info else None
    return error is None or file_system_reason(error) is None


def quieten_orbax() -> None:
    """Installs the filters on the loggers of absl and asyncio once."""
    logger = std_logging.getLogger("absl")
    if any(isinstance(f, _QuietOrbax) for f in logger.filters):
        return
    logger.addFilter(_QuietOrbax())
    std_logging.getLogger("asyncio").addFilter(_tells_more)
    report = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        # Pending reads and writes report to the event loop that orbax has already
        # closed.
        if str(unraisable.exc_value) != "Event loop is closed":
            report(unraisable)

    sys.unraisablehook = hook


def remove_tree(path: epath.Path, attempts: int = 50) -> None:
    """Deletes a folder into which other threads may still be writing."""
    for _ in range(attempts):
        with contextlib.suppress(OSError):
            path.rmtree()
        time.sleep(0.1)
        if not path.exists():
            return
