"""The garbage collector, out of the way of work that makes much and no circles."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No search for circles in this process until the block ends.

    What is made meanwhile is freed as always, by counting references. The search goes
    through all that was made so far again and again: a third of the time of reading
    JSON. Blocks may be nested.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
