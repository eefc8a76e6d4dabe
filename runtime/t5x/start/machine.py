"""Machine settings that make steps and startup faster; flags turn each one off.

They were chosen by measurement, see `benchmarks/NOTES.md`:

- glibc returns the buffers of a step to the system, and the next step causes page
  faults again. A single arena, no trimming, and no mmap for large blocks avoid this.
- XLA's YNN fusions on the CPU cost small models more than they save. Programs with
  bfloat16 products use YNN only for products, if the CPU multiplies such numbers
  (`on_cpu.features`).
- Compiled programs are kept on disk, so that a resumed run, or another run of the same
  shape, does not compile again."""

import contextlib
import ctypes
import gc
import hashlib
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import jax
import jaxlib
from absl import flags
from jaxaug_base.files import user_cache

from t5x.errors import UserError
from t5x.on_cpu import features

# Numbers of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
_YNN_OFF = f"--{features.YNN}="
# XLA ends the process if it does not know a flag.
_YNN_KNOWN = ((0, 10), (0, 13))
_CACHE_VARIABLE = "JAX_COMPILATION_CACHE_DIR"
_CACHE_BYTES = 4 << 30
_CACHE_SECONDS = 0.2
_NONE = "none"


def define_flags() -> None:
    """Defines the flags that `set_up` reads."""
    flags.DEFINE_bool(
        "keep_memory",
        True,
        "Keep freed memory for the next step instead of giving it back to the system "
        "(Linux with glibc, computing on the CPU).",
    )
    flags.DEFINE_bool(
        "ynn_fusions", False, "Leave XLA's YNN fusions on (computing on the CPU)."
    )
    flags.DEFINE_string(
        "compilation_cache",
        None,
        f"Folder of compiled programs, or {_NONE!r}. Default: ${_CACHE_VARIABLE}, else "
        "a folder in the user's cache.",
    )


def set_up(
    keep_memory: bool = True,
    ynn_fusions: bool = False,
    compilation_cache: str | None = None,
) -> str:
    """Sets up this process, and says how; call it before anything touches a device.

    Settings that do not apply are skipped: allocator and fusions on accelerators, and
    the allocator with C libraries other than glibc. See `define_flags` for the
    arguments.

    Raises:
        UserError: the named cache folder cannot be created.
    """
    done = []
    on_cpu = not _has_accelerator()
    if keep_memory and on_cpu and keep_freed_memory():
        done.append("keeps freed memory (--nokeep_memory)")
    if not ynn_fusions and on_cpu and _turn_ynn_off():
        but = " but for products of bfloat16" if features.has_bfloat16() else ""
        done.append(f"XLA without YNN fusions{but} (--ynn_fusions)")
    if folder := use_compilation_cache(compilation_cache):
        done.append(f"compiled programs in {folder} (--compilation_cache={_NONE})")
    return "machine: " + ("; ".join(done) or "nothing set")


def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory; returns whether that worked.

    The process then keeps the peak memory it ever needed.
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False  # The caller has chosen other malloc settings.
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted: Sequence[tuple[int, int]] = (
        (_ARENA_MAX, 1),
        (_TRIM_THRESHOLD, -1),  # As an unsigned number, -1 is the maximum.
        (_MMAP_MAX, 0),
    )
    results = [mallopt(setting, value) for setting, value in wanted]
    return results == [1] * len(wanted)


def _turn_ynn_off() -> bool:
    given = os.environ.get("XLA_FLAGS", "")
    version = tuple(map(int, jaxlib.__version__.split(".")[:2]))
    if not _YNN_KNOWN[0] <= version < _YNN_KNOWN[1]:
        return False
    if _YNN_OFF.rstrip("=") in given:
        return False
    os.environ["XLA_FLAGS"] = f"{given} {_YNN_OFF}".strip()
    return True


def _has_accelerator() -> bool:
    """Returns whether JAX would use an accelerator; starts no backend."""
    platforms = jax.config.values["jax_platforms"] or ""
    if platforms:
        return platforms.split(",")[0] != "cpu"
    return any(
        importlib.util.find_spec(name) is not None for name in ("jax_plugins", "libtpu")
    )


def use_compilation_cache(folder: str | None) -> str | None:
    """Keeps compiled programs on disk; returns the folder, or None for no cache.

    None means the user's JAX setting, else a folder in the user's cache, one per kind
    of CPU, limited to 4 GiB.

    Raises:
        UserError: the named folder cannot be created.
    """
    if folder == _NONE:
        jax.config.update("jax_enable_compilation_cache", False)
        return None
    if folder is None and (known := jax.config.values[_CACHE_VARIABLE.lower()]):
        return known
    path = folder or os.path.join(user_cache(), "t5x", "compiled", _kind_of_cpu())
    if "://" not in path:
        path = os.path.abspath(os.path.expanduser(path))
        try:
            os.makedirs(path, exist_ok=True)
            with open(os.path.join(path, f".written-{os.getpid()}"), "w") as file:
                pass
            os.unlink(file.name)
        except OSError as error:
            if folder is None:
                return None  # A read-only home folder is not a reason to stop.
            raise UserError(
                f"--compilation_cache={folder}: {error.strerror}. Name a folder that "
                f"can be written, or {_NONE!r}."
            ) from error
    jax.config.update("jax_compilation_cache_dir", path)
    _unless_set("jax_persistent_cache_min_compile_time_secs", _CACHE_SECONDS)
    if folder is None and importlib.util.find_spec("filelock") is not None:
        # The size limit needs a lock, for which JAX needs that package.
        _unless_set("jax_compilation_cache_max_size", _CACHE_BYTES)
    return path


def _unless_set(name: str, value: float) -> None:
    if name.upper() not in os.environ:
        jax.config.update(name, value)


def _kind_of_cpu() -> str:
    """Returns a name of the CPU kind, because compiled programs depend on it."""
    described = "".join(features.described()) or platform.processor()
    digest = hashlib.blake2b(described.encode(), digest_size=4).hexdigest()
    return f"{platform.machine() or 'cpu'}-{digest}"


# TensorFlow always imports Keras, which imports these packages if they are installed,
# for scikit-learn wrappers and image plots that no program here uses.
_OPTIONAL_FOR_KERAS = frozenset(("matplotlib", "sklearn"))


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Disables the garbage collector and optional imports of Keras inside the context.

    The imported objects are then excluded from later collections. Matplotlib and
    scikit-learn are hidden from Keras only (benchmarks/NOTES.md).
    """
    was_on = gc.isenabled()
    gc.disable()
    refusal = _RefusesKeras()
    sys.meta_path.insert(0, refusal)
    try:
        yield
    finally:
        sys.meta_path.remove(refusal)
        gc.freeze()
        if was_on:
            gc.enable()


class _RefusesKeras:
    """Import finder that hides optional packages from Keras only."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Leaves the search to the next finder, or refuses an import of Keras."""
        if name in _OPTIONAL_FOR_KERAS and _importer(sys._getframe(1)) == "keras":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _importer(frame: FrameType | None) -> str:
    """Returns the package that contains the import statement."""
    while frame and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return name.partition(".")[0]
