"""Where everything lies that can be made again."""

import contextlib
import functools
import os
from collections.abc import Iterator

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, is_remote, reach

# Begin the paths of inputs that programs make there: MiniSGD, vocabularies of data.
_INPUTS = ("minisgd-", f"vocabularies{os.sep}")

_MADE_AGAIN = (
    "It was in the cache folder when the program started, and was removed or changed since "
    "then. Run the same command again: caches are made again."
)
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


def fix_for(path: PathLike, fix: str) -> str:
    """A sentence that tells how to mend a missing or wrong input file.

    Args:
      path: of the file or its folder.
      fix: the sentence for inputs that programs do not make in the cache folder.
    """
    folder = os.path.abspath(cache_dir())
    ours = tuple(os.path.join(folder, name) for name in _INPUTS)
    return _MADE_AGAIN if os.path.abspath(path).startswith(ours) else fix


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Reads a file that was in the cache folder.

    Raises:
      UserError: it is gone; the message says how to get it again.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {_MADE_AGAIN}") from None


@functools.cache
def _reach_cache(place: str) -> None:
    # Once a process: this costs a request.
    reach(place, f"Set ${CACHE_DIR_VARIABLE} to a folder that can be written.")
