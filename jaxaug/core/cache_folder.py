"""Where everything lies that can be made again."""

import functools
import os

from etils import epath

from jaxaug.core.files import is_remote, reach

CACHE_DIR_VARIABLE = "JAXAUG_CACHE_DIR"


def cache_dir() -> epath.Path:
    """`$JAXAUG_CACHE_DIR`, else `~/.cache/jaxaug`; not created here.

    Raises:
      UserError: the storage that the variable names is out of reach.
    """
    place = os.environ.get(CACHE_DIR_VARIABLE) or "~/.cache/jaxaug"
    if is_remote(place):
        _reach_cache(place)
    return epath.Path(place).expanduser()


@functools.cache
def _reach_cache(place: str) -> None:
    # Once a process: this costs a request.
    reach(place, f"Set ${CACHE_DIR_VARIABLE} to a folder that can be written.")
