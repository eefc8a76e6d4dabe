"""Caches the shapes that Flax checks at each use of a parameter.

Flax traces the initializer of a parameter each time a network is applied, to compare
shapes. This takes a good part of the time of network tests.
"""

import functools
import types
from typing import Any

import jax
from flax.core import scope

_SIMPLE = (int, float, complex, str, bytes, type, type(None), types.CodeType)
_shapes: dict[Any, Any] = {}


def once() -> None:
    """Caches the shapes that initializers gave in this process."""
    scope.jax = _Jax("jax")


class _Jax(types.ModuleType):
    """JAX, as Flax's module of parameters sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)

    @staticmethod
    def eval_shape(function: Any, *arguments: Any) -> Any:
        """Acts as `jax.eval_shape`, with a cache by code and captured values."""
        try:
            key = _key(function)
        except (
            _UnknownError,
            RecursionError,
            ValueError,
        ):  # Also raised for an empty closure cell.
            key = None
        if arguments or key is None:
            return jax.eval_shape(function, *arguments)
        if key not in _shapes:
            _shapes[key] = jax.eval_shape(function)
        return _shapes[key]


class _UnknownError(Exception):
    """The error of a value that cannot be compared."""


def _key(value: Any) -> Any:
    match value:
        case types.FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            own = value.__defaults__, value.__kwdefaults__
            return value.__module__, value.__code__, _key(cells), _key(own)
        case functools.partial():
            return _key((value.func, value.args, value.keywords))
        case tuple() | list():
            return type(value), *map(_key, value)
        case dict():
            return _key(list(value.items()))
        case jax.numpy.dtype() | _Scalar():
            return value
        case _ if isinstance(value, _SIMPLE):
            return type(value), value
    raise _UnknownError


_Scalar = type(jax.numpy.float32)
