"""Prefetched, unused batches that are stored next to a saved position.

`<prefix>.pending.npz` holds them; `<prefix>.pending.json` holds their number and
checksum.
"""

import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from jaxaug_base import files as paths

from t5x import digests
from t5x.errors import UserError

Batch = Mapping[str, Any]


def _paths(filename: str | os.PathLike) -> tuple[epath.Path, epath.Path]:
    """Returns the paths of (the batches, their number and checksum)."""
    prefix = f"{os.fspath(filename)}.pending"
    return epath.Path(f"{prefix}.npz"), epath.Path(f"{prefix}.json")


def write(filename: str | os.PathLike, batches: Sequence[Batch]) -> None:
    """Writes batches next to the position with this prefix."""
    arrays: dict[str, Any] = {
        f"{i}/{name}": local_rows(value)
        for i, batch in enumerate(batches)
        for name, value in batch.items()
    }
    # numpy seeks while writing, which files on gs:// do not support.
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    size, checksum = digests.of_bytes(data)
    note = {"batches": len(batches), "bytes": size, "crc32": checksum}
    path, note_path = _paths(filename)
    for target, content in ((path, data), (note_path, json.dumps(note).encode())):
        with paths.replacing(target) as temporary:
            temporary.write_bytes(content)


def local_rows(value: Any) -> np.ndarray:
    """Returns this process's rows of a global array, in order."""
    if not isinstance(value, jax.Array) or value.is_fully_addressable:
        return np.asarray(value)
    rows = {
        (shard.index[0].start or 0): np.asarray(shard.data)
        for shard in value.addressable_shards
    }
    return np.concatenate([rows[start] for start in sorted(rows)])


def read(filename: str | os.PathLike) -> list[dict[str, np.ndarray]]:
    """Reads the batches of `write`; empty for positions that other programs wrote.

    Raises:
        UserError: the batches are lost or damaged.
    """
    path, note_path = _paths(filename)
    noted: Mapping[str, Any] = {}
    if note_path.exists():
        try:
            noted = paths.read_json(note_path)
            expected = int(noted["batches"]), (int(noted["bytes"]), noted["crc32"])
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            raise _bad(note_path, "cannot be read", noted) from error
    if not path.exists():
        if noted and expected[0]:
            raise _bad(path, "is missing", noted)
        return []
    data = paths.read_bytes(path)
    if noted and digests.of_bytes(data) != expected[1]:
        what = f"has changed since it was saved ({len(data):,} bytes)"
        raise _bad(path, what, noted)
    batches: dict[int, dict[str, np.ndarray]] = {}
    try:
        with np.load(io.BytesIO(data)) as arrays:
            for key in arrays.files:
                number, name = key.split("/", 1)
                batches.setdefault(int(number), {})[name] = arrays[key]
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError) as error:
        raise _bad(path, f"cannot be read ({error})", noted) from error
    return [batches[number] for number in sorted(batches)]


def _bad(path: epath.Path, what: str, noted: Any) -> UserError:
    count = noted.get("batches") if isinstance(noted, Mapping) else None
    batches = "the batches" if count is None else f"{count} batches"
    return UserError(
        f"{path} {what}. It held {batches} that were read ahead but not trained on "
        "yet: without them training would leave them out. Restore another step, or "
        "move this checkpoint away so that the run continues from an earlier one."
    )
