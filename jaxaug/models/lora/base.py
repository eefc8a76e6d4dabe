"""Identifies the base of an adapter by a digest."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.models.weights import keymap

_BYTES = 16


def digest(params: Mapping[str, Any]) -> str:
    """Returns a digest of the values of a base, independent of format and dtype.

    bfloat16 values and the same values in float32 have the same digest. Other sizes,
    names, or values change it. Reads about 1 GB/s.
    """
    found = hashlib.blake2b(digest_size=_BYTES)
    for path, array in sorted(keymap.flat(params).items()):
        values = np.ascontiguousarray(array, np.float32)
        found.update(f"{path} {values.shape}\n".encode())
        found.update(values.data)
    return found.hexdigest()


def check(wanted: str, found: str, adapter: str, base: str) -> None:
    """Checks that an adapter was trained on a base.

    Args:
        wanted: digest of the base that the adapter was trained on.
        found: digest of the loaded base.
        adapter: name of the adapter, for the message.
        base: name of the base, for the message.

    Raises:
        UserError: the digests differ.
    """
    if wanted != found:
        raise UserError(
            f"{adapter} was trained on another base: its digest is {wanted}, but "
            f"{base} has {found}. Name the base that it was trained on."
        )
