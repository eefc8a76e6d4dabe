"""Pauses the garbage collector during work that creates many objects without cycles."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Disables the cyclic garbage collector inside the context.

    Reference counting still frees objects. The collector walks repeatedly over all
    objects, which costs a third of the time of reading JSON. Contexts may be nested.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
