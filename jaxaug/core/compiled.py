"""Compiled programs that are kept on disk, as by the T5X programs."""

import hashlib
import importlib.util
import os
import platform
import sys
from pathlib import Path
from typing import Any

from jaxaug.core import cache_folder
from jaxaug.core.files import is_remote

_FOLDER = "jax_compilation_cache_dir"
_BYTES = 2**32
_SECONDS = 0.5  # Programs that compile faster are not worth a file.


def keep_programs() -> None:
    """Stores compiled programs in the cache folder from now on, and reuses them.

    If the user has named a folder for JAX (`$JAX_COMPILATION_CACHE_DIR`), that one is
    used. Nothing is stored if the cache folder is an object store or is read-only, or
    if JAX is not installed. JAX itself is not imported.
    """
    if importlib.util.find_spec("jax") is None:
        return
    jax = sys.modules.get("jax")
    if jax.config.values[_FOLDER] if jax else os.environ.get(_FOLDER.upper()):
        return
    folder = str(cache_folder.cache_dir() / "compiled" / kind_of_cpu())
    if is_remote(folder):
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    settings: dict[str, Any] = {
        _FOLDER: os.path.abspath(folder),
        "jax_persistent_cache_min_compile_time_secs": _SECONDS,
    }
    if importlib.util.find_spec("filelock") is not None:
        # The size limit needs a lock, for which JAX needs that package.
        settings["jax_compilation_cache_max_size"] = _BYTES
    for name, value in settings.items():
        if name.upper() in os.environ:
            continue
        if jax:
            jax.config.update(name, value)
        else:
            # JAX reads the environment when it is imported.
            os.environ[name.upper()] = str(value)


def kind_of_cpu() -> str:
    """Returns a name of the CPU kind, because compiled programs depend on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        kinds = {x for x in lines if x.startswith(("flags", "Features", "model name"))}
        described = "\n".join(sorted(kinds))
    except OSError:
        described = platform.processor()
    digest = hashlib.blake2b(described.encode(), digest_size=4).hexdigest()
    return f"{platform.machine() or 'cpu'}-{digest}"
