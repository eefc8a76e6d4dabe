"""Sizes and checksums of checkpoint files, to detect damage.

`digests.json` inside `checkpoint_N` lists every data file. It is written before the
checkpoint counts as complete, and compared with the files at every restore. Checkpoints
of other programs have no list and are restored without verification.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Mapping

import jax
from absl import logging
from etils import epath
from jaxaug_base.files import checksums, checksums_below, read_json, replacing

from t5x.distributed import failing_together
from t5x.errors import UserError

FILE = "digests.json"
# Files that orbax writes after the digests: the time and the mark of the commit.
_NO_DATA = {FILE, "_CHECKPOINT_METADATA", "commit_success.txt"}
_SHOWN = 3

# Maps a file, relative to the checkpoint, to (bytes, checksum).
Digests = dict[str, tuple[int, str]]


def is_data_position(name: str) -> bool:
    """Returns whether a file of a checkpoint belongs to a data iterator."""
    return any(part.startswith("train_ds-") for part in name.split("/"))


def of_bytes(data: bytes) -> tuple[int, str]:
    """Returns (size, CRC-32) of the contents of a file."""
    return len(data), f"{zlib.crc32(data):08x}"


def write(root: epath.PathLike) -> None:
    """Lists the files of a checkpoint, on process 0, after all processes wrote."""
    root = epath.Path(root)
    sums = checksums_below(root)
    files = {name: (size, f"{crc32:08x}") for name, (size, crc32) in sums.items()}
    data = {n: x for n, x in files.items() if n.rpartition("/")[2] not in _NO_DATA}
    _write(root, data)


def _write(root: epath.Path, files: Mapping[str, tuple[int, str]]) -> None:
    with replacing(root / FILE) as temporary:
        temporary.write_text(json.dumps({"algorithm": "crc32", "files": files}))


def read(root: epath.PathLike) -> Digests | None:
    """Returns the list of a checkpoint; None if it has none.

    Raises:
        UserError: the list itself is damaged.
    """
    path = epath.Path(root) / FILE
    if not path.exists():
        return None
    try:
        return {
            str(name): (int(size), str(checksum))
            for name, (size, checksum) in read_json(path)["files"].items()
        }
    except (ArithmeticError, AttributeError, KeyError, OSError, TypeError, ValueError):
        raise _damaged(root, [f"{FILE} is not what was written"]) from None


def _damaged(root: epath.PathLike, reasons: list[str]) -> UserError:
    shown = "; ".join(reasons[:_SHOWN])
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return UserError(
        f"Checkpoint {os.fspath(root)} is damaged: {shown}{more}. Restore another "
        f"step, or move this folder away so that the run continues from an earlier one."
    )


def verify(
    root: epath.PathLike, wanted: Callable[[str], bool], share: bool = False
) -> None:
    """Compares files of a checkpoint with its list.

    Args:
        share: whether each process checks a part of the files, and all fail if one
            does. Then all processes must call this function.

    Raises:
        UserError: a file is missing or has changed since it was saved.
    """
    with failing_together() if share else contextlib.nullcontext():
        if (listed := read(root)) is None:
            logging.info("%s has no %s: restoring it unverified.", root, FILE)
        files = listed or {}
        names = sorted(filter(wanted, files))
        if share:
            names = names[jax.process_index() :: jax.process_count()]
        reasons = []
        for name, found in checksums(epath.Path(root), names).items():
            size, checksum = files[name]
            if found is None:
                reasons.append(f"{name} is missing")
            elif found[0] != size:
                reasons.append(f"{name} has {found[0]:,} bytes, {size:,} were saved")
            elif (crc32 := f"{found[1]:08x}") != checksum:
                reasons.append(f"{name} has checksum {crc32}, {checksum} was saved")
        if reasons:
            raise _damaged(root, reasons)


def forget(root: epath.PathLike, wanted: Callable[[str], bool]) -> None:
    """Removes files from the list before they are deleted on purpose."""
    try:
        files = read(root)
    except UserError as e:
        logging.warning("%s", e)
        return
    if files is not None and any(map(wanted, files)):
        _write(
            epath.Path(root), {n: entry for n, entry in files.items() if not wanted(n)}
        )
