"""Paths as users write them: local ones may be relative, others are URLs (gs://)."""

import os

from etils import epath


def absolute(path: epath.PathLike) -> epath.Path:
    """A local path from the root, `~` resolved; a URL (gs://) as it is.

    The libraries that write checkpoints take no other.
    """
    text = os.fspath(path)
    if "://" in text:
        return epath.Path(text)
    return epath.Path(os.path.abspath(os.path.expanduser(text)))


def is_same(one: epath.PathLike, other: epath.PathLike) -> bool:
    """Whether two paths lead to one file or folder, links resolved."""
    places = (os.fspath(absolute(path)) for path in (one, other))
    first, second = (p if "://" in p else os.path.realpath(p) for p in places)
    return first == second
