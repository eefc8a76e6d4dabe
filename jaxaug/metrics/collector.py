"""Pauses Python's cycle collector while many long-lived objects are created."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Stops the cycle collector inside a `with` block or a decorated function.

    Parsed JSON has no cycles, but every batch of new objects makes the collector walk
    over everything read earlier. This costs two thirds of the time to read a split.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
