"""Registers tasks when a program first uses SeqIO's registries."""

import threading
from collections import UserDict
from collections.abc import Callable, MutableMapping
from typing import Any

import wrapt


def fill_seqio(register: Callable[[], None]) -> None:
    """Has `register` called before a registry of SeqIO is first used, if ever.

    SeqIO is not imported here. Its import would be too early to call `register`: a
    module of this package may be importing it, whose tasks do not exist yet.
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

    @wrapt.when_imported("seqio")
    def replace(seqio: Any) -> None:
        for registry in (seqio.TaskRegistry, seqio.MixtureRegistry):
            registry._REGISTRY = _Registry(registry._REGISTRY, fill)


class _Registry(UserDict[str, Any]):
    """A registry that calls `fill` before each use."""

    def __init__(self, items: MutableMapping[str, Any], fill: Callable[[], None]):
        self._items, self._fill = items, fill

    @property
    def data(self) -> MutableMapping[str, Any]:  # type: ignore[override]
        self._fill()
        return self._items
