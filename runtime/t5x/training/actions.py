"""Actions that run after a round of training or evaluation."""

import abc
import enum
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxaug_base import clu_names as clu

from t5x import checks
from t5x.distributed import get_local_data
from t5x.errors import UserError


@enum.unique
class ActionMode(enum.Enum):
    """When an action runs: after a round of training, or after a kind of evaluation."""

    TRAIN = 1
    TRAIN_EVAL = 2
    INFER_EVAL = 3


class BaseAction(abc.ABC):
    """Reacts to the metrics of a round, on process 0."""

    @abc.abstractmethod
    def run(
        self, train_state: Any, metrics_by_task: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Runs the action; returns whether training should stop."""


ActionMapType = Mapping[ActionMode, Sequence[BaseAction]]


def _find_metric(
    action: BaseAction, metrics_by_task: Mapping[str, Mapping], task: str, metric: str
) -> Any:
    """Returns the metric; if it is missing, logs the names and returns None."""
    if task not in metrics_by_task:
        missing = f"task {task!r} is not evaluated; tasks: {sorted(metrics_by_task)}"
    elif metric not in metrics_by_task[task]:
        missing = f"metrics of {task!r}: {sorted(metrics_by_task[task])}"
    else:
        return metrics_by_task[task][metric]
    logging.warning(
        "%s on %s/%s not run: %s", type(action).__name__, task, metric, missing
    )
    return None


def _as_float(action: BaseAction, value: Any) -> float | None:
    if isinstance(value, clu.values.Scalar):
        value = np.asarray(value.value).reshape(()).item()
    elif not isinstance(value, (float, np.floating)):
        logging.warning(
            "%s not run: its metric is a %s, not a scalar",
            type(action).__name__,
            type(value).__name__,
        )
        return None
    return float(value)


class EarlyStoppingAction(BaseAction):
    """Stops training when a metric no longer improves.

    With compare_to='previous' (as in T5X), training stops when each of the last
    `patience` values is no better than its predecessor. These are `patience - 1`
    comparisons within the window. With compare_to='best' it stops when the last
    `patience` values are all no better than the best earlier one.

    An improvement is a change by more than `atol + rtol * |reference|`. A finite value
    improves on NaN and infinity, which improve on nothing.

    Args:
        metric: (task, metric).
        mode: 'min' if lower values are better, 'max' if higher ones are.
    """

    def __init__(
        self,
        metric: tuple[str, str],
        mode: str,
        patience: int = 3,
        atol: float = 0.0,
        rtol: float = 0.0,
        compare_to: str = "previous",
    ):
        self._task, self._metric = metric
        if mode not in ("min", "max"):
            raise UserError(
                f"EarlyStoppingAction.mode = {mode!r}: give 'min' or 'max'."
            )
        for name, value in (("atol", atol), ("rtol", rtol)):
            checks.number(f"EarlyStoppingAction.{name}", value)
        checks.whole_number("EarlyStoppingAction.patience", patience, least=1)
        if compare_to not in ("previous", "best"):
            raise UserError(
                f"EarlyStoppingAction.compare_to = {compare_to!r}: give 'previous' or "
                "'best'."
            )
        self._sign = 1.0 if mode == "min" else -1.0
        self._patience = patience
        self._atol = atol
        self._rtol = rtol
        self._compare_to = compare_to
        self._history: list[tuple[int, float]] = []
        self._restored = False

    def get_state(self) -> list:
        """Returns the values seen, so that a resumed run can continue from them."""
        return [list(entry) for entry in self._history]

    def set_state(self, state: Sequence) -> None:
        """Restores the state that `get_state` returned."""
        self._history = [(int(step), float(value)) for step, value in state]
        self._restored = True

    def _improves(self, current: float, reference: float) -> bool:
        if not (math.isfinite(current) and math.isfinite(reference)):
            return math.isfinite(current) and not math.isfinite(reference)
        delta = self._atol + self._rtol * abs(reference)
        return self._sign * current < self._sign * reference - delta

    def run(
        self, train_state: Any, metrics_by_task: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Adds the value to the history; returns True when training should stop."""
        found = _find_metric(self, metrics_by_task, self._task, self._metric)
        value = None if found is None else _as_float(self, found)
        if value is None:
            return False
        step = _step_of(train_state, default=len(self._history))
        if self._restored:
            # A repeated evaluation after a restart replaces the first one.
            self._history = [e for e in self._history if e[0] < step]
            self._restored = False
        self._history.append((step, value))
        values = [v for _, v in self._history]
        if self._compare_to == "previous":
            window = values[-self._patience :]
            tired = len(window) == self._patience and not any(
                self._improves(after, before)
                for before, after in itertools.pairwise(window)
            )
        else:
            best_at = 0
            for i, candidate in enumerate(values):
                if self._improves(candidate, values[best_at]):
                    best_at = i
            tired = len(values) - 1 - best_at >= self._patience
        if tired:
            logging.warning(
                "Stopping: %s of %s has not improved; its values by step: %s",
                self._metric,
                self._task,
                ", ".join(f"{s}: {v:.6g}" for s, v in self._history),
            )
        return tired


class TerminateOnNanAction(BaseAction):
    """Stops training when a metric is NaN or infinite.

    The training loss needs no action: `train` ends if the loss is not finite.
    """

    def __init__(self, task: str, metric: str = "loss"):
        self._task = task
        self._metric = metric

    def run(
        self, train_state: Any, metrics_by_task: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Returns True when the metric is not finite."""
        del train_state
        found = _find_metric(self, metrics_by_task, self._task, self._metric)
        value = None if found is None else _as_float(self, found)
        if value is None or np.isfinite(value):
            return False
        logging.warning("Stopping: %s of %s is %s.", self._metric, self._task, value)
        return True


def _step_of(train_state: Any, default: int) -> int:
    step = getattr(train_state, "step", None)
    return default if step is None else int(np.reshape(get_local_data(step), ()))
