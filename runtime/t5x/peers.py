"""Notices the loss of another process of the run, says so, and leaves.

Without it the others wait in their next collective operation, until JAX's own service
ends them with a C++ stack trace. Each process shows a sign of life every few seconds in
the key-value store of JAX's coordination service; process 0 watches them all and tells
the others, which watch process 0. The store is in process 0: when that is lost, JAX aborts
the others at once, which is caught here.
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

# The client of the coordination service has no public name.
from jax._src import distributed as jax_distributed

# Seconds between signs of life, and after how many without one a process is lost. A
# process may be busy in one call that lets no other thread run.
INTERVAL = 5.0
PATIENCE = 60.0
# Intervals that may pass between the patience's end and the message.
_SLOWNESS = 6
# JAX raises RuntimeError or ValueError with these; RESOURCE_EXHAUSTED (no memory left)
# and the like have causes of their own.
_FAILED = re.compile(
    "(UNKNOWN|INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|CANCELLED):"
)
_ALIVE, _LOST, _DONE = "t5x/alive", "t5x/lost", "done"

_active: list["Watch"] = []


def start() -> None:
    """Watches the other processes, if any, until the program ends."""
    state = jax_distributed.global_state
    if state.num_processes > 1 and not _active:
        watch = Watch(
            state.client,
            state.process_id,
            state.num_processes,
            state.coordinator_address or "",
        )
        _active.append(watch)
        # After the last use of a device, and before JAX leaves its service.
        atexit.register(watch.stop)


def advise(advice: Callable[[], str]) -> None:
    """Sets what the message says about going on; called when a process is lost."""
    for watch in _active:
        watch.advice = advice


def wait_for_cause(error: BaseException) -> None:
    """Where a collective operation failed: waits for the loss of a process behind it.

    Returns only where no process is lost (or none is watched). After any error the watch
    goes on while JAX leaves its service, which waits for all processes.
    """
    causes: list[BaseException | None] = [error]
    while (last := causes[-1]) is not None:
        causes.append(last.__cause__ or last.__context__)
    failed = any(_FAILED.match(str(cause)) for cause in causes)
    for watch in _active:
        atexit.unregister(watch.stop)
        if failed:
            seconds = PATIENCE + _SLOWNESS * INTERVAL
            _tell(
                f"error: {_shortened(error)}\nLooking for a process that was lost, for "
                f"up to {seconds:.0f} s."
            )
            watch.wait(seconds)


class Watch:
    """See the module.

    Attributes:
        advice: returns the end of the message.
    """

    def __init__(self, client: Any, index: int, count: int, coordinator: str):
        self.advice: Callable[[], str] = lambda: "Run the same command again."
        self._client = client
        self._index = index
        self._count = count
        self._coordinator = coordinator
        self._stopped = threading.Event()
        self._leaving = threading.Lock()
        # index -> (last sign, when it was first seen).
        self._signs: dict[int, tuple[str, float]] = {}
        self._who = f"host {socket.gethostname()}, pid {os.getpid()}"
        self._names = {index: self._who}
        self._thread = threading.Thread(target=self._run, name="peers", daemon=True)
        self._thread.start()
        self._catch_abort()

    def stop(self) -> None:
        """This process is done."""
        self._stopped.set()
        self._thread.join(timeout=INTERVAL)
        if self in _active:
            _active.remove(self)

    def wait(self, seconds: float) -> None:
        """Lets the watch go on for a while; the program ends where one is lost."""
        self._thread.join(timeout=seconds)

    def _run(self) -> None:
        number, heard = 0, time.monotonic()
        while not self._stopped.wait(INTERVAL if number else 0):
            number += 1
            try:
                self._take_turn(str(number))
            except jax.errors.JaxRuntimeError:
                # The network may have a bad moment.
                if time.monotonic() - heard > PATIENCE:
                    self._leave([self._name(0)])
            else:
                heard = time.monotonic()
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            self._show(_DONE)

    def _take_turn(self, sign: str) -> None:
        self._show(sign)
        if self._index == 0:
            self._look_at_all()
            return
        if 0 not in self._names:
            shown = self._client.blocking_key_value_get(
                f"{_ALIVE}/0", int(1000 * PATIENCE)
            )
            self._names[0] = shown.partition(" ")[2]
        if told := self._client.key_value_dir_get(f"{_LOST}/"):
            self._leave([value for _, value in told])

    def _show(self, sign: str) -> None:
        self._client.key_value_set(
            f"{_ALIVE}/{self._index}", f"{sign} {self._who}", allow_overwrite=True
        )

    def _look_at_all(self) -> None:
        now = time.monotonic()
        for key, value in self._client.key_value_dir_get(f"{_ALIVE}/"):
            index = int(key.rsplit("/", 1)[1])
            sign, _, self._names[index] = value.partition(" ")
            if self._signs.get(index, ("", 0.0))[0] != sign:
                self._signs[index] = sign, now
        lost = [
            self._name(index)
            for index, (sign, seen) in sorted(self._signs.items())
            if index and sign != _DONE and now - seen > PATIENCE
        ]
        if lost:
            for number, name in enumerate(lost):
                self._client.key_value_set(f"{_LOST}/{number}", name)
            # The others lose the store with this process.
            time.sleep(2 * INTERVAL)
            self._leave(lost)

    def _name(self, index: int) -> str:
        # The address is that of process 0, whose name may not be known yet.
        who = self._names.get(index, self._coordinator)
        return f"process {index} of {self._count} ({who})"

    def _leave(self, lost: Sequence[str]) -> NoReturn:
        with self._leaving:
            mine = self._name(self._index)
            if mine in lost:
                what = (
                    f"The others gave up {mine}, this one, which showed no sign of life "
                    f"for {PATIENCE:.0f} s."
                )
            else:
                what = (
                    f"Lost {', '.join(lost)}: it has ended or hangs, and process "
                    f"{self._index} cannot go on without it."
                )
            _tell(f"error: {what} {self.advice()}")
            sys.stdout.flush()
            # The teardown of JAX would wait for the lost process.
            os._exit(1)

    def _catch_abort(self) -> None:
        """Explains JAX's abort where process 0 is lost; others stay as they are.

        The signal handlers of Python run in the main thread, which an abort does not
        wait for; hence one of C.
        """
        libc = ctypes.CDLL(None)
        libc.signal.restype = ctypes.c_void_p
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]

        def aborted(signum: int) -> None:
            if not self._stopped.is_set() and not self._coordinator_answers():
                self._leave([self._name(0)])
            libc.signal(signum, previous)
            signal.raise_signal(signum)

        # Kept: C has a pointer only.
        self._handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
        pointer = ctypes.cast(self._handler, ctypes.c_void_p)
        previous = libc.signal(signal.SIGABRT, pointer)

    def _coordinator_answers(self) -> bool:
        host, _, port = self._coordinator.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
        except OSError:
            return False
        return True


def _shortened(error: BaseException) -> str:
    """The end of the first line, which names the operation."""
    line = str(error).strip().split("\n", 1)[0]
    return line if len(line) <= 200 else f"...{line[-200:]}"


def _tell(message: str) -> None:
    """On every process: each has a log of its own."""
    os.write(2, f"{message}\n".encode())
