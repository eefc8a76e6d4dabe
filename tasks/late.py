"""Fills SeqIO's registries when a program first uses them."""

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def fill_seqio(register: Callable[[], None]) -> None:
    """Arranges that `register` is called before a registry of SeqIO is first used.

    SeqIO itself is not imported here. A program may import it later, or never.
    """
    sys.meta_path.insert(0, _Watch("seqio", lambda seqio: _replace(seqio, register)))


def _replace(seqio: ModuleType, register: Callable[[], None]) -> None:
    filling = _Filling(register)
    for registry in (seqio.TaskRegistry, seqio.MixtureRegistry):
        registry._REGISTRY = _Registry(registry._REGISTRY, filling)


class _Filling:
    """Calls a function once; other threads wait for it, and it may use the registry."""

    def __init__(self, register: Callable[[], None]):
        self._register, self._pending = register, True
        self._lock = threading.RLock()

    def __call__(self) -> None:
        with self._lock:
            if self._pending:
                self._pending = False
                try:
                    self._register()
                except BaseException:
                    self._pending = True
                    raise


class _Registry(MutableMapping[str, Any]):
    """A registry that is filled before its first use."""

    def __init__(self, items: MutableMapping[str, Any], fill: Callable[[], None]):
        self._items, self._fill = items, fill

    @property
    def _filled(self) -> MutableMapping[str, Any]:
        self._fill()
        return self._items

    def __getitem__(self, name: str) -> Any:
        return self._filled[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._filled[name] = value

    def __delitem__(self, name: str) -> None:
        del self._filled[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._filled)

    def __len__(self) -> int:
        return len(self._filled)


class _Watch(MetaPathFinder):
    """Import finder that calls a function with a module after its first import."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]):
        self._name, self._then = name, then
        # The T5X programs look for this attribute.
        self.registers_with = name

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Leaves the search to the other finders, and wraps the loader they find."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        loader = spec and spec.loader
        if loader:
            plain = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                plain(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self._then(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
