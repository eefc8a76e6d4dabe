"""Hashes of values and files, which identify the content of caches and resumed runs."""

import functools
import hashlib
import importlib
import json
import os
import pathlib
from types import ModuleType
from typing import Any

from etils import epath

from jaxaug.core.files import check_ordinary


def digest_of(value: Any) -> str:
    """Returns a hash of a JSON value, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_digest(path: epath.PathLike) -> str:
    """Returns a hash of a file's bytes; reads it again only if size or time changed."""
    if os.path.exists(path):
        stat = os.stat(path)
        return _digest(os.fspath(path), stat.st_size, stat.st_mtime_ns)
    remote = epath.Path(path).stat()
    return _digest(os.fspath(path), remote.length, int(remote.mtime))


@functools.cache
def _digest(path: str, size: int, modified: int) -> str:
    del size, modified  # Only part of the key.
    check_ordinary(path, "Name a file.")
    with epath.Path(path).open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.blake2b(digest_size=16)
        ).hexdigest()


def code_digest(*modules: ModuleType | str) -> str:
    """Returns a hash of the sources of modules, and of code and data in packages."""
    files = [
        file
        for module in modules
        for file in _sources(
            importlib.import_module(module) if isinstance(module, str) else module
        )
    ]
    return _of_sources(tuple(files))


def _sources(module: ModuleType) -> list[tuple[str, str]]:
    """Returns (name, file) of each source file."""
    folders = list(getattr(module, "__path__", ()))
    if not folders and module.__file__:
        return [(pathlib.Path(module.__file__).name, module.__file__)]
    return [
        (path.relative_to(folder).as_posix(), str(path))
        for folder in folders
        for path in sorted(pathlib.Path(folder).rglob("*"))
        if path.suffix in (".py", ".txt")
    ]


@functools.cache
def _of_sources(files: tuple[tuple[str, str], ...]) -> str:
    # A process runs the code it has loaded, so its sources are read only once.
    return digest_of([[name, file_digest(path)] for name, path in files])
