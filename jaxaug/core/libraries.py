"""What TensorFlow and SeqIO say of their own workings: kept in a file, off the screen.

The programs of T5X do the same with the folder of a run (`t5x.logs`, which upstream T5X
lacks); verbs have no such folder.
"""

import contextlib
import faulthandler
import functools
import importlib.util
import logging as std_logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import logging

from jaxaug.core import cache_folder

NAME = "libraries.log"
_LIBRARIES = ("array_record", "keras", "seqio", "tensorflow", "tensorflow_text")


def log_file() -> Path:
    """The file in the cache folder; in the user's own where that is an object store."""
    return Path(cache_folder.local_cache_dir(), NAME)


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Inside, notes and warnings of the libraries are appended to `log_file`.

    That is all that C++ code writes to standard error. What Python writes goes to the
    screen as before, errors of the libraries and the traceback of a crash included.
    """
    path = log_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.get_absl_logger()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(path, "ab", buffering=0))
        notes = _Notes(log.fileno())
        logger.addFilter(notes)
        stack.callback(logger.removeFilter, notes)
        _move_native_code(stack, log.fileno())
        yield


class _Notes:
    """A filter of `logging` that writes what it does not let through to a file."""

    def __init__(self, file: int):
        self._file = file

    def filter(self, record: std_logging.LogRecord) -> bool:
        """Whether to show a record."""
        if record.levelno >= std_logging.ERROR:
            return True
        if not record.pathname.startswith(_folders()):
            return True
        place = f"{record.levelname} {record.filename}:{record.lineno}]"
        os.write(self._file, f"{place} {record.getMessage()}\n".encode())
        return False


def _move_native_code(stack: contextlib.ExitStack, log: int) -> None:
    """Has descriptor 2 lead to the log, and `sys.stderr` to where 2 led before."""
    sys.stderr.flush()
    screen = os.dup(2)
    stack.callback(os.close, screen)
    if _is_standard_error():
        # Left open: what is imported inside may keep it.
        beside = os.fdopen(os.dup(screen), "w", 1, encoding=sys.stderr.encoding)
        for handler in _handlers():
            if handler.stream is sys.stderr:
                stack.callback(handler.setStream, handler.setStream(beside))
        stack.enter_context(contextlib.redirect_stderr(beside))
    if not faulthandler.is_enabled():
        faulthandler.enable(screen)
        stack.callback(faulthandler.disable)
    stack.callback(os.dup2, screen, 2)
    os.dup2(log, 2)


def _handlers() -> list[std_logging.StreamHandler]:
    """What writes records: that of absl, and those of a program that set up none."""
    found = [logging.get_absl_handler().python_handler, *std_logging.root.handlers]
    return [h for h in found if isinstance(h, std_logging.StreamHandler)]


def _is_standard_error() -> bool:
    try:
        return sys.stderr.fileno() == 2
    except OSError:  # It is no file: somebody catches what Python writes.
        return False


@functools.cache
def _folders() -> tuple[str, ...]:
    """Where the libraries lie."""
    specs = (importlib.util.find_spec(name) for name in _LIBRARIES)
    places = (spec.origin for spec in specs if spec is not None)
    return tuple(os.path.dirname(place) + os.sep for place in places if place)
