"""Builds an evaluator in the background while training runs.

The build reads and tokenizes all evaluation data, which takes longer than the rest of
the startup.
"""

import threading
from collections.abc import Callable
from typing import Any, Self


class BackgroundEvaluator:
    """Builds an evaluator in a thread, from the first step on.

    The first evaluation waits for it. An error of the thread is raised unchanged, by
    the next step or by the evaluation, whichever comes first.
    """

    def __init__(self, build: Callable[[], Any]):
        """Stores the build function; nothing is built yet.

        Args:
            build: returns the evaluator, or None if there is nothing to evaluate.
        """
        self._build = build
        self._evaluator: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the build; later calls do nothing."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="evaluator", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        try:
            self._evaluator = self._build()
        except BaseException as error:  # noqa: BLE001 - raised where it is asked for
            self._error = error

    def check(self) -> None:
        """Raises the error of the thread, if there is one; does not wait."""
        if self._error is not None:
            raise self._error

    def join(self) -> Any:
        """Waits for the evaluator (or None); starts the build if necessary.

        Raises:
            Exception: the error of the build.
        """
        self.start()
        assert self._thread is not None
        self._thread.join()
        self.check()
        return self._evaluator

    def before_step(self, asked: Callable[[int], bool]) -> Callable[[int], bool]:
        """Returns a `BaseTrainer.preempted` that starts the thread after the first
        step.

        Args:
            asked: the callable to ask before every step.
        """
        seen = 0

        def before(step: int) -> bool:
            nonlocal seen
            seen += 1
            # The first step takes priority over the build.
            if seen == 2:
                self.start()
            self.check()
            return asked(step)

        return before

    def __exit__(self, exc_type: object, *exc_info: object) -> None:
        """Closes the evaluator; after an error it does not wait for the thread."""
        if self._thread is not None and exc_type is None:
            self.join()
        if self._evaluator is not None:
            self._evaluator.close()

    def __enter__(self) -> Self:
        return self
