"""What this process computes on, and what it compiles for that."""

import functools
import os
import platform
import re
from typing import Any

import jax

# Parameters below which a step is so short that a CPU's other cores, and Python, wait.
SMALL = 4_000_000
# XLA's setting for the library whose kernels multiply tiles, and its value for that.
YNN = "xla_cpu_experimental_ynn_fusion_type"
_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
# Multiplies tiles of 16-bit numbers, four times as fast as float32.
_TILES = "amx_bf16"
_NARROW = re.compile(r"dot_general.*xbf16>, tensor<[^>]*xbf16>\) -> tensor<[^>]*xf32>")


def is_used() -> bool:
    """Whether JAX computes on a CPU."""
    return jax.default_backend() == "cpu"


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def has_tiles() -> bool:
    """Whether the CPU multiplies tiles of bfloat16 (AMX); starts no backend."""
    if platform.system() != "Linux":
        return False
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return False
    return _TILES in flags.split()


def compiler_options(lowered: Any) -> dict[str, str]:
    """Options with which a lowered program is compiled here.

    YNN is off in our programs (`start.machine`): for products of float32, XLA's own
    kernels are faster. Where there are products of bfloat16 that give float32, YNN has
    them all.
    """
    off = f"--{YNN}=" in os.environ.get("XLA_FLAGS", "").split()
    if not (off and is_used() and has_tiles()):
        return {}
    return {YNN: _PRODUCTS} if _NARROW.search(lowered.as_text()) else {}
