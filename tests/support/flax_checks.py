"""What Flax checks at each use of a parameter, checked once.

Flax traces the initialiser of a parameter each time that a network is applied, to compare
shapes: a good part of the time of tests of networks.
"""

import functools
import types
from typing import Any

import jax
from flax.core import scope

_SIMPLE = (int, float, complex, str, bytes, type, type(None), types.CodeType)
_shapes: dict[Any, Any] = {}


def once() -> None:
    """Keeps the shapes that initialisers have given in this process."""
    scope.jax = _Jax("jax")


class _Jax(types.ModuleType):
    """JAX, as Flax's module of parameters sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)

    @staticmethod
    def eval_shape(function: Any, *arguments: Any) -> Any:
        """That of JAX; what has the same code and the same values, has the same shape."""
        try:
            key = _key(function)
        except (_UnknownError, RecursionError, ValueError):  # Also of an empty cell.
            key = None
        if arguments or key is None:
            return jax.eval_shape(function, *arguments)
        if key not in _shapes:
            _shapes[key] = jax.eval_shape(function)
        return _shapes[key]


class _UnknownError(Exception):
    """A value that cannot be compared."""


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
