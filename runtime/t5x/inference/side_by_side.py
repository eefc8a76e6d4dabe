"""Batches that a CPU with several cores computes at the same time."""

import concurrent.futures
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from t5x.on_cpu.features import SMALL, cores

# More programs at once would share the caches of a core.
_MOST = 4

Step = Callable[[], Any]


def threads(params: Any) -> int:
    """How many steps to enqueue at a time: one for each core, four at the most.

    XLA on a CPU runs what one thread enqueues one after the other, and has little use for
    a second core in the many small operations of a small model. 1 where steps run
    elsewhere, where the model is large, so that each step would take much memory and finds
    use for all cores, and on several devices, whose order must be that of the other
    processes.

    Args:
        params: the arrays of the model.
    """
    if jax.default_backend() != "cpu" or jax.device_count() > 1:
        return 1
    if sum(leaf.size for leaf in jax.tree.leaves(params)) >= SMALL:
        return 1
    return min(cores(), _MOST)


@contextmanager
def enqueueing(number: int) -> Iterator[Callable[[Hashable, Step], Callable[[], Any]]]:
    """Gives a function that enqueues a step and returns how to get its result.

    Its first argument is the shape of the step: the first of each shape, which is traced
    and compiled, runs in the calling thread. An error of a step is raised where its
    result is asked for.

    Args:
        number: threads that enqueue; 1 is the calling thread itself.
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
