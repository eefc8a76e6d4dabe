"""Checks of settings that come from gin files, where any value can stand anywhere."""

import numbers
from typing import Any

import jax.numpy as jnp

from t5x.errors import UserError


def whole_number(name: str, value: Any, least: int, hint: str = "") -> int:
    """The value as an int; 1e6 and 10.0 are whole numbers too.

    Args:
        name: of the setting, as a user writes it.
        least: smallest value that makes sense.
        hint: ends the message, for example "; None means all of them".

    Raises:
        UserError: no whole number, or one that is too small.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value != value // 1 or value < least:
        raise UserError(
            f"{name} = {value!r}: give a whole number of at least {least}{hint}."
        )
    return int(value)


def dtype(name: str, value: Any) -> None:
    """Refuses what is no dtype.

    Raises:
        UserError: there is no such dtype.
    """
    try:
        jnp.dtype(value)
    except TypeError:
        raise UserError(f"{name} = {value!r}: {NO_DTYPE}") from None


NO_DTYPE = "there is no such dtype; use 'float32', 'bfloat16' or 'float16'."
