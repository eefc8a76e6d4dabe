"""Hashes of values and files, by which caches and resumed runs know what they hold."""

import functools
import hashlib
import importlib.util
import json
import os
import pathlib
from typing import Any

from etils import epath


def digest_of(value: Any) -> str:
    """Hash of a JSON value, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_digest(path: epath.PathLike) -> str:
    """Hash of a file's bytes; read again only if the file's size or time changed."""
    if os.path.exists(path):
        stat = os.stat(path)
        return _digest(os.fspath(path), stat.st_size, stat.st_mtime_ns)
    remote = epath.Path(path).stat()
    return _digest(os.fspath(path), remote.length, int(remote.mtime))


@functools.cache
def _digest(path: str, size: int, modified: int) -> str:
    del size, modified  # Only part of the key.
    data = epath.Path(path).read_bytes()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def code_digest(*packages: str) -> str:
    """Hash of the code and data of packages, those below them included.

    Args:
      packages: dotted names, such as `jaxaug.augment`; they are not imported.
    """
    files = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations, package
        root = pathlib.Path(spec.submodule_search_locations[0])
        files += [
            [package, str(path.relative_to(root)), file_digest(path)]
            for path in sorted(root.rglob("*"))
            if path.suffix in (".py", ".txt")
        ]
    return digest_of(files)
