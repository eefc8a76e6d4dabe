"""The list that a finished folder keeps of its files: name, size and CRC-32 of each.

Written last and verified whenever the folder is opened, it tells apart what was written
and what a disk, a copy or a person has made of it since. CRC-32 finds every changed
byte and costs less than reading the file; it does not guard against intent.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from absl import logging
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import check_ordinary, read_json

NAME = "meta.json"
_CHUNK = 1 << 20  # bytes
_THREADS = 8  # Reading waits and the checksum frees the interpreter.


class DamagedError(Exception):
    """A folder is not what was written; the message says in what way."""


def write(folder: epath.Path, **facts: Any) -> None:
    """Lists the files below a folder, and what else is to be known about them.

    Args:
      folder: its files are complete.
      **facts: JSON values that `verified` gives back.
    """
    names = sorted(files_below(folder))
    with ThreadPoolExecutor(_THREADS) as pool:
        sums = list(pool.map(_checksum, [folder / name for name in names]))
    files = [[name, *found] for name, found in zip(names, sums, strict=True)]
    content = {**facts, "files": files}
    content["crc32"] = _crc32_of(content)
    (folder / NAME).write_text(json.dumps(content))


def files_below(folder: epath.Path, prefix: str = "") -> Iterator[str]:
    """Names of the files in a folder and in those below it, such as `a/b.json`."""
    for path in folder.iterdir():
        if path.is_dir():
            yield from files_below(path, f"{prefix}{path.name}/")
        else:
            yield prefix + path.name


def verified(folder: epath.Path) -> dict[str, Any]:
    """The facts about a folder and `files`: [name, bytes, CRC-32] of each, by name.

    Every file is read.

    Raises:
      FileNotFoundError: there is no such folder.
      DamagedError: the list or a file in it is missing, or is not what was written.
    """
    try:
        content = read_json(folder / NAME, "")
        expected = content.pop("crc32")
        files = [(str(name), (size, crc32)) for name, size, crc32 in content["files"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        if not folder.exists():
            raise FileNotFoundError(str(folder)) from None
        raise DamagedError(f"its {NAME} is missing or no list of files") from None
    if _crc32_of(content) != expected:
        raise DamagedError(f"its {NAME} is not what was written")
    with ThreadPoolExecutor(_THREADS) as pool:
        sums = list(pool.map(_checksum_or_none, [folder / name for name, _ in files]))
    for (name, listed), found in zip(files, sums, strict=True):
        if found is None:
            raise DamagedError(f"{name} is missing or cannot be read")
        if found[0] != listed[0]:
            raise DamagedError(f"{name} has {found[0]} bytes, {listed[0]} were written")
        if found != listed:
            raise DamagedError(f"{name} holds other bytes than were written")
    return content


def opened(folder: epath.Path) -> dict[str, Any] | None:
    """What `verified` says of a cache; None if it is to be made.

    Damage is logged in one line.
    """
    try:
        return verified(folder)
    except FileNotFoundError:
        return None
    except DamagedError as damage:
        logging.warning("cache %s is damaged and made again: %s", folder, damage)
        return None


def is_whole(folder: epath.Path) -> bool:
    """Whether a folder is there and is what was written."""
    try:
        verified(folder)
    except (DamagedError, FileNotFoundError):
        return False
    return True


def _crc32_of(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _checksum(path: epath.Path) -> tuple[int, int]:
    """Size in bytes and CRC-32 of a file."""
    size = crc32 = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            crc32 = zlib.crc32(chunk, crc32)
    return size, crc32


def _checksum_or_none(path: epath.Path) -> tuple[int, int] | None:
    try:
        check_ordinary(path, "")
        return _checksum(path)
    except (OSError, UserError):
        return None
