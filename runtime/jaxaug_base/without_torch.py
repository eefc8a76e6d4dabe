"""tensorboardX without PyTorch."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_torch() -> Iterator[None]:
    """Hides PyTorch from the imports inside, unless it has been imported already.

    tensorboardX imports PyTorch wherever that is installed, for a few isinstance
    checks: 3 s of CPU in place of 0.1 s at the start of each run. For modules' import
    time alone, when no other thread imports.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]
