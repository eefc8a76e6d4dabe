"""Where everything lies that can be made again."""

import functools
import os

from etils import epath

from jaxaug.core.files import is_remote, reach

CACHE_DIR_VARIABLE = "JAXAUG_CACHE_DIR"
# The folder of all programs' caches (XDG Base Directory Specification).
_CACHES_VARIABLE = "XDG_CACHE_HOME"


def cache_dir() -> epath.Path:
    """`$JAXAUG_CACHE_DIR`, else `$XDG_CACHE_HOME/jaxaug`, else `~/.cache/jaxaug`.

    It is not created here. A relative `$XDG_CACHE_HOME` counts as none, as that
    specification demands.

    Raises:
      UserError: the storage that the variable names is out of reach.
    """
    caches = os.environ.get(_CACHES_VARIABLE, "")
    default = os.path.join(caches if os.path.isabs(caches) else "~/.cache", "jaxaug")
    place = os.environ.get(CACHE_DIR_VARIABLE) or default
    if is_remote(place):
        _reach_cache(place)
    return epath.Path(place).expanduser()


def local_cache_dir() -> epath.Path:
    """`cache_dir`, or the user's own where that is no local folder."""
    folder = cache_dir()
    return epath.Path("~/.cache/jaxaug").expanduser() if is_remote(folder) else folder


@functools.cache
def _reach_cache(place: str) -> None:
    # Once a process: this costs a request.
    reach(place, f"Set ${CACHE_DIR_VARIABLE} to a folder that can be written.")
