"""Lock that allows one run at a time in a model folder.

Process 0 of a run holds an operating-system lock on `<model_dir>/train.lock`, which is
released when the process ends, even by a crash. The file names the holder and is
touched every few seconds. This sign of life decides on file systems whose locks do not
reach other hosts. Folders with a URL (gs://) are not locked.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import jax

from t5x import distributed
from t5x.errors import UserError
from t5x.logs.progress import announce

FILE_NAME = "train.lock"
# Seconds between signs of life, and seconds to wait for one.
_TOUCH = 10.0
_PATIENCE = 25.0
_HELD = (errno.EACCES, errno.EAGAIN)
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def only_run_in(model_dir: str) -> Iterator[None]:
    """Holds the lock of a model folder; the processes of one run share it.

    Raises:
        UserError: another run holds it; the message names its process and host.
    """
    lock, error = None, None
    if jax.process_index() == 0 and "://" not in model_dir:
        try:
            lock = _Lock(Path(model_dir) / FILE_NAME)
        except (UserError, OSError) as found:
            error = found
    distributed.raise_if_any_failed(error)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


class _Lock:
    def __init__(self, path: Path):
        self._path = path
        self._file = self._open()
        self._released = threading.Event()
        self._file.truncate(0)
        self._file.write(json.dumps(_myself()).encode())
        self._file.flush()
        threading.Thread(target=self._touch, name="run_lock", daemon=True).start()

    def _open(self) -> Any:
        """Returns the open, locked file."""
        while True:
            file = self._path.open("a+b")
            try:
                supported = self._lock(file)
                # A run that ended just now may have removed the opened file.
                if not self._is_current(file):
                    file.close()
                    continue
                holder = _read(file)
                reached = supported and holder.get("host") == socket.gethostname()
                if holder and not reached:
                    self._wait_for_sign(file, holder)
                return file
            except BaseException:
                file.close()
                raise

    def _lock(self, file: Any) -> bool:
        """Takes the lock; returns whether the file system supports locks.

        Raises:
            UserError: another process holds this lock.
        """
        try:
            # Unlike flock, lockf locks are not inherited by forked children.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                raise self._refusal(_read(file)) from None
            if error.errno in _UNSUPPORTED:
                return False
            raise
        return True

    def _is_current(self, file: Any) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def _wait_for_sign(self, file: Any, holder: dict[str, Any]) -> None:
        """Raises UserError if a holder without a visible lock shows a sign of life."""
        announce(
            f"{self._path.parent} was last used by {_name(holder)}; waiting for "
            f"{_PATIENCE:.0f} s to see whether it still runs"
        )
        before = os.fstat(file.fileno()).st_mtime_ns
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            time.sleep(min(1.0, _PATIENCE))
            if not self._is_current(file):
                return
            if os.fstat(file.fileno()).st_mtime_ns != before:
                raise self._refusal(_read(file))

    def _refusal(self, holder: dict[str, Any]) -> UserError:
        return UserError(
            f"MODEL_DIR {self._path.parent} is in use: {_name(holder)} trains in it. "
            "Two runs in one folder would overwrite each other's checkpoints. Wait "
            "until that process has ended, or stop it, or give another MODEL_DIR."
        )

    def _touch(self) -> None:
        while not self._released.wait(_TOUCH):
            with contextlib.suppress(OSError, ValueError):
                os.utime(self._file.fileno())

    def release(self) -> None:
        self._released.set()
        if self._is_current(self._file):
            self._path.unlink(missing_ok=True)
        self._file.close()


def _myself() -> dict[str, Any]:
    now = datetime.now().astimezone()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": now.isoformat(" ", "seconds"),
    }


def _read(file: Any) -> dict[str, Any]:
    """Returns the holder of the lock; empty if unlocked or not yet written."""
    file.seek(0)
    try:
        found = json.loads(file.read())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _name(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    return (
        f"process {holder.get('pid')} on host {holder.get('host')} (since "
        f"{holder.get('since')})"
    )
