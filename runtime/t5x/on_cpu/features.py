"""Processor features of this process, and the compiler options for them."""

import functools
import os
import re
from typing import Any

import jax

# Number of parameters below which a step is too short to use all cores of a CPU.
SMALL = 4_000_000
# XLA's setting for the library with bfloat16 kernels, and its value for that use.
YNN = "xla_cpu_experimental_ynn_fusion_type"
_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
# CPU flags for products of bfloat16: four times and twice as fast as float32.
_DESCRIBING = "flags", "Features", "model name"
_FLAGS = frozenset(("amx_bf16", "avx512_bf16"))
_NARROW = re.compile(r"dot_general.*xbf16>, tensor<[^>]*xbf16>\) -> tensor<[^>]*xf32>")


def is_used() -> bool:
    """Returns whether JAX computes on a CPU."""
    return jax.default_backend() == "cpu"


def cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def described() -> tuple[str, ...]:
    """Returns the description of the CPU by Linux: lines on its model and flags."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = {line for line in file if line.startswith(_DESCRIBING)}
    except OSError:
        lines = set()
    return tuple(sorted(lines))


def has_bfloat16() -> bool:
    """Returns whether the CPU multiplies bfloat16 numbers; starts no backend."""
    return any(not _FLAGS.isdisjoint(line.split()) for line in described())


def compiler_options(lowered: Any) -> dict[str, str]:
    """Returns the compiler options for a lowered program on this machine.

    YNN is off in these programs (`start.machine`), because XLA's own kernels are faster
    for float32 products. If a program has bfloat16 products with float32 results, YNN
    computes all products.
    """
    off = f"--{YNN}=" in os.environ.get("XLA_FLAGS", "").split()
    if not (off and is_used() and has_bfloat16()):
        return {}
    return {YNN: _PRODUCTS} if _NARROW.search(lowered.as_text()) else {}
