"""Self-attention of beams that look up their past in a history shared per input.

In beam search, a beam inherits the past of the beam that it continues. Keys and values
are not moved in every step but stay where they were written. The history of an input is
[heads, dim, slots]; slot p * beams + b holds what beam b wrote at position p. The small
leaf `cached_ancestors` [rows, length] is reordered with the beams; it holds the beam
that wrote each position of a beam's past. All beams of an input attend to all of its
slots at once, and a mask hides the slots of other beams.

A network offers this when it creates its cache. A decode function that accepts replaces
`cached_key` and `cached_value` with the histories
(`t5x.search.decode_state.share_history`).
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float, Int


def offer(module: nn.Module, rows: int, length: int) -> None:
    """Stores `cached_ancestors` in the collection `beam_cache`, if that is mutable."""
    # In `init` the inputs are placeholders.
    if module.is_mutable_collection("beam_cache") and not module.is_initializing():
        first = jnp.zeros((rows, length), jnp.int32)
        module.put_variable("beam_cache", "cached_ancestors", first)


def is_shared(module: nn.Module) -> bool:
    """Returns whether the cache of an attention module holds histories."""
    return module.has_variable("cache", "cached_beam_key")


def step(
    module: nn.Module,
    key: Float[Array, "rows 1 heads dim"],
    value: Float[Array, "rows 1 heads dim"],
) -> tuple[
    Float[Array, "batch heads dim slots"],
    Float[Array, "batch heads dim slots"],
    Int[Array, " #batch"],
    Bool[Array, "batch beams length beams"],
]:
    """Stores one position of all beams in the cache of an attention module.

    Returns:
        The histories of keys and values, the position of each input, and which slots
        belong to a beam.

    Raises:
        ValueError: the input does not have one position per beam.
    """
    ancestors: Array = module.get_variable("cache", "cached_ancestors")
    shared: Array = module.get_variable("cache", "cached_beam_key")
    batch, length = len(shared), ancestors.shape[-1]
    beams = shared.shape[-1] // length
    rows = batch * beams
    if key.shape[:2] != (rows, 1):
        raise ValueError(
            f"a decoding step of {batch} x {beams} beams needs one position for each, "
            f"queries [{rows}, 1, ...], but got {list(key.shape[:2])}"
        )
    index: Array = module.get_variable("cache", "cache_index")
    module.put_variable("cache", "cache_index", index + 1)
    # Beams of an input are at the same position.
    position = index[::beams] if index.ndim else index
    histories = []
    for name, new in (("key", key), ("value", value)):
        history: Array = module.get_variable("cache", f"cached_beam_{name}")
        histories.append(_store(history, new, position))
        module.put_variable("cache", f"cached_beam_{name}", histories[-1])
    position = position.reshape(-1)
    ancestors, own = look_up(ancestors.reshape(batch, beams, length), position)
    module.put_variable("cache", "cached_ancestors", ancestors.reshape(rows, length))
    return histories[0], histories[1], position, own


def _store(
    history: Float[Array, "batch heads dim slots"],
    new: Float[Array, "rows 1 heads dim"],
    position: Int[Array, "*batch"],
) -> Float[Array, "batch heads dim slots"]:
    """Stores a position; rows past the end are finished and store nothing."""
    batch, heads, dim, _ = history.shape
    beams = new.shape[0] // batch
    new = new.reshape(batch, beams, heads, dim).transpose(0, 2, 3, 1)
    if position.ndim == 0:
        return lax.dynamic_update_slice_in_dim(history, new, position * beams, axis=-1)

    def of_input(history: Array, new: Array, position: Array) -> Array:
        slots = position * beams + jnp.arange(beams)
        return history.at[:, :, slots].set(new, mode="drop")

    return jax.vmap(of_input)(history, new, position)


def look_up(
    ancestors: Int[Array, "batch beams length"], position: Int[Array, " #batch"]
) -> tuple[Int[Array, "batch beams length"], Bool[Array, "batch beams length beams"]]:
    """Returns the ancestors after a step at `position`, and the slots of each beam."""
    beam, place = jnp.arange(ancestors.shape[1]), jnp.arange(ancestors.shape[2])
    last = position[:, None, None]
    ancestors = jnp.where(place == last, beam[:, None], ancestors)
    own = (ancestors[..., None] == beam) & (place <= last)[..., None]
    return ancestors, own
