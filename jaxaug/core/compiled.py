"""Compiled programs that are kept on disk, as by the T5X programs."""

import hashlib
import importlib.util
import os
import platform
from pathlib import Path

from jaxaug.core import cache_folder
from jaxaug.core.files import is_remote

_BYTES = 2**32
_SECONDS = 0.5  # Programs that compile faster are not worth a file.


def keep_programs() -> None:
    """Stores compiled programs in the cache folder from now on, and reuses them.

    If the user has named a folder for JAX (`$JAX_COMPILATION_CACHE_DIR`), that one is
    used. Nothing is stored if the cache folder is an object store or is read-only, or
    if JAX is not installed.
    """
    if importlib.util.find_spec("jax") is None:
        return
    import jax

    if jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = str(cache_folder.cache_dir() / "compiled" / kind_of_cpu())
    if is_remote(folder):
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", os.path.abspath(folder))
    _unless_set("jax_persistent_cache_min_compile_time_secs", _SECONDS)
    if importlib.util.find_spec("filelock") is not None:
        # The size limit needs a lock, for which JAX needs that package.
        _unless_set("jax_compilation_cache_max_size", _BYTES)


def _unless_set(name: str, value: float) -> None:
    import jax

    if name.upper() not in os.environ:
        jax.config.update(name, value)


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
