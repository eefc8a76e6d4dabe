"""Worker processes that import only the modules that their jobs name.

The pools of `multiprocessing` have two disadvantages. A fork harms the threads of JAX
and TensorFlow. A spawn imports the running program: `python -m t5x.train` costs seconds
of JAX imports, and a script without a main guard would start again. The workers here
are plain child processes that read jobs from a pipe.

Jobs, functions, and results are pickled, functions by the name of their module. A
function defined by the running program itself (`__main__`) is not found.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

from jaxaug.core.errors import UserError

_Function = Callable[[Any], Any]


class LostWorkerError(UserError):
    """A worker process ended before its job was done."""


class Pool:
    """Processes that work on one job each at a time; a context manager.

    A process starts when a job needs it. On leaving the context all processes end, and
    unfinished jobs are dropped.
    """

    def __init__(self, workers: int):
        """Creates the pool; `workers` is the number of processes."""
        # Each thread owns a process and waits for it.
        self._threads = ThreadPoolExecutor(workers, "jaxaug-worker")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen] = []
        self._closed = False

    def submit(self, function: _Function, job: Any) -> Future:
        """Runs `function(job)` in a worker process.

        The future raises the function's error with a note of its origin, or
        `LostWorkerError`.
        """
        return self._threads.submit(self._work, function, job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            assert process.stdin is not None and process.stdout is not None
            # The process may have ended in the middle of a request.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
            process.wait()

    def _work(self, function: _Function, job: Any) -> Any:
        # Pickled twice, so that the worker can report a request that it cannot
        # unpickle.
        request = pickle.dumps(pickle.dumps((function, job)))
        process = self._process()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
            result, error = pickle.load(process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            status = process.wait()
            self._own.process = None
            raise LostWorkerError(
                f"a worker process ended with status {status} before its job did (-9: "
                "it was killed, as for want of memory). Use fewer workers or free "
                "memory, and run the same command again."
            ) from None
        if error is not None:
            raise error
        return result

    def _process(self) -> subprocess.Popen:
        """Returns the process of this thread; starts it if necessary."""
        found = getattr(self._own, "process", None)
        if found is not None:
            return found
        # The worker finds modules in the same places as this process. With -P, the
        # working directory counts only if it counts here.
        places = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        with self._lock:
            if self._closed:
                raise LostWorkerError("the pool of workers is closed")
            found = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": places},
            )
            self._processes.append(found)
        self._own.process = found
        return found


def serve() -> None:
    """Reads jobs from standard input and writes results to standard output.

    The output of jobs goes to standard error.
    """
    # Ctrl-C reaches the whole group; the parent reports it and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    # A pipe would hold what jobs print until the process ends.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        answer = _answer(request)
        try:
            answers.write(answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # The parent process is gone.


def _answer(request: bytes) -> bytes:
    """Returns (result, None) or (None, exception), pickled."""
    try:
        function, job = pickle.loads(request)
        return pickle.dumps((function(job), None))
    except Exception as error:  # noqa: BLE001 (raised again in the parent)
        text = traceback.format_exc()
        error.add_note(f"in a worker process:\n{text}")
        try:
            answer = pickle.dumps((None, error))
            pickle.loads(answer)
        except (pickle.PicklingError, TypeError, AttributeError):
            # The error cannot be pickled, but its text can.
            return pickle.dumps((None, RuntimeError(text)))
        return answer


if __name__ == "__main__":
    serve()
