"""Paths from users: local paths, which may be relative, and URLs (gs://)."""

import os

from etils import epath


def absolute(path: epath.PathLike) -> epath.Path:
    """Returns an absolute local path with `~` expanded, or a URL (gs://) unchanged.

    The libraries that write checkpoints accept no other paths.
    """
    text = os.fspath(path)
    if "://" in text:
        return epath.Path(text)
    return epath.Path(os.path.abspath(os.path.expanduser(text)))


def is_same(one: epath.PathLike, other: epath.PathLike) -> bool:
    """Returns whether two paths, with links resolved, are the same."""
    places = (os.fspath(absolute(path)) for path in (one, other))
    first, second = (p if "://" in p else os.path.realpath(p) for p in places)
    return first == second
