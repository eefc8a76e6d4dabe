"""Shortens the imports at startup."""

import contextlib
import gc
import sys
from collections.abc import Iterator
from types import FrameType

# TensorFlow always imports Keras, which imports these packages if they are installed,
# for scikit-learn wrappers and image plots that no program here uses.
_OPTIONAL_FOR_KERAS = frozenset(("matplotlib", "sklearn"))


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Disables the garbage collector and optional imports of Keras inside the context.

    A sixth of the time of importing TensorFlow goes into garbage collection, which
    finds nothing. The imported objects are then excluded from later collections.
    Matplotlib and scikit-learn, if installed, take up to another quarter
    (benchmarks/NOTES.md). Other importers still get them.
    """
    was_on = gc.isenabled()
    gc.disable()
    refusal = _RefusesKeras()
    sys.meta_path.insert(0, refusal)
    try:
        yield
    finally:
        sys.meta_path.remove(refusal)
        gc.freeze()
        if was_on:
            gc.enable()


class _RefusesKeras:
    """Import finder that hides optional packages from Keras only."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Leaves the search to the next finder.

        Raises:
            ModuleNotFoundError: Keras imports one of the hidden packages.
        """
        if name in _OPTIONAL_FOR_KERAS and _importer(sys._getframe(1)) == "keras":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _importer(frame: FrameType | None) -> str:
    """Returns the package that contains the import statement."""
    while frame and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return name.partition(".")[0]
