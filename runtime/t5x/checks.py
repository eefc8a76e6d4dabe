"""Checks of settings from gin files, which accept any value anywhere."""

import math
import numbers
import os
from typing import Any

from etils import epath
from jaxaug_base.files import absolute

from t5x.errors import UserError


def whole_number(
    name: str, value: Any, least: int, hint: str = "", most: float = math.inf
) -> int:
    """Returns the value as an int; 1e6 and 10.0 are whole numbers too.

    Args:
        hint: end of the message, for example "; None means all of them".

    Raises:
        UserError: the value is not a whole number, or is out of range.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value != value // 1 or not least <= value <= most:
        end = "" if most == math.inf else f" and at most {most:,}"
        raise UserError(
            f"{name} = {value!r:.80}: give a whole number of at least {least}{end}"
            f"{hint}."
        )
    return int(value)


def number(name: str, value: Any, least: float = 0.0, below: float = math.inf) -> None:
    """Refuses everything except finite numbers from `least` to below `below`.

    Raises:
        UserError: the value is out of range, NaN, infinite, or not a number.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not least <= value < below or math.isinf(value):
        start = "" if least == -math.inf else f" of at least {least:g}"
        end = "" if below == math.inf else f" and below {below:g}"
        kind = "number" if start or end else "finite number"
        raise UserError(f"{name} = {value!r}: give a {kind}{start}{end}.")


def dtype(name: str, value: Any) -> None:
    """Refuses values that are not dtypes."""
    import jax.numpy as jnp

    try:
        jnp.dtype(value)
    except TypeError:
        raise UserError(f"{name} = {value!r}: {NO_DTYPE}") from None


def output_folder(name: str, value: Any) -> str:
    """Returns the absolute path of a folder, which is created if it does not exist.

    The value is a local path, possibly with `~`, or a URL (gs://).

    Raises:
        UserError: the value is not a path, or no folder can be created there.
    """
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).strip():
        raise UserError(
            f"{name} = {value!r}: give the path of a folder, such as 'runs/first'."
        )
    folder = os.fspath(absolute(value))
    no_pattern(name, folder)
    try:
        epath.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{name} = {value!r}: no folder can be made there ({reason}). Give another "
            "path."
        ) from error
    return folder


def no_pattern(name: str, folder: str) -> None:
    """Refuses a folder whose checkpoints could not be found.

    The programs, orbax, and TensorFlow search for checkpoints with glob patterns, in
    which `*`, `?`, `[`, and `]` are special.
    """
    if found := sorted(set(folder) & set("*?[]")):
        raise UserError(
            f"{name} = {folder!r}: checkpoints in a folder with {found[0]!r} in its "
            f"path cannot be found. Give it another name."
        )


NO_DTYPE = "there is no such dtype; use 'float32', 'bfloat16' or 'float16'."
