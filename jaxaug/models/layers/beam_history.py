"""Self-attention of beams that look up their past, where the runtime has that.

`t5x.examples.t5.beam_history` says how it works. Upstream's T5X has none of it: there no
model asks a network for it, and keys and values of beams are moved in every step.
"""

from collections.abc import Mapping

from flax import linen as nn
from jaxtyping import Array

try:
    from t5x.examples.t5 import beam_history as history
except ImportError:
    history = None  # type: ignore[assignment]


def is_there() -> bool:
    """Whether the runtime has it."""
    return history is not None


def offer(module: nn.Module, rows: int, length: int) -> None:
    """Offers it to who creates the cache of an attention module, if he asks for it."""
    if is_there():
        history.offer(module, rows, length)


def is_shared(module: nn.Module) -> bool:
    """Whether the cache of an attention module holds histories."""
    return is_there() and history.is_shared(module)


def cache_length(cache: Mapping[str, Array]) -> int:
    """The number of positions for which the cache of an attention module has room."""
    # Its history, if there is one, has slots for all beams at each.
    name = "cached_key" if "cached_key" in cache else "cached_ancestors"
    return cache[name].shape[-1]
