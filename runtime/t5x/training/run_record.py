"""Guards of a run in its folder: its record, its lock, and the handling of SIGTERM.

The record holds what checkpoints lack: the random seeds, the first step of the run, the
last evaluation, and the state of actions. Periods and relative steps count from the
first step.

Process 0 of a run holds an operating-system lock on `<model_dir>/train.lock`, which is
released when the process ends, even by a crash. The file names the holder. Folders with
a URL (gs://), and file systems without locks, are not locked.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

import jax
from etils import epath
from jax.experimental import multihost_utils
from jaxaug_base.files import read_json, replacing

from t5x import distributed
from t5x.errors import UserError
from t5x.training.trainer import PreemptionError

FILE_NAME = "unfinished_run.json"
FINISHED_NAME = "finished_run.json"


class RunRecord:
    """Record of one run. All processes read it; process 0 writes it."""

    def __init__(self, model_dir: str):
        self._path = epath.Path(model_dir) / FILE_NAME
        self._finished_path = epath.Path(model_dir) / FINISHED_NAME
        self._lock = threading.Lock()
        self.found = self._path.exists()
        self._values: dict[str, Any] = {}
        for path in (self._path, self._finished_path):
            if path.exists():
                self._values = _read(path)
                break

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value recorded under a name."""
        return self._values.get(key, default)

    def update(self, **values: Any) -> None:
        """Records values atomically."""
        with self._lock:
            if {**self._values, **values} == self._values:
                return
            self._values.update(values)
            self._write(self._path)

    def complete(self, step: int, total_steps: int) -> None:
        """Records the last step, which is below `total_steps` if an action stopped."""
        with self._lock:
            self._values["finished"] = {"step": step, "total_steps": total_steps}
            self._write(self._finished_path)
            if jax.process_index() == 0:
                self._path.unlink(missing_ok=True)

    def is_finished(self, step: int, total_steps: int) -> bool:
        """Returns whether the run ended at `step` and needs no more steps."""
        end = self.get("finished")
        return bool(end) and step == end["step"] and total_steps <= end["total_steps"]

    def reopen(self) -> None:
        """Removes the end mark of a finished run that is to continue."""
        if self.get("finished"):
            self.update(finished=None, stop=False)
            if jax.process_index() == 0:
                self._finished_path.unlink(missing_ok=True)

    def begin_anew(self) -> None:
        """Discards the record of a finished run whose checkpoints are gone."""
        with self._lock:
            if self._values.get("finished"):
                self._values = {}

    def _write(self, path: epath.Path) -> None:
        if jax.process_index() == 0:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(self._values))


def _read(path: epath.Path) -> dict[str, Any]:
    try:
        values = read_json(path)
        if not isinstance(values, dict):
            raise TypeError("it holds no JSON object")
        end = values.get("finished")
        if end is not None and not {"step", "total_steps"} <= end.keys():
            raise TypeError("it does not say where the run ended")
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it to go on from the newest "
            f"checkpoint."
        ) from error
    return values


LOCK_NAME = "train.lock"
_HELD = (errno.EACCES, errno.EAGAIN)
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def only_run_in(model_dir: str) -> Iterator[None]:
    """Holds the lock of a model folder; the processes of one run share it.

    Raises:
        UserError: another run holds it; the message names its process and host.
    """
    path, file = Path(model_dir) / LOCK_NAME, None
    with distributed.failing_together():
        if jax.process_index() == 0 and "://" not in model_dir:
            file = _locked(path)
    try:
        yield
    finally:
        if file is not None:
            with file:
                if _is_current(file, path):
                    path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[bytes]:
    """Returns the open lock file, which names this process, or raises UserError."""
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


MESSAGE = "Stopped by SIGTERM; run the same command to continue."


class PreemptionGuard:
    """Detects SIGTERM while it is active. Use as a context manager.

    In one process a signal handler is installed (main thread only). With several
    processes, JAX's preemption service agrees on one step at which all of them stop.
    """

    def __init__(self) -> None:
        self.requested = False
        self._interruptible = False
        self._previous: Any = None
        self._installed = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and jax.process_count() == 1:
            self._previous = signal.signal(signal.SIGTERM, self._handle)
            self._installed = True
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, self._previous)

    def _handle(self, signum: int, frame: Any) -> None:
        del signum, frame
        self.requested = True
        if self._interruptible:
            self._interruptible = False
            raise PreemptionError(MESSAGE)

    def finish_steps(self) -> None:
        """Ends `interruptible` early: SIGTERM now takes effect after the step."""
        self._interruptible = False

    def before_step(self, step: int) -> bool:
        """Returns whether to stop before this step (`BaseTrainer.preempted`)."""
        if jax.process_count() > 1:
            return multihost_utils.reached_preemption_sync_point(step)
        return self.requested

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raises PreemptionError immediately on SIGTERM inside the context.

        Use it for evaluations. Training steps must finish before the state is saved.
        """
        if self.requested:
            raise PreemptionError(MESSAGE)
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False
