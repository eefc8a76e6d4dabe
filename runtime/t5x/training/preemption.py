"""Handling of SIGTERM: finish the step, save, and exit."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

import jax
from jax.experimental import multihost_utils

from t5x.training.trainer import PreemptionError

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

        Use it for long evaluations, not for training steps: these must finish before
        the state is saved.
        """
        if self.requested:
            raise PreemptionError(MESSAGE)
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False
