"""Values that users write, checked against the annotations of what takes them."""

import collections.abc
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from jaxaug.core import json_reader
from jaxaug.core.arguments import MAX_SEED
from jaxaug.core.errors import UserError
from jaxaug.core.files import shown

_NAMES = {
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    types.NoneType: "None",
}


def check(
    values: Mapping[str, Any], kind: type | Callable[..., Any], where: str
) -> None:
    """Checks fields of a dataclass, or arguments of a function, by name.

    Lists may stand for tuples, whole numbers for numbers; a number must be finite, and
    where a whole number is wanted it must fit into 64 bits, as in arrays and files.
    Names that have no annotation are left alone.

    Args:
      values: to be checked.
      kind: whose annotations say what they should be.
      where: beginning of the message.

    Raises:
      UserError: names the value and what is expected.
    """
    hints = typing.get_type_hints(kind)
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            items = value if isinstance(value, list | tuple) else [value]
            long = any(
                isinstance(x, numbers.Integral) and not _is_short(x) for x in items
            )
            raise UserError(
                f"{where}: {name}={shown(value)}: expected {_named(hints[name])}"
                f"{' (at most 64 bits)' if long else ''}."
            )


def parsed(text: str, kind: Any) -> Any:
    """A value from a command line, as an annotation wants it.

    Numbers and True or False as Python writes them (case aside), sequences with commas
    between their items, mappings as JSON.

    Args:
      text: what was written.
      kind: the annotation; of a union the first that fits.

    Returns:
      The text itself where it fits nothing, for `check` to complain of.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        found = [value for one in arguments if _fits(value := parsed(text, one), one)]
        return next(iter(found), text)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind is types.NoneType:
            return {"none": None}[text.lower()]
        if kind in (int, float):
            return kind(text)
        if origin is collections.abc.Mapping:
            return json_reader.decoded(text)
    except (KeyError, ValueError):
        return text
    if origin in (tuple, collections.abc.Sequence):
        return [parsed(part.strip(), arguments[0]) for part in text.split(",")]
    return text


def check_seed(seed: Any, name: str) -> None:
    """Checks a seed; raises `UserError` unless it is whole and 0 to `MAX_SEED`."""
    if not _fits(seed, int) or not 0 <= seed <= MAX_SEED:
        raise UserError(
            f"{name} is {shown(seed)}: give a whole number from 0 to {MAX_SEED}."
        )


def _is_short(value: Any) -> bool:
    return -(2**63) <= value < 2**63


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in arguments)
    if hint is bool or hint is str or hint is types.NoneType:
        return isinstance(value, hint)
    if hint is int or hint is float:
        kind = numbers.Integral if hint is int else numbers.Real
        # Booleans are numbers to Python; a whole number may be too great for a float.
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        if hint is int:
            return _is_short(value)
        return isinstance(value, numbers.Integral) or math.isfinite(value)
    if origin in (tuple, collections.abc.Sequence):
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and arguments[-1] is not Ellipsis:
            pairs = zip(value, arguments, strict=False)
            return len(value) == len(arguments) and all(_fits(*pair) for pair in pairs)
        return all(_fits(one, arguments[0]) for one in value)
    if origin is collections.abc.Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, arguments[0]) and _fits(one, arguments[1])
            for key, one in value.items()
        )
    if origin is collections.abc.Callable:
        return callable(value)
    return isinstance(value, origin or hint)


def _named(hint: Any) -> str:
    """What a value should be, in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_named, arguments)))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"({', '.join(map(_named, arguments))})"
    if origin in (tuple, collections.abc.Sequence):
        return f"a tuple (each item {_named(arguments[0])})"
    if origin is collections.abc.Mapping:
        values = "anything" if arguments[1] is Any else _named(arguments[1])
        return f"a mapping (each key {_named(arguments[0])}, each value {values})"
    if origin is collections.abc.Callable:
        return "a function"
    if origin is os.PathLike:
        return "a path"
    return _NAMES[hint] if hint in _NAMES else getattr(hint, "__name__", str(hint))
