"""The T5X interface on current JAX: `python -m t5x.train | t5x.eval | t5x.infer`.

Submodules are loaded on first use, so `import t5x` is fast and imports neither
TensorFlow nor seqio.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_SUBMODULES = (
    "adafactor", "binary_search", "checkpoints", "decoding", "errors", "eval",
    "gin_utils", "infer", "inference", "losses", "main", "metrics", "models",
    "optimizers", "partitioning", "state_utils", "train", "train_state", "trainer",
    "utils",
)  # fmt: skip
_ALIASES = {"checkpointing": "checkpoints"}


def __getattr__(name: str) -> Any:
    """Loads `t5x.<name>` on first access."""
    module = _ALIASES.get(name, name)
    if module not in _SUBMODULES:
        raise AttributeError(f"module 't5x' has no attribute {name!r}")
    return importlib.import_module(f"t5x.{module}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_ALIASES})
