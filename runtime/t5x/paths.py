"""Paths as users write them: local ones may be relative, others are URLs (gs://)."""

import contextlib
import copy
import os
from collections.abc import Iterator
from typing import Any

from etils import epath


def absolute(path: str | os.PathLike) -> str:
    """An absolute local path without `~`, or a URL as it is. (orbax wants no relative ones.)"""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def with_absolute_path(restore_cfg: Any) -> Any:
    """A copy of a RestoreCheckpointConfig whose paths are absolute."""
    cfg = copy.copy(restore_cfg)
    if isinstance(cfg.path, (str, os.PathLike)):
        cfg.path = absolute(cfg.path)
    else:
        cfg.path = [absolute(path) for path in cfg.path]
    return cfg


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[epath.Path]:
    """A temporary file for the block to write; it replaces `path` if the block ends well."""
    target = epath.Path(path)
    temporary = target.with_name(f"{target.name}.tmp")
    yield temporary
    temporary.replace(target)


def user_cache() -> str:
    """The folder of the user's caches: `$XDG_CACHE_HOME`, else `~/.cache`."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The specification has relative paths ignored.
    return caches if os.path.isabs(caches) else os.path.expanduser("~/.cache")
