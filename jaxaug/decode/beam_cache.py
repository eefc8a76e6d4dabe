"""The cache of beams that look up their past instead of taking it with them.

The runtime's beam search has the same; upstream's T5X has it not.
"""

from typing import Any

import flax.core
import jax.numpy as jnp
from flax import traverse_util

from jaxaug.decode import contract

# The work of looking up grows with the square of the beams; measured on a CPU, 64 beams
# take as long as moving all keys and values.
_MOST = 32


def share_history(cache: Any, beams: int) -> Any:
    """Accepts the offer of networks that can find a beam's past where it was written.

    Where a network offers it, by a leaf `cached_ancestors` [*lead, batch, length] as
    those of `jaxaug.models` and `t5x.examples` do, `cached_key` [*lead, batch, heads,
    dim, length] becomes `cached_beam_key` [*lead, batch, heads, dim, length * beams],
    with the beams of a position next to each other, and `cached_value` the like.
    `cache_gather_beams` then reorders `cached_ancestors` alone, which costs nothing beside
    keys and values.

    Args:
        cache: one row an input; positions that are filled belong to a prompt.
        beams: of an input; one has nobody to share with, and above 32 it does not pay.
    """
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache), keep_empty_nodes=True)
    if not 1 < beams <= _MOST:
        return cache
    for *layer, _ in [path for path in flat if path[-1] == "cached_ancestors"]:
        for name in ("key", "value"):
            own = flat.pop((*layer, f"cached_{name}"))
            # All beams have the prompt from the first one.
            slots = jnp.stack([own, *[jnp.zeros_like(own)] * (beams - 1)], axis=-1)
            flat[(*layer, f"cached_beam_{name}")] = slots.reshape(*own.shape[:-1], -1)
    return contract.match_container(traverse_util.unflatten_dict(flat), cache)
