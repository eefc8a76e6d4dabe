"""Rules for the arguments of public functions, checked before any work."""

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jaxaug.core.errors import UserError
from jaxaug.core.files import is_remote, shown, unreachable

Rule = Callable[[Any], str | None]
"""Returns what a value must be, or None if it fits."""

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(**rules: Rule) -> Callable[[Function], Function]:
    """Returns a decorator that checks arguments by their names.

    Args:
        **rules: rule of each argument; a missing argument is not checked.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            given = signature.bind(*args, **keywords).arguments
            given |= given.get("options", {})  # Further keywords.
            for name, rule in rules.items():
                if name in given and (expected := rule(given[name])):
                    raise UserError(f"{name} is {shown(given[name])}: {expected}.")
            return function(*args, **keywords)

        return call  # type: ignore[return-value]

    return decorate


def whole(least: int, most: int) -> Rule:
    """Accepts whole numbers in a range; NumPy's too, but neither bool nor 2.0."""
    expected = f"give a whole number from {least:,} to {most:,}"

    def rule(value: Any) -> str | None:
        is_whole = hasattr(value, "__index__") and not isinstance(value, bool)
        return None if is_whole and least <= value.__index__() <= most else expected

    return rule


def number(least: float, most: float) -> Rule:
    """Accepts finite real numbers in a range, but no bool."""
    expected = f"give a number from {least:g} to {most:g}"
    if most == math.inf:
        expected = f"give a finite number of at least {least:g}"

    def rule(value: Any) -> str | None:
        is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        fits = is_real and least <= value <= most and value != math.inf
        return None if fits else expected

    return rule


def of(kind: type | tuple[type, ...], expected: str) -> Rule:
    """Accepts instances of a class."""
    return lambda value: None if isinstance(value, kind) else f"give {expected}"


def sequence(item: Rule, expected: str) -> Rule:
    """Accepts lists and other sequences of items, but no text."""

    def rule(value: Any) -> str | None:
        fits = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        fits = fits and all(item(one) is None for one in value)
        return None if fits else f"give {expected}"

    return rule


def either(*rules: Rule) -> Rule:
    """Accepts what one of the rules accepts; the last one explains."""
    return lambda value: next(
        (None for rule in rules if rule(value) is None), rules[-1](value)
    )


def or_none(rule: Rule) -> Rule:
    """Accepts None too."""
    return lambda value: None if value is None else rule(value)


def path(value: Any) -> str | None:
    """Accepts paths that the system can look up, whether or not they exist."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        return "give the path of a file or folder"
    name = os.fspath(value)
    if not isinstance(name, str):
        return "give the path as text"
    if is_remote(name):
        problem = unreachable(name)
        return (
            f"{problem}. Name a local path, or check the address" if problem else None
        )
    try:
        os.stat(name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        return f"this is no path ({error!s:.80}). Give another one"
    return None


def text(value: Any) -> str | None:
    """Accepts texts that UTF-8 can encode."""
    if not isinstance(value, str):
        return "give a text"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it has half of a surrogate pair. Give a text that UTF-8 can encode"
    return None


flag = of(bool, "True or False")
seed = whole(0, 2**32 - 1)
count = whole(1, 1000)
