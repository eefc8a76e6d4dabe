"""Checks user values against the annotations of functions and dataclasses."""

import collections.abc
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, is_remote, shown, unreachable
from jaxaug.core.ranges import MAX_SEED, Range, bare
from jaxaug.core.suggestion import one_of

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Made = TypeVar("_Made")

_NAMES = {
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    types.NoneType: "None",
}


def path_problem(value: Any) -> str | None:
    """Returns why the system cannot look up a path, which need not exist."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        return "give the path of a file or folder"
    name = os.fspath(value)
    if not isinstance(name, str):
        return "give the path as text"
    if is_remote(name):
        problem = unreachable(name)
        return problem and f"{problem}. Name a local path, or check the address"
    try:
        os.stat(name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        return f"this is no path ({error!s:.80}). Give another one"
    return None


def _text_problem(value: Any) -> str | None:
    if not isinstance(value, str):
        return "give a text"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it has half of a surrogate pair. Give a text that UTF-8 can encode"
    return None


# A function among the notes of an annotation returns what a value must be, or None.
Path = Annotated[PathLike, path_problem]
Text = Annotated[str, _text_problem]
Count = Annotated[int, Range(1, 1000)]
Seed = Annotated[int, Range(0, MAX_SEED)]


def checked(function: _Function) -> _Function:
    """Checks all arguments by their annotations at each call; see `check_option`."""

    def check_all(given: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
        for name, value in given.items():
            if name in hints:
                check_option(name, value, hints[name])

    return _wrapped(function, check_all)


def bounded(function: _Function) -> _Function:
    """Checks arguments annotated with a `Range` or a `Literal` at each call."""

    def check_bounds(given: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
        bounds = {name: v for name, v in given.items() if _is_bounded(hints.get(name))}
        check(bounds, function, function.__name__)

    return _wrapped(function, check_bounds)


def _wrapped(function: _Function, check: Callable[[Any, Any], Any]) -> _Function:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check(signature.bind(*args, **kwargs).arguments, _hints(function))
        return function(*args, **kwargs)

    return typing.cast(_Function, wrapper)


def flat(options: type) -> Callable[[_Function], _Function]:
    """Makes a function of `options` take the fields of that dataclass as keywords.

    Gin files, command lines, and callers set the fields one by one; the function gets a
    dataclass built by `made`. The wrapper's signature lists the fields, so that gin
    knows their names and defaults.
    """
    fields = inspect.signature(options).parameters

    def decorate(function: _Function) -> _Function:
        own = inspect.signature(function)
        parameters: list[inspect.Parameter] = []
        for name, one in own.parameters.items():
            keywords = [f.replace(kind=f.KEYWORD_ONLY) for f in fields.values()]
            parameters += keywords if name == "options" else [one]

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            given = {name: kwargs.pop(name) for name in fields if name in kwargs}
            chosen: Any = made(options, given, function.__module__.rpartition(".")[2])
            return function(*args, options=chosen, **kwargs)

        wrapper.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return typing.cast(_Function, wrapper)

    return decorate


def made(kind: type[_Made], values: Mapping[str, Any], where: str) -> _Made:
    """Returns a dataclass of options from values by name; see `check`.

    Raises:
        UserError: see `check`.
    """
    check(values, kind, where)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return kind(**given)


def check(
    values: Mapping[str, Any], kind: type | Callable[..., Any], where: str
) -> None:
    """Checks fields of a dataclass, or arguments of a function, by name.

    Lists are accepted for tuples, and whole numbers for floats. Numbers must be finite,
    and integers must fit into 64 bits, as in arrays and files. `Range` bounds numbers.
    Names without annotation are not checked.

    Raises:
        UserError: a value is wrong; the message gives the value and the expectation.
    """
    check_hints(values, _hints(kind), where)


def check_hints(
    values: Mapping[str, Any], hints: Mapping[str, Any], where: str
) -> None:
    """Checks values by name against annotations; see `check`."""
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


def check_option(name: str, value: Any, hint: Any) -> None:
    """Raises `UserError` unless the value of an option fits its annotation."""
    if _fits(value, hint):
        return
    for rule in _rules(hint):
        if problem := rule(value):
            raise UserError(f"{name} is {shown(value)}: {problem}.")
    kind, notes = bare(hint)
    if typing.get_origin(kind) is typing.Literal:
        raise UserError(
            f"{name} is {shown(value)}: {one_of(value, typing.get_args(kind), 'give')}"
        )
    ranges = [str(one) for one in notes if isinstance(one, Range)]
    members = {*typing.get_args(hint)} - {types.NoneType}
    is_several = typing.get_origin(hint) is not Annotated and len(members) > 1
    expected = _named(hint) if is_several else " ".join([_named(kind), *ranges])
    raise UserError(f"{name} is {shown(value)}: give {expected}.")


def parsed(text: str, kind: Any) -> Any:
    """Parses a command-line value according to an annotation, if it can.

    Numbers and True or False are written as in Python (case-insensitive), sequences
    with commas between items, and mappings as JSON.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return parsed(text, arguments[0])
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


def check_fields(settings: Any, prefix: str = "") -> None:
    """Checks the fields of a dataclass that have a `Range` or a `Literal`."""
    kind: Any = type(settings)
    for name, hint in _hints(kind).items():
        if _is_bounded(hint):
            check_option(f"{prefix}{name}", getattr(settings, name), hint)


def check_seed(seed: Any, name: str) -> None:
    """Raises `UserError` unless a seed is a whole number from 0 to `MAX_SEED`."""
    check_option(name, seed, Seed)


def _rules(hint: Any) -> list[Callable[[Any], str | None]]:
    """Returns the functions among the notes of an annotation and of its union."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return [rule for one in arguments for rule in _rules(one)]
    return [one for one in getattr(hint, "__metadata__", ()) if callable(one)]


def _is_short(value: Any) -> bool:
    return -(2**63) <= value < 2**63


@functools.cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _is_bounded(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return any(map(_is_bounded, typing.get_args(hint)))
    return origin in (Annotated, typing.Literal)


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is Annotated:
        ranges = (one for one in arguments[1:] if isinstance(one, Range))
        return (
            _fits(value, arguments[0])
            and all(one.fits(value) for one in ranges)
            and not any(rule(value) for rule in _rules(hint))
        )
    if origin is typing.Literal:
        return value in arguments
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in arguments)
    if hint is bool or hint is str or hint is types.NoneType:
        return isinstance(value, hint)
    if hint is int or hint is float:
        kind = numbers.Integral if hint is int else numbers.Real
        # In Python, booleans are numbers, and a whole number may be too large for a
        # float.
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
    """Returns the expected value in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        ranges = [str(one) for one in arguments[1:] if isinstance(one, Range)]
        return " ".join([_named(arguments[0]), *ranges])
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_named, arguments)))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"({', '.join(map(_named, arguments))})"
    if origin in (tuple, collections.abc.Sequence):
        kind = "tuple" if origin is tuple else "list"
        return f"a {kind} (each item {_named(arguments[0])})"
    if origin is collections.abc.Mapping:
        values = "anything" if arguments[1] is Any else _named(arguments[1])
        return f"a mapping (each key {_named(arguments[0])}, each value {values})"
    if origin is collections.abc.Callable:
        return "a function"
    if origin is os.PathLike:
        return "a path"
    return _NAMES[hint] if hint in _NAMES else getattr(hint, "__name__", str(hint))
