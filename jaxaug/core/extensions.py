"""Tables whose entries come from jaxaug and from other installed packages.

A package registers a sampler, scheme, format, metric, model, verb, data set, or family
with an entry point in the group `jaxaug.samplers`, `jaxaug.schemes`, ...
(docs/extending.md). An entry is imported only when it is first requested; until then
only its name is known.
"""

import collections
import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from jaxaug.core.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = (
    "samplers", "schemes", "formats", "metrics", "models", "verbs", "datasets",
    "families",
)  # fmt: skip
"""Names of the groups of entry points, after `jaxaug.`."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PACKAGE = __name__.partition(".")[0]
_T = TypeVar("_T")


class Table(collections.UserDict[str, _T]):
    """Maps names to entries; names of other packages follow jaxaug's own.

    A request raises `UserError` if two packages use the name, or if its entry point
    cannot be imported or is invalid.
    """

    def __init__(
        self,
        own: Mapping[str, _T],
        group: str = "",
        *,
        taken: Collection[str] = (),
        made: Callable[[str, Any], _T] | None = None,
    ):
        """Creates a table.

        Args:
            group: one of `GROUPS`; empty for a table without other packages.
            made: (name, object of the entry point) -> entry; raises `UserError` or
                `TypeError` if it is invalid. None accepts functions unchanged.
        """
        super().__init__()
        self.data.update(own)
        self._group, self._taken = group, taken
        self._kind = "family" if group == "families" else group[:-1]
        self._made = made or function
        self._loaded: dict[Any, _T] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in self._points()

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self.data, *self._points()])

    def __len__(self) -> int:
        return len(self.data.keys() | self._points().keys())

    def __getitem__(self, name: str) -> _T:
        """Returns the entry; see the class for errors."""
        points = self._points().get(name, ())
        if not points:
            return self.data[name]
        where = f"{self._kind} {name!r} of {_package(points[0])}"
        if len(points) > 1:
            others = " and ".join(map(_package, points[1:]))
            raise UserError(
                f"{where}: {others} registers that name too. Uninstall all but one."
            )
        if name in self.data or name in self._taken:
            raise UserError(
                f"{where}: jaxaug has a {self._kind} of that name. Uninstall the "
                "package, or register it by another name."
            )
        if not _NAME.fullmatch(name):
            raise UserError(
                f"{where}: names have letters, digits, _ and - only. Register another."
            )
        if points[0] not in self._loaded:
            self._loaded[points[0]] = self._load(name, points[0], where)
        return self._loaded[points[0]]

    def outside(self) -> list[str]:
        """Returns the names that other packages have registered; loads nothing."""
        return list(self._points())

    def _load(self, name: str, point: "EntryPoint", where: str) -> _T:
        fix = "Mend the package, or uninstall it."
        try:
            found = point.load()
        except Exception as error:
            raise UserError(
                f"{where}: {point.value} cannot be imported "
                f"({type(error).__name__}: {error}). {fix}"
            ) from error
        try:
            return self._made(name, found)
        except TypeError as error:
            raise UserError(f"{where}: {point.value} {error}. {fix}") from error

    def _points(self) -> Mapping[str, tuple["EntryPoint", ...]]:
        return _points(self._group, tuple(sys.path)) if self._group else {}


@functools.cache
def _points(
    group: str, path: tuple[str, ...]
) -> Mapping[str, tuple["EntryPoint", ...]]:
    """Returns name -> entry points with it, of all packages on a path."""
    # This import costs more than all others of argument parsing.
    from importlib import metadata

    del path  # The path is only a part of the cache key.
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in metadata.entry_points(group=f"{_PACKAGE}.{group}"):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _package(point: "EntryPoint") -> str:
    return f"package {point.dist.name}" if point.dist else f"{point.value}"


def values(group: str) -> set[str]:
    """Returns the targets of a group as `module.name`; imports nothing."""
    points = _points(group, tuple(sys.path)).values()
    return {point.value.replace(":", ".") for known in points for point in known}


def function(name: str, found: Any) -> Any:
    """Returns an entry point's object; raises `TypeError` unless it is a function."""
    del name
    if not callable(found):
        # Imported here, because the command line imports this module.
        from jaxaug.core.files import shown

        raise TypeError(f"is {shown(found)}, expected a function")
    return found


def code_of(value: Any) -> str:
    """Returns a digest of another package's function or class; "" for our own."""
    # Imported here, because the command line imports this module.
    from jaxaug.core.digests import code_digest

    while isinstance(value, functools.partial):
        value = value.func
    module = inspect.getmodule(inspect.unwrap(value))
    if module is None or module.__name__.partition(".")[0] == _PACKAGE:
        return ""
    return code_digest(module)
