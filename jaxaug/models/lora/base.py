"""Which base an adapter belongs to."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.models.weights import keymap

_BYTES = 16


def digest(params: Mapping[str, Any]) -> str:
    """Digest of the values of a base, whatever form and dtype they were stored in.

    bfloat16 values that become float32 are the same; other sizes, names or values are
    not. Reads about 1 GB/s.
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
        wanted: digest of the base that it was trained on.
        found: digest of the base at hand.
        adapter: what is loaded, for the message.
        base: likewise.

    Raises:
        UserError: they differ.
    """
    if wanted != found:
        raise UserError(
            f"{adapter}: was trained on another base: its digest is {wanted}, that of "
            f"{base} is {found}. Name the base that it was trained on."
        )
