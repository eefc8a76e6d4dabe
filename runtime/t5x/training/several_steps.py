"""Several training steps in one call of the devices.

A small model computes a step in less time than Python needs to ask for the next one. A
scan over a stack of batches asks once for all of them.
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
    """Steps of a call that suit a model: many where a step takes milliseconds.

    Ten for fewer than 4 million numbers on a CPU, else one. `arrays` are all that a step
    computes with, trained or not.
    """
    size = sum(leaf.size for leaf in jax.tree.leaves(arrays))
    return 10 if size < SMALL and jax.default_backend() == "cpu" else 1


def scan_steps(step: Step) -> Callable[[Any, Sequence[Batch]], tuple[Any, Metrics]]:
    """A function that takes one step for each of several batches.

    Args:
        step: (train state, batch) -> (train state, metrics).

    Returns:
        (train state, batches) -> (train state, metrics with a leading axis of steps).
        The batches, arrays [batch, ...], all have the same shapes.
    """

    def body(state: Any, batch: Batch) -> tuple[Any, Metrics]:
        state, metrics = step(state, batch)
        # Metrics may hold Python numbers, of which no stack can be made.
        return state, jax.tree.map(jnp.asarray, metrics)

    def steps(state: Any, batches: Sequence[Batch]) -> tuple[Any, Metrics]:
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        return jax.lax.scan(body, state, stacked)

    return steps


@jax.jit
def merge_all(total: Metrics | None, stacked: Metrics) -> Metrics:
    """The metrics of a stack of steps, merged into a total one after the other.

    The same sums in the same order as step by step, hence the same to the bit.
    """
    for number in range(len(jax.tree.leaves(stacked)[0])):
        update = _at(number, stacked)
        total = update if total is None else merge_trees(total, update)
    assert total is not None
    return total


def readings(
    first: int, stacked: Metrics, loss: str, skipped: str
) -> list[tuple[int, Any, Any]]:
    """(number after the step, loss, skipped) of each step; see `nonfinite.Window`.

    Args:
        first: number before the first step.
        stacked: metrics with a leading axis of steps.
        loss, skipped: names of metrics; one that is not there reads as 0.
    """
    count = len(jax.tree.leaves(stacked)[0])

    def reading(number: int, name: str) -> Any:
        # Slicing costs a call each, and hardly any of them is ever read.
        return functools.partial(_at, number, stacked.get(name, 0))

    return [
        (first + number + 1, reading(number, loss), reading(number, skipped))
        for number in range(count)
    ]


def _at(number: int, stacked: Any) -> Any:
    return jax.tree.map(lambda x: x[number] if jnp.ndim(x) else x, stacked)
