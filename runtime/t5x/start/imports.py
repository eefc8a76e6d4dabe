"""What makes the imports of a start shorter."""

import contextlib
import gc
import sys
from collections.abc import Iterator
from types import FrameType

# TensorFlow always imports Keras, which imports these where they are installed: for its
# wrappers of scikit-learn and its pictures of images, which no program here uses.
_OPTIONAL_FOR_KERAS = frozenset(("matplotlib", "sklearn"))


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Inside, the garbage collector rests, and Keras does without what it can miss.

    A sixth of the time of importing TensorFlow goes into looking for garbage, of which
    there is none; what was imported, the collector never looks at again. Matplotlib and
    scikit-learn, where they are installed, take up to another quarter
    (benchmarks/NOTES.md); whoever else imports them inside gets them.
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
    """A finder that tells Keras, and nobody else, that a package is not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Leaves the search to the next finder.

        Raises:
            ModuleNotFoundError: as Python does where the package is not installed.
        """
        if name in _OPTIONAL_FOR_KERAS and _importer(sys._getframe(1)) == "keras":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _importer(frame: FrameType | None) -> str:
    """The package whose code the import statement is in."""
    while frame and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return name.partition(".")[0]
