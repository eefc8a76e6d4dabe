"""Redirects internal notes of TensorFlow and SeqIO from the screen to a file.

TensorFlow's C++ code writes notes about its build to the standard-error descriptor.
SeqIO warns about settings that users of these programs did not choose. Errors, messages
of these programs, and tracebacks stay on the screen.
"""

import contextlib
import faulthandler
import functools
import importlib.util
import logging as std_logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

from absl import logging

from jaxaug_base.files import user_cache

NAME = "libraries.log"
"""Name of the file in a run folder; process N > 0 writes `libraries.log.N`."""

_LIBRARIES = (
    "array_record", "keras", "seqio", "tensorflow", "tensorflow_datasets",
    "tensorflow_text",
)  # fmt: skip


class Notes:
    """Notes of libraries in a file, or in a temporary one until its place is known."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        """Opens a temporary file if there is no unbuffered one to append to."""
        # It stays open until the program ends.
        self._file = file or tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._path: str | None = None
        self._lock = threading.Lock()  # SeqIO warns from several threads.

    def filter(self, record: std_logging.LogRecord) -> bool:
        """Filters `logging` records: returns whether to show one; saves the others."""
        is_error = record.levelno >= std_logging.ERROR
        if is_error or not record.pathname.startswith(_folders()):
            return True
        place = f"{record.levelname} {record.filename}:{record.lineno}]"
        with self._lock:
            self._file.write(f"{place} {record.getMessage()}\n".encode())
        self._move()
        return False

    @contextlib.contextmanager
    def of_native_code(self) -> Iterator[None]:
        """Captures what C++ code writes to standard error inside the context.

        Python output still goes to the screen, and so does the traceback of a crash.
        """
        sys.stderr.flush()
        screen = os.dup(2)
        with contextlib.ExitStack() as stack:
            stack.callback(self._move)
            stack.callback(os.close, screen)
            stack.callback(os.dup2, screen, 2)
            stack.enter_context(_python_writes_to(screen))
            if not faulthandler.is_enabled():
                faulthandler.enable(screen)
                stack.callback(faulthandler.disable)
            os.dup2(self._file.fileno(), 2)
            yield

    def keep_in(self, folder: str, number: int = 0) -> None:
        """Moves the notes to the run folder of process `number`, and later ones too.

        Files in an object store cannot be appended to. The notes of such a run go to
        the user's cache on this machine.
        """
        if "://" in folder:
            folder = os.path.join(user_cache(), "t5x")
        self._path = os.path.join(folder, f"{NAME}.{number}" if number else NAME)
        self._move()

    def _move(self) -> None:
        """Appends the notes of the temporary file to the file, if its path is known."""
        with self._lock:
            if self._path is None:
                return
            self._file.seek(0)
            if noted := self._file.read():
                self._file.seek(0)
                self._file.truncate()
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                with open(self._path, "ab") as file:
                    file.write(noted)


@contextlib.contextmanager
def _python_writes_to(screen: int) -> Iterator[None]:
    """Moves `sys.stderr` and its log handlers to another descriptor in the context."""
    before = sys.stderr
    try:
        if before.fileno() != 2:
            raise OSError
    except OSError:  # It already uses another descriptor.
        yield
        return
    # The descriptor is not closed here, because code imported inside may keep it.
    beside = os.fdopen(
        os.dup(screen), "w", 1, encoding=before.encoding, errors=before.errors
    )
    handlers = [logging.get_absl_handler().python_handler, *std_logging.root.handlers]
    moved = [
        handler
        for handler in handlers
        if isinstance(handler, std_logging.StreamHandler) and handler.stream is before
    ]
    for handler in moved:
        handler.setStream(beside)
    sys.stderr = beside
    try:
        yield
    finally:
        beside.flush()
        if sys.stderr is beside:
            sys.stderr = before
        for handler in moved:
            handler.setStream(before)


@functools.cache
def _folders() -> tuple[str, ...]:
    """Returns the installation folders of the libraries."""
    specs = (importlib.util.find_spec(name) for name in _LIBRARIES)
    places = (spec.origin for spec in specs if spec is not None)
    return tuple(os.path.dirname(place) + os.sep for place in places if place)


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """Hides packages from imports inside the context, except imported ones.

    tensorboardX and spaCy would import PyTorch, in 2 to 3 s, for a few isinstance
    checks, and tensorboardX imports boto3 for a storage that is not used here.
    Other threads must not import it at the same time.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


_notes: Notes | None = None


def begin() -> None:
    """Starts to collect notes instead of showing them."""
    global _notes
    if _notes is None:
        _notes = Notes()
        logging.get_absl_handler().addFilter(_notes)


def of_native_code() -> contextlib.AbstractContextManager[None]:
    """Calls `Notes.of_native_code`; does nothing if no notes are collected."""
    return contextlib.nullcontext() if _notes is None else _notes.of_native_code()


def keep_in(folder: str, number: int = 0) -> None:
    """Calls `Notes.keep_in` if notes are collected."""
    if _notes is not None:
        _notes.keep_in(folder, number)


@contextlib.contextmanager
def noted(path: str | os.PathLike[str]) -> Iterator[None]:
    """Appends notes of the libraries to a file inside the context, up to a crash."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    logger = logging.get_absl_logger()
    with open(path, "ab", buffering=0) as file:
        notes = Notes(file)
        logger.addFilter(notes)
        try:
            with notes.of_native_code():
                yield
        finally:
            logger.removeFilter(notes)
