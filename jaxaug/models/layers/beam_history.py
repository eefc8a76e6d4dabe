"""Self-attention of beams over a shared history, if the runtime supports it.

See `t5x.examples.t5.beam_history` for the algorithm. Upstream T5X does not support it:
there, keys and values of beams are moved in every step.
"""

from collections.abc import Mapping

from flax import linen as nn
from jaxtyping import Array

try:
    from t5x.examples.t5 import beam_history as history
except ImportError:
    history = None  # type: ignore[assignment]


def is_there() -> bool:
    """Returns whether the runtime supports shared histories."""
    return history is not None


def offer(module: nn.Module, rows: int, length: int) -> None:
    """Offers a shared history to the code that creates the cache of a module."""
    if is_there():
        history.offer(module, rows, length)


def is_shared(module: nn.Module) -> bool:
    """Returns whether the cache of an attention module holds histories."""
    return is_there() and history.is_shared(module)


def cache_length(cache: Mapping[str, Array]) -> int:
    """Returns the number of positions that the cache of an attention module holds."""
    # Each position of a shared history has a slot for every beam.
    name = "cached_key" if "cached_key" in cache else "cached_ancestors"
    return cache[name].shape[-1]
