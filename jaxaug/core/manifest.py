"""The list of files in a finished folder: name, size, and CRC-32 of each.

It is written last and verified whenever the folder is opened. It detects changes by a
disk, a copy, or a person.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

from absl import logging
from etils import epath
from jaxaug_base.files import checksums, checksums_below

from jaxaug.core.files import read_json

NAME = "meta.json"


class DamagedError(Exception):
    """A folder differs from its manifest; the message names the difference."""


def write(folder: epath.Path, **facts: Any) -> None:
    """Lists the files below a complete folder, and JSON facts about them."""
    sums = checksums_below(folder)
    content = {**facts, "files": [[name, *found] for name, found in sums.items()]}
    content["crc32"] = _crc32_of(content)
    (folder / NAME).write_text(json.dumps(content))


def verified(folder: epath.Path) -> dict[str, Any]:
    """Returns the facts about a folder and `files`: [name, bytes, CRC-32], by name.

    Every file is read.

    Raises:
        FileNotFoundError: the folder does not exist.
        DamagedError: the list or a file is missing or has changed.
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
    sums = checksums(folder, [name for name, _ in files])
    for name, listed in files:
        found = sums[name]
        if found is None:
            raise DamagedError(f"{name} is missing or cannot be read")
        if found[0] != listed[0]:
            raise DamagedError(f"{name} has {found[0]} bytes, {listed[0]} were written")
        if found != listed:
            raise DamagedError(f"{name} holds other bytes than were written")
    return content


def opened(folder: epath.Path) -> dict[str, Any] | None:
    """Returns `verified` of a cache; warns and returns None if it must be built."""
    try:
        return verified(folder)
    except FileNotFoundError:
        return None
    except DamagedError as damage:
        logging.warning("cache %s is damaged and made again: %s", folder, damage)
        return None


def is_whole(folder: epath.Path) -> bool:
    """Returns whether a folder exists and is unchanged."""
    try:
        verified(folder)
    except (DamagedError, FileNotFoundError):
        return False
    return True


def _crc32_of(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
