"""Several training steps in one call to the devices.

A small model computes a step in less time than Python needs to dispatch the next one. A
scan over a stack of batches dispatches them all at once.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from t5x.on_cpu.features import SMALL
from t5x.training.step import Batch, Metrics, merge_trees

Step = Callable[[Any, Batch], tuple[Any, Metrics]]


def by_size(arrays: Any) -> int:
    """Returns the number of steps per call that suits the model size.

    It is 10 on a CPU for fewer than 4 million numbers, and 1 otherwise. `arrays` holds
    all arrays that a step uses, trained or not.
    """
    size = sum(leaf.size for leaf in jax.tree.leaves(arrays))
    return 10 if size < SMALL and jax.default_backend() == "cpu" else 1


def scan_steps(step: Step) -> Callable[[Any, Sequence[Batch]], tuple[Any, Metrics]]:
    """Returns a function that takes one step for each of several batches.

    Args:
        step: (train state, batch) -> (train state, metrics).

    Returns:
        (train state, batches) -> (train state, metrics with a leading step axis). The
            batches, arrays [batch, ...], all have the same shapes.
    """

    def body(state: Any, batch: Batch) -> tuple[Any, Metrics]:
        state, metrics = step(state, batch)
        # Metrics may hold Python numbers, which cannot be stacked.
        return state, jax.tree.map(jnp.asarray, metrics)

    def steps(state: Any, batches: Sequence[Batch]) -> tuple[Any, Metrics]:
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        return jax.lax.scan(body, state, stacked)

    return steps


@jax.jit
def merge_all(total: Metrics | None, stacked: Metrics) -> Metrics:
    """Merges the metrics of a stack of steps into a total, in step order.

    The sums and their order are the same as for single steps, so the result is
    bit-identical.
    """
    for number in range(len(jax.tree.leaves(stacked)[0])):
        update = _at(number, stacked)
        total = update if total is None else merge_trees(total, update)
    assert total is not None
    return total


def readings(
    first: int, stacked: Metrics, loss: str, skipped: str
) -> list[tuple[int, Any, Any]]:
    """Returns (number after the step, loss, skipped) per step; see `nonfinite.Window`.

    Args:
        first: step number before the first step.
        stacked: metrics with a leading step axis.
        loss, skipped: names of metrics; a missing metric reads as 0.
    """
    count = len(jax.tree.leaves(stacked)[0])

    def reading(number: int, name: str) -> Any:
        # Each slice costs a device call, and the readings are rarely needed.
        return functools.partial(_at, number, stacked.get(name, 0))

    return [
        (first + number + 1, reading(number, loss), reading(number, skipped))
        for number in range(count)
    ]


def _at(number: int, stacked: Any) -> Any:
    return jax.tree.map(lambda x: x[number] if jnp.ndim(x) else x, stacked)
