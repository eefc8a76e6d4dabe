"""Imports tensorboardX without PyTorch."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_torch() -> Iterator[None]:
    """Hides PyTorch from imports inside the context, unless it is already imported.

    If PyTorch is installed, tensorboardX imports it for a few isinstance checks, which
    costs 3 s of CPU time instead of 0.1 s. Use this only at module import time, while
    no other thread imports.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]
