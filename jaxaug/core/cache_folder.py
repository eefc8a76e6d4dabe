"""The folder of everything that programs can build again."""

import contextlib
import functools
import os
from collections.abc import Iterator

from etils import epath
from jaxaug_base.files import user_cache

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, is_remote, reach

# Path prefixes of inputs that programs build there: MiniSGD and data vocabularies.
_INPUTS = ("minisgd-", f"vocabularies{os.sep}")

_MADE_AGAIN = (
    "It was in the cache folder when the program started, and was removed or changed "
    "since then. Run the same command again: caches are made again."
)
CACHE_DIR_VARIABLE = "JAXAUG_CACHE_DIR"


def cache_dir() -> epath.Path:
    """Returns `$JAXAUG_CACHE_DIR`, `$XDG_CACHE_HOME/jaxaug`, or `~/.cache/jaxaug`.

    Raises:
        UserError: the storage that the variable names is unreachable.
    """
    default = os.path.join(user_cache(), "jaxaug")
    place = os.environ.get(CACHE_DIR_VARIABLE) or default
    if is_remote(place):
        _reach_cache(place)
    return epath.Path(place).expanduser()


def local_cache_dir() -> epath.Path:
    """Returns `cache_dir`, or the user's local cache folder if that is remote."""
    folder = cache_dir()
    return epath.Path("~/.cache/jaxaug").expanduser() if is_remote(folder) else folder


def fix_for(path: PathLike, fix: str) -> str:
    """Returns `fix`, or other advice for a file that programs build in the cache."""
    folder = os.path.abspath(cache_dir())
    ours = tuple(os.path.join(folder, name) for name in _INPUTS)
    return _MADE_AGAIN if os.path.abspath(path).startswith(ours) else fix


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Turns a missing file of the cache folder into a `UserError` with advice."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {_MADE_AGAIN}") from None


@functools.cache
def _reach_cache(place: str) -> None:
    # Once per process, because this costs a request.
    reach(place, f"Set ${CACHE_DIR_VARIABLE} to a folder that can be written.")
