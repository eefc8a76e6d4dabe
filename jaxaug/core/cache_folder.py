"""Where everything lies that can be made again."""

import os

from etils import epath

CACHE_DIR_VARIABLE = "JAXAUG_CACHE_DIR"


def cache_dir() -> epath.Path:
    """`$JAXAUG_CACHE_DIR`, else `~/.cache/jaxaug`; not created here."""
    return epath.Path(
        os.environ.get(CACHE_DIR_VARIABLE) or "~/.cache/jaxaug"
    ).expanduser()
