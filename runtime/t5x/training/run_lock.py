"""Lock that allows one run at a time in a model folder.

Process 0 of a run holds an operating-system lock on `<model_dir>/train.lock`, which is
released when the process ends, even by a crash. The file names the holder. Folders with
a URL (gs://), and file systems without locks, are not locked.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

import jax

from t5x import distributed
from t5x.errors import UserError

FILE_NAME = "train.lock"
_HELD = (errno.EACCES, errno.EAGAIN)
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def only_run_in(model_dir: str) -> Iterator[None]:
    """Holds the lock of a model folder; the processes of one run share it.

    Raises:
        UserError: another run holds it; the message names its process and host.
    """
    path, file, error = Path(model_dir) / FILE_NAME, None, None
    if jax.process_index() == 0 and "://" not in model_dir:
        try:
            file = _locked(path)
        except (UserError, OSError) as found:
            error = found
    distributed.raise_if_any_failed(error)
    try:
        yield
    finally:
        if file is not None:
            with file:
                if _is_current(file, path):
                    path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[bytes]:
    """Returns the open lock file, which names this process.

    Raises:
        UserError: another process holds the lock.
    """
    while True:
        file = path.open("a+b")
        try:
            # Unlike flock, lockf locks are not inherited by forked children.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                with file:
                    if error.errno in _HELD:
                        raise _refusal(file, path) from None
                    raise
        # A run that ended just now may have removed the opened file.
        if _is_current(file, path):
            break
        file.close()
    file.truncate(0)
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    file.write(json.dumps(holder).encode())
    file.flush()
    return file


def _is_current(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _refusal(file: IO[bytes], path: Path) -> UserError:
    file.seek(0)
    try:
        found = json.loads(file.read())
        holder = (
            f"process {found['pid']} on host {found['host']} (since {found['since']})"
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        holder = "another process"  # It has not written its name yet.
    return UserError(
        f"MODEL_DIR {path.parent} is in use: {holder} trains in it. Two runs in one "
        "folder would overwrite each other's checkpoints. Wait until that process has "
        "ended, or stop it, or give another MODEL_DIR."
    )
