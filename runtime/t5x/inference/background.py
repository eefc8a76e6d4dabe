"""An evaluator that is built while training goes on.

Building one reads and tokenises all evaluation data: longer than everything else that
comes before the first step.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class BackgroundEvaluator:
    """Builds an evaluator in a thread, from the first step on.

    The first evaluation waits for it. An error of the thread is raised as it is, by the
    next step or by the evaluation, whichever comes first.
    """

    def __init__(self, build: Callable[[], Any]):
        """Notes how to build it; nothing is built yet.

        Args:
            build: returns the evaluator, or None where there is nothing to evaluate.
        """
        self._build = build
        self._evaluator: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts to build, once."""
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
        """Waits for the evaluator, or None; starts to build it if that is not done.

        Raises:
            Exception: what went wrong in building it.
        """
        self.start()
        assert self._thread is not None
        self._thread.join()
        self.check()
        return self._evaluator

    def before_step(self, asked: Callable[[int], bool]) -> Callable[[int], bool]:
        """`BaseTrainer.preempted` that starts the thread after the first step.

        Args:
            asked: what is asked before every step besides.
        """
        seen = 0

        def before(step: int) -> bool:
            nonlocal seen
            seen += 1
            # Not earlier: what the first step needs comes first.
            if seen == 2:
                self.start()
            self.check()
            return asked(step)

        return before

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the evaluator; a run that failed does not wait for its thread."""
        if self._thread is not None and exc_type is None:
            self.join()
        if self._evaluator is not None:
            self._evaluator.close()

    def __enter__(self) -> Self:
        return self
