"""Detection of a loss, gradients, or parameters that are NaN or infinite."""

import collections
import dataclasses
from collections.abc import Mapping
from concurrent import futures
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxaug_base import clu_names as clu
from jaxtyping import Array, Bool

from t5x import metrics as metrics_lib
from t5x.distributed import fetch_global
from t5x.logs.metrics_writer import SKIPPED_STEPS, to_host
from t5x.logs.progress import announce

LOSS = "loss"
# Maximum number of names or steps in a message.
_NAMED = 3


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Returns whether every floating-point number in a tree of arrays is finite."""
    leaves = [x for x in jax.tree.leaves(tree) if _is_float(x)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in leaves], bool))


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def skip_nonfinite_step(
    old_state: Any, new_state: Any, gradients: Any, metrics: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Returns the new state, or the old one with a new step number if not finite.

    A step whose loss or gradients are not finite leaves parameters, optimizer state,
    and mutables unchanged; the step number advances. Its metrics do not count, and the
    metric `nonfinite_steps` counts the step.
    """
    finite = all_finite((gradients, metrics.get(LOSS)))
    kept = jax.tree.leaves(old_state.replace_step(new_state.step))
    leaves, structure = jax.tree.flatten(new_state)
    chosen = [
        jnp.where(finite, new, old) for new, old in zip(leaves, kept, strict=True)
    ]
    state = jax.tree.unflatten(structure, chosen)
    counted = {
        name: metric
        # These metrics describe the step and not its batch.
        if name.startswith("learning_rate") or isinstance(metric, clu.metrics.LastValue)
        else jax.tree.map(lambda x: jnp.where(finite, x, jnp.zeros_like(x)), metric)
        for name, metric in metrics.items()
    }
    counted[SKIPPED_STEPS] = metrics_lib.Sum(jnp.where(finite, 0, 1))
    return state, counted


@jax.jit
def _finite_leaves(leaves: list[Array]) -> Bool[Array, " leaves"]:
    return jnp.stack([jnp.all(jnp.isfinite(x)) for x in leaves])


def nonfinite_parameters(params: Mapping[str, Any]) -> str | None:
    """Returns the names of non-finite parameters ('a/b, c and 2 more'), or None."""
    floats = {
        jax.tree_util.keystr(path, simple=True, separator="/"): x
        for path, x in jax.tree.leaves_with_path(params)
        if _is_float(x)
    }
    if not floats:
        return None
    finite = fetch_global(_finite_leaves(list(floats.values())))
    names = [name for name, good in zip(floats, finite, strict=True) if not good]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more or None


@dataclasses.dataclass
class Window:
    """Steps whose metrics are summed, after step `first` up to `last`.

    `steps` are (step number after the step, loss, count of skipped steps) of each step,
    as device arrays or functions that return them. They are read only if the sum in
    `summary` is not finite.
    """

    first: int
    last: int
    summary: futures.Future
    steps: list[tuple[int, Any, Any]]


class Watch:
    """Checks windows of steps after they are computed.

    Attributes:
        max_skipped_steps: consecutive steps that may be skipped.
        batch: features of the batches, for a message: 'targets int32[4, 6], ...'.
    """

    def __init__(self, max_skipped_steps: int = 0):
        self.max_skipped_steps = max_skipped_steps
        self.batch = "unknown features"
        # If `find` is never called, only the last windows are kept.
        self._windows: collections.deque[Window] = collections.deque(maxlen=4)
        self._skipped_in_a_row = 0

    def describe(self, batch: Mapping[str, Any]) -> None:
        """Records names, types, and shapes of the batch features."""
        self.batch = ", ".join(
            f"{name} {x.dtype}{list(x.shape)}" for name, x in sorted(batch.items())
        )

    def add(self, window: Window) -> None:
        """Adds a window whose steps are queued."""
        self._windows.append(window)

    def find(self, lag: int = 0) -> str | None:
        """Returns a description of the first non-finite value, or None.

        The newest `lag` windows are left unchecked, so that the devices have work
        queued. All processes check the same windows.
        """
        while len(self._windows) > lag:
            found = self._look_at(self._windows.popleft())
            if found:
                return found
        return None

    def _look_at(self, window: Window) -> str | None:
        summary = window.summary.result()
        skipped = int(_number(summary.get(SKIPPED_STEPS, 0)))
        found = self._skipped(window, skipped) if skipped else None
        if not skipped:
            self._skipped_in_a_row = 0
        loss = _number(summary.get(LOSS, 0.0))
        if found or np.isfinite(loss) or skipped == window.last - window.first:
            return found
        for step, metric, _ in window.steps:
            value = _number(metric)
            if not np.isfinite(value):
                return f"The training loss is {value:g} at step {step:,}"
        return (
            f"The training loss is {loss:g} between steps {window.first:,} and "
            f"{window.last:,}"
        )

    def _skipped(self, window: Window, total: int) -> str | None:
        numbers = []
        for step, _, count in window.steps:
            if not _number(count):
                self._skipped_in_a_row = 0
                continue
            numbers.append(step)
            self._skipped_in_a_row += 1
            if self._skipped_in_a_row > self.max_skipped_steps:
                return (
                    "Loss or gradients were not finite in "
                    f"{self._skipped_in_a_row:,} steps in a row, up to step {step:,}; "
                    f"Trainer.max_skipped_steps = {self.max_skipped_steps}"
                )
        shown = ", ".join(f"{n:,}" for n in numbers[:_NAMED])
        announce(
            f"warning: skipped {total:,} of the steps {window.first + 1:,} to "
            f"{window.last:,}, whose loss or gradients were not finite: {shown}"
            f"{', ...' if len(numbers) > _NAMED else ''}"
        )
        return None


def _number(metric: Any) -> float:
    """Returns a number from a clu value, or from a metric on the devices."""
    if callable(metric):
        metric = metric()
    for name in ("value", "total"):
        metric = getattr(metric, name, metric)
    if isinstance(metric, clu.metrics.Metric):
        metric = metric.compute()
    values = np.asarray(to_host(metric), np.float64).reshape(-1)
    return float(values.sum()) if values.size else 0.0
