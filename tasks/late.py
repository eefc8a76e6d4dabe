"""Registers tasks when a program first uses SeqIO's registries.

An import finder replaces the two registries as soon as SeqIO is imported. The
replacement registers the tasks before its first use.
"""

import sys
import threading
from collections import UserDict
from collections.abc import Callable, MutableMapping
from importlib.abc import MetaPathFinder
from typing import Any


def fill_seqio(register: Callable[[], None]) -> None:
    """Arranges a call of `register` before the first use of a registry of SeqIO.

    SeqIO is not imported here. The import of SeqIO would be too early to call
    `register`: the importing module may belong to this package, and its tasks may not
    exist yet.

    Args:
        register: function that registers the tasks. It is called again after an error.
    """
    lock, pending = threading.RLock(), [register]

    def fill() -> None:
        with lock:  # Other threads wait; `register` itself uses the registries.
            if pending:
                pending.clear()
                try:
                    register()
                except BaseException:
                    pending.append(register)
                    raise

    def replace(seqio: Any) -> None:
        for registry in (seqio.TaskRegistry, seqio.MixtureRegistry):
            registry._REGISTRY = _Registry(registry._REGISTRY, fill)

    sys.meta_path.insert(0, _Watch(replace))


class _Registry(UserDict[str, Any]):
    """A registry that calls `fill` before each use."""

    def __init__(self, items: MutableMapping[str, Any], fill: Callable[[], None]):
        self._items, self._fill = items, fill

    @property
    def data(self) -> MutableMapping[str, Any]:  # type: ignore[override]
        self._fill()
        return self._items


class _Watch(MetaPathFinder):
    """Import finder that calls `then(seqio)` after the first import of SeqIO."""

    def __init__(self, then: Callable[[Any], None]):
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Returns SeqIO's spec by the other finders; its loader also calls `then`."""
        if name != "seqio":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec and spec.loader:
            plain = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                plain(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
