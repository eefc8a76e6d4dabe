"""Redirects internal notes of TensorFlow and SeqIO from the screen to a file.

The T5X programs write them to the run folder (`t5x.logs`, which upstream T5X lacks);
verbs have no such folder.
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
    """Returns the log file in the cache folder, or in the local one."""
    return Path(cache_folder.local_cache_dir(), NAME)


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Appends notes and warnings of the libraries to `log_file` inside the context.

    This includes everything that C++ code writes to standard error. Python output still
    goes to the screen, and so do errors of the libraries and the traceback of a crash.
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
    """A `logging` filter that writes suppressed records to a file."""

    def __init__(self, file: int):
        self._file = file

    def filter(self, record: std_logging.LogRecord) -> bool:
        """Returns whether to show a record."""
        if record.levelno >= std_logging.ERROR:
            return True
        if not record.pathname.startswith(_folders()):
            return True
        place = f"{record.levelname} {record.filename}:{record.lineno}]"
        os.write(self._file, f"{place} {record.getMessage()}\n".encode())
        return False


def _move_native_code(stack: contextlib.ExitStack, log: int) -> None:
    """Redirects descriptor 2 to the log, and `sys.stderr` to the old descriptor 2."""
    sys.stderr.flush()
    screen = os.dup(2)
    stack.callback(os.close, screen)
    if _is_standard_error():
        # The descriptor stays open, because code imported inside may keep it.
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
    """Returns the log handlers of absl and of the root logger."""
    found = [logging.get_absl_handler().python_handler, *std_logging.root.handlers]
    return [h for h in found if isinstance(h, std_logging.StreamHandler)]


def _is_standard_error() -> bool:
    try:
        return sys.stderr.fileno() == 2
    except OSError:  # It is not a file: Python output is captured.
        return False


@functools.cache
def _folders() -> tuple[str, ...]:
    """Returns the installation folders of the libraries."""
    specs = (importlib.util.find_spec(name) for name in _LIBRARIES)
    places = (spec.origin for spec in specs if spec is not None)
    return tuple(os.path.dirname(place) + os.sep for place in places if place)
