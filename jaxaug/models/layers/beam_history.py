"""Self-attention of beams that look up their past in one history of their input.

In a beam search the past of a beam is that of the beam which it continues. Instead of
moving all keys and values in every step, they stay where they were written: the history
of an input is [heads, dim, slots], and slot p * beams + b holds what beam b wrote at
position p. `cached_ancestors` [rows, length], which is small, goes with the beams as
every other leaf does; it tells for each position in whose slot a beam's past lies. All
beams of an input attend to all of its slots at once, and a mask hides those of others.

A network makes the offer when it creates its cache; a decode function that accepts it
puts the histories in place of `cached_key` and `cached_value` (`jaxaug.decode.beam_cache`).
The runtime has the same for T5 (`t5x.examples.t5.beam_history`); upstream's T5X has it
not, so that these networks bring their own.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float, Int


def offer(module: nn.Module, rows: int, length: int) -> None:
    """Puts `cached_ancestors` into the collection `beam_cache`, where that is mutable."""
    # Not in `init`, whose inputs are placeholders.
    if module.is_mutable_collection("beam_cache") and not module.is_initializing():
        first = jnp.zeros((rows, length), jnp.int32)
        module.put_variable("beam_cache", "cached_ancestors", first)


def is_shared(module: nn.Module) -> bool:
    """Whether the cache of an attention module holds histories."""
    return module.has_variable("cache", "cached_beam_key")


def cache_length(cache: Mapping[str, Array]) -> int:
    """The number of positions for which the cache of an attention module has room."""
    # Its history, if there is one, has slots for all beams at each.
    name = "cached_key" if "cached_key" in cache else "cached_ancestors"
    return cache[name].shape[-1]


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
        The histories of keys and of values, the position of each input, and which slots
        belong to a beam.

    Raises:
        ValueError: there is not one position for each beam.
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
    """Rows past the end are finished, and store nothing."""
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
    """The ancestors after a step at `position`, and which slots belong to a beam."""
    beam, place = jnp.arange(ancestors.shape[1]), jnp.arange(ancestors.shape[2])
    last = position[:, None, None]
    ancestors = jnp.where(place == last, beam[:, None], ancestors)
    own = (ancestors[..., None] == beam) & (place <= last)[..., None]
    return ancestors, own
