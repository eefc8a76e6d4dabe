"""Concurrent batches on a CPU with several cores."""

import concurrent.futures
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from t5x.on_cpu.features import SMALL, cores

# More programs at once would compete for the caches of a core.
_MOST = 4

Step = Callable[[], Any]


def threads(params: Any) -> int:
    """Returns the number of concurrent steps: one per core, at most four.

    On a CPU, XLA runs the steps of one thread in sequence, and the small operations of
    a small model hardly use a second core. The result is 1 on other backends, for large
    models, and on several devices. A large model uses all cores and much memory per
    step; several devices need the same order of steps on all processes.

    Args:
        params: arrays of the model.
    """
    if jax.default_backend() != "cpu" or jax.device_count() > 1:
        return 1
    if sum(leaf.size for leaf in jax.tree.leaves(params)) >= SMALL:
        return 1
    return min(cores(), _MOST)


@contextmanager
def enqueueing(number: int) -> Iterator[Callable[[Hashable, Step], Callable[[], Any]]]:
    """Yields a function that enqueues a step and returns a function for its result.

    The first argument of the yielded function is the shape of the step. The first step
    of each shape is traced and compiled, so it runs in the calling thread. An error of
    a step is raised when its result is requested.

    Args:
        number: number of threads that enqueue; 1 uses the calling thread.
    """
    seen: set[Hashable] = set()
    if number == 1:
        yield lambda shape, step: _known(step())
        return
    with concurrent.futures.ThreadPoolExecutor(number) as pool:

        def enqueue(shape: Hashable, step: Step) -> Callable[[], Any]:
            if shape not in seen:
                seen.add(shape)
                return _known(step())
            return pool.submit(step).result

        yield enqueue


def _known(value: Any) -> Callable[[], Any]:
    return lambda: value
