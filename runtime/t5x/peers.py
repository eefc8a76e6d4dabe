"""Detects the loss of another process of the run, reports it, and exits.

Otherwise the remaining processes wait in their next collective operation until JAX's
own service ends them with a C++ stack trace. Each process writes a heartbeat every few
seconds to the key-value store of JAX's coordination service, and reads all heartbeats.
The store is in process 0: if that process is lost, JAX aborts the others at once, and
this module catches the abort.
"""

import atexit
import contextlib
import ctypes
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import orbax.checkpoint as ocp

# Seconds between heartbeats, and seconds without one after which a process is lost. A
# process may be busy in one call that blocks all its threads.
INTERVAL = 5.0
PATIENCE = 60.0
# Intervals that may pass between the end of the patience and the message.
_SLOWNESS = 6
# JAX raises RuntimeError or ValueError with these codes. Other codes, such as
# RESOURCE_EXHAUSTED (out of memory), have local causes.
_FAILED = re.compile(
    "(UNKNOWN|INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|CANCELLED):"
)
_ALIVE, _DOOR, _DONE = "t5x/alive", "t5x/door", "done"

_active: list["Watch"] = []


def start() -> None:
    """Watches the other processes, if any, until the program ends."""
    if jax.process_count() > 1 and not _active:
        client = ocp.multihost.get_jax_distributed_client()
        watch = Watch(client, jax.process_index(), jax.process_count())
        _active.append(watch)
        # It stops after the last use of a device, and before JAX leaves its service.
        atexit.register(watch.stop)


def advise(advice: Callable[[], str]) -> None:
    """Sets the advice in the message; the function is called when a process is lost."""
    for watch in _active:
        watch.advice = advice


def wait_for_cause(error: BaseException) -> None:
    """Waits for the report of a lost process after a failed collective operation.

    Returns only if no process is lost. The watch continues while JAX leaves its
    service.
    """
    causes: list[BaseException | None] = [error]
    while (last := causes[-1]) is not None:
        causes.append(last.__cause__ or last.__context__)
    failed = any(_FAILED.match(str(cause)) for cause in causes)
    for watch in _active:
        atexit.unregister(watch.stop)
        if failed:
            seconds = PATIENCE + _SLOWNESS * INTERVAL
            operation = str(error).strip().partition("\n")[0][-200:]
            _tell(
                f"error: {operation}\nLooking for a process that was lost, for "
                f"up to {seconds:.0f} s."
            )
            watch.wait(seconds)


class Watch:
    """Watches the other processes of the run in a thread; see the module docstring.

    `advice` returns the end of the message.
    """

    def __init__(self, client: Any, index: int, count: int):
        self.advice: Callable[[], str] = lambda: "Run the same command again."
        self._client = client
        self._index = index
        self._count = count
        self._door = ""  # Address at which process 0 answers as long as it lives.
        self._names = {index: f"host {socket.gethostname()}, pid {os.getpid()}"}
        if index == 0:
            self._server = socket.create_server(("", 0))
            port = self._server.getsockname()[1]
            # The others know its name before its first heartbeat.
            door = f"{socket.gethostname()}:{port} {self._names[index]}"
            client.key_value_set(_DOOR, door)
        self._stopped = threading.Event()
        self._leaving = threading.Lock()
        # Maps a process index to (last heartbeat, time when it was first seen).
        self._signs: dict[int, tuple[str, float]] = {}
        self._thread = threading.Thread(target=self._run, name="peers", daemon=True)
        self._thread.start()
        self._catch_abort()

    def stop(self) -> None:
        """Marks this process as done and stops the watch."""
        self._stopped.set()
        self._thread.join(timeout=INTERVAL)
        if self in _active:
            _active.remove(self)

    def wait(self, seconds: float) -> None:
        """Waits for up to `seconds`; the program ends if a process is lost."""
        self._thread.join(timeout=seconds)

    def _run(self) -> None:
        number, heard = 0, time.monotonic()
        while not self._stopped.wait(INTERVAL if number else 0):
            number += 1
            try:
                self._show(str(number))
                lost = self._find_lost()
            except jax.errors.JaxRuntimeError:
                # A short network failure is tolerated.
                if time.monotonic() - heard > PATIENCE:
                    self._leave([0])
                continue
            heard = time.monotonic()
            if lost:
                if self._index == 0:
                    # The others lose the store when this process exits.
                    time.sleep(2 * INTERVAL)
                self._leave(lost)
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            self._show(_DONE)

    def _show(self, sign: str) -> None:
        self._client.key_value_set(
            f"{_ALIVE}/{self._index}",
            f"{sign} {self._names[self._index]}",
            allow_overwrite=True,
        )

    def _find_lost(self) -> list[int]:
        """Returns the processes without a recent heartbeat."""
        if not self._door:
            patience = int(1000 * PATIENCE)
            door = self._client.blocking_key_value_get(_DOOR, patience)
            self._door, _, self._names[0] = door.partition(" ")
        now = time.monotonic()
        for key, value in self._client.key_value_dir_get(f"{_ALIVE}/"):
            index = int(key.rsplit("/", 1)[1])
            sign, _, self._names[index] = value.partition(" ")
            if self._signs.get(index, ("", 0.0))[0] != sign:
                self._signs[index] = sign, now
        return [
            index
            for index, (sign, seen) in sorted(self._signs.items())
            if index != self._index and sign != _DONE and now - seen > PATIENCE
        ]

    def _leave(self, lost: Sequence[int]) -> NoReturn:
        with self._leaving:
            names = ", ".join(
                f"process {index} of {self._count} "
                f"({self._names.get(index, 'not seen so far')})"
                for index in lost
            )
            _tell(
                f"error: Lost {names}: it has ended or hangs, and process "
                f"{self._index} cannot go on without it. {self.advice()}"
            )
            sys.stdout.flush()
            # The teardown of JAX would wait for the lost process.
            os._exit(1)

    def _catch_abort(self) -> None:
        """Explains JAX's abort if process 0 is lost; other aborts are unchanged.

        This needs a C signal handler: Python handlers run in the main thread, and an
        abort does not wait for it.
        """
        libc = ctypes.CDLL(None)
        libc.signal.restype = ctypes.c_void_p
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]

        def aborted(signum: int) -> None:
            if not self._stopped.is_set() and self._door and not self._answers():
                self._leave([0])
            libc.signal(signum, previous)
            signal.raise_signal(signum)

        # The reference keeps the handler alive, because C only has a pointer.
        self._handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
        pointer = ctypes.cast(self._handler, ctypes.c_void_p)
        previous = libc.signal(signal.SIGABRT, pointer)

    def _answers(self) -> bool:
        """Returns whether process 0 is alive."""
        host, _, port = self._door.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=3).close()
        except OSError:
            return False
        return True


def _tell(message: str) -> None:
    """Writes to stderr on every process, because each has its own log."""
    os.write(2, f"{message}\n".encode())
