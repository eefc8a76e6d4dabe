"""Pins fetched models and data to their commits and files at the first download.

`jaxaug_source.json` in a fetched folder has the SHA-256 of each file. They are compared
whenever the folder is used by its name. `hub.lock.json` next to the folders
keeps commit and digests of each hub id, even if a folder is deleted. A later download
therefore gets the same files, also on another machine with a copy of the lock file.
"""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text

NOTE = "jaxaug_source.json"
LOCK = "hub.lock.json"
_LOCK_FIX = "Restore the file, or move it elsewhere to pin what is fetched next."


def sha256(path: PathLike) -> str:
    """Returns the SHA-256 digest of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(folder: epath.Path) -> dict[str, str]:
    """Returns the SHA-256 of the files of a folder, by their paths in it."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    # The client of the hub stores notes in a hidden folder.
    kept = [name for name in names if name != NOTE and not name.startswith(".")]
    return {name: sha256(folder / name) for name in kept}


def note(folder: epath.Path, **values: Any) -> None:
    """Writes the note of a folder, with the digests of its files."""
    values = {**values, "sha256": values.get("sha256") or digests(folder)}
    write_text(folder / NOTE, json.dumps(values, indent=2) + "\n")


def noted(folder: epath.Path) -> dict[str, Any]:
    """Returns the note of a folder, or raises `UserError`."""
    path = folder / NOTE
    fix = f"Move {folder} elsewhere and fetch it again."
    found = read_json(path, fix)
    files = found.get("sha256", {}) if isinstance(found, dict) else None
    if not isinstance(files, dict) or not isinstance(found.get("commit", ""), str):
        raise UserError(f"{path} is not the note of a download. {fix}")
    return found


def verify(folder: epath.Path, names: Collection[str] | None = None) -> None:
    """Checks that the files of a fetched folder are unchanged.

    Args:
        folder: fetched folder; without a note or digests in it, nothing is
            checked.
        names: paths in the folder to check; None means all.

    Raises:
        UserError: a file is missing or changed.
    """
    if not (folder / NOTE).exists():
        return
    for name, expected in noted(folder).get("sha256", {}).items():
        if names is not None and name not in names:
            continue
        found = sha256(folder / name) if (folder / name).is_file() else "missing"
        if found != expected:
            raise UserError(
                f"{folder / name}: sha256 is {found}, but {expected} was fetched: the "
                f"file was lost or changed. Move {folder} elsewhere and fetch it "
                "again; to use changed files, name their folder."
            )


def locked(path: epath.Path, hub_id: str) -> dict[str, Any] | None:
    """Returns commit and digests of a hub id in the lock file, or None."""
    if not path.exists():
        return None
    found = read_json(path, _LOCK_FIX)
    entry = found.get(hub_id) if isinstance(found, dict) else "none"
    if entry is None:
        return None
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("commit"), str)
        or not isinstance(entry.get("sha256"), dict)
    ):
        raise UserError(f"{path} has no commit and sha256 for {hub_id}. {_LOCK_FIX}")
    return entry


def check_locked(
    entry: dict[str, Any], path: epath.Path, hub_id: str, found: dict[str, str]
) -> None:
    """Raises `UserError` unless downloaded files equal the lock file's."""
    for name, expected in entry["sha256"].items():
        if found.get(name, "missing") != expected:
            raise UserError(
                f"{hub_id}: {name} has sha256 {found.get(name, 'missing')}, but {path} "
                f"has {expected} from the first download of commit {entry['commit']}. "
                "The download is damaged, or the hub's files were replaced: try again, "
                f"or remove the entry of {hub_id} from that file to accept them."
            )


def lock(path: epath.Path, hub_id: str, commit: str, files: dict[str, str]) -> None:
    """Adds a hub id to the lock file."""
    entries = read_json(path, _LOCK_FIX) if path.exists() else {}
    entries = {**entries, hub_id: {"commit": commit, "sha256": files}}
    write_text(path, json.dumps(entries, indent=2, sort_keys=True) + "\n")
