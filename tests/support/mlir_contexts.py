"""A context of MLIR for many programs.

JAX creates a context for each program that it lowers and loads all dialects into it.
This takes 6 ms, most of the time of lowering a small operation; tests lower thousands.
"""

import threading
from typing import Any

from jax._src.interpreters import mlir

# A context keeps the constants of its programs.
_PROGRAMS = 100

_make = mlir.make_ir_context
_own = threading.local()


def shared() -> None:
    """Shares a context between up to 100 programs of a thread."""
    mlir.make_ir_context = _shared


def _shared() -> Any:
    _own.programs = getattr(_own, "programs", _PROGRAMS) + 1
    if _own.programs > _PROGRAMS:
        _own.context, _own.programs = _make(), 1
    return _own.context
