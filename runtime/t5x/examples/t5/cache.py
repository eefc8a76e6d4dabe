"""Caches of attention modules: keys and values of the tokens decoded before.

Cached keys and values are [rows, heads, head_dim, length]. `rows` is batch * decodes,
with the decodes of one input next to each other.

Beams may look up their past in a history shared per input. A beam inherits the past of
the beam that it continues. Keys and values are not moved in every step but stay where
they were written. The history of an input is
[heads, dim, slots]; slot p * beams + b holds what beam b wrote at position p. The small
leaf `cached_ancestors` [rows, length] is reordered with the beams; it holds the beam
that wrote each position of a beam's past. All beams of an input attend to all of its
slots at once, and a mask hides the slots of other beams.

A network offers this when it creates its cache. A decode function that accepts replaces
`cached_key` and `cached_value` with the histories
(`t5x.search.decode_state.share_history`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float, Int


class Stored(NamedTuple):
    """Keys and values to attend to in a step.

    Attributes:
        key: [rows or batch, heads, dim, slots]; [rows, length, heads, dim] if the cache
            was created.
        seen: slots that a query sees; None if the cache was created.
        beams: slots of each position, next to each other.
    """

    key: Array
    value: Array
    positions: Int[Array, "#rows queries"]
    seen: Bool[Array, "#rows 1 queries slots"] | None
    beams: int = 1


def step(
    module: nn.Module,
    key: Float[Array, "rows queries heads dim"],
    value: Float[Array, "rows queries heads dim"],
    window: int | None = None,
    several: bool = False,
) -> Stored:
    """Creates the cache of an attention module, or stores the next positions in it.

    Args:
        module: has `cached_key`, `cached_value`, and `cache_index` in its cache, or
            the leaves of `share_history`.
        window: number of positions that a query sees, its own included; None for all.
        several: whether rows at the same position may take several at once.

    Raises:
        ValueError: the input does not have one position for each row.
    """
    if is_shared(module):
        key, value, position, own = history_step(module, key, value)
        batch, beams, length, _ = own.shape
        if window is not None:
            first = position[:, None, None, None] - window
            own &= jnp.arange(length)[:, None] > first
        seen = own.reshape(batch * beams, 1, 1, -1)
        return Stored(key, value, position[:, None], seen, beams)
    rows, count = key.shape[:2]
    exists = module.has_variable("cache", "cached_key")
    shape = (rows, *key.shape[2:], count)
    keys = module.variable("cache", "cached_key", jnp.zeros, shape, key.dtype)
    values = module.variable("cache", "cached_value", jnp.zeros, shape, key.dtype)
    index = module.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
    if not exists:
        offer(module, rows, count)
        return Stored(key, value, jnp.arange(count)[None], None)
    position = index.value
    most = count if several and position.ndim == 0 else 1
    if (rows, count) != (len(keys.value), most):
        raise ValueError(
            "a decoding step needs one position for each row of the cache: queries "
            f"[{len(keys.value)}, 1, ...], but got {list(key.shape[:2])}"
        )
    keys.value = _store(keys.value, key, position)
    values.value = _store(values.value, value, position)
    index.value = position + count
    positions = position.reshape(-1, 1) + jnp.arange(count)
    last, place = positions[:, None, :, None], jnp.arange(keys.value.shape[-1])
    seen = place <= last
    if window is not None:
        seen &= place > last - window
    return Stored(keys.value, values.value, positions, seen)


def _store(
    cache: Float[Array, "rows heads dim length"],
    projected: Float[Array, "rows new heads dim"],
    position: Int[Array, "*rows"],
) -> Float[Array, "rows heads dim length"]:
    if position.ndim == 0:
        columns = jnp.moveaxis(projected, 1, -1)
        return lax.dynamic_update_slice_in_dim(cache, columns, position, axis=-1)
    # Rows past the end of the cache are finished and store nothing. A loop that carries
    # the cache writes in place.
    own = cache.at[jnp.arange(len(cache)), :, :, position]
    return own.set(projected[:, 0], mode="drop")


def prefill(
    module: nn.Module, key: Array, value: Array, lengths: Int[Array, " rows"]
) -> None:
    """Stores the first positions of every row in the cache."""
    for name, projected in (("cached_key", key), ("cached_value", value)):
        leaf = jnp.moveaxis(projected, 1, -1)
        filled = jnp.arange(leaf.shape[-1]) < lengths.reshape(-1, 1, 1, 1)
        module.put_variable("cache", name, jnp.where(filled, leaf, 0))
    module.put_variable("cache", "cache_index", lengths.astype(jnp.int32))


def keep_cross(module: nn.Module, key: Array, value: Array) -> None:
    """Stores keys and values of an encoder in `cross_cache`, if that is mutable."""
    # In `init` the inputs are placeholders.
    if module.is_mutable_collection("cross_cache") and not module.is_initializing():
        for name, projected in (("key", key), ("value", value)):
            leaf = jnp.moveaxis(projected, 1, -1)
            module.put_variable("cross_cache", f"cached_cross_{name}", leaf)


def length(cache: Mapping[str, Array]) -> int:
    """Returns the number of positions that the cache of an attention module holds."""
    # Each position of a shared history has a slot for every beam.
    name = "cached_key" if "cached_key" in cache else "cached_ancestors"
    return cache[name].shape[-1]


def offer(module: nn.Module, rows: int, length: int) -> None:
    """Stores `cached_ancestors` in the collection `beam_cache`, if that is mutable."""
    # In `init` the inputs are placeholders.
    if module.is_mutable_collection("beam_cache") and not module.is_initializing():
        first = jnp.zeros((rows, length), jnp.int32)
        module.put_variable("beam_cache", "cached_ancestors", first)


def is_shared(module: nn.Module) -> bool:
    """Returns whether the cache of an attention module holds histories."""
    return module.has_variable("cache", "cached_beam_key")


def history_step(
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
        histories.append(_store_beams(history, new, position))
        module.put_variable("cache", f"cached_beam_{name}", histories[-1])
    position = position.reshape(-1)
    ancestors, own = look_up(ancestors.reshape(batch, beams, length), position)
    module.put_variable("cache", "cached_ancestors", ancestors.reshape(rows, length))
    return histories[0], histories[1], position, own


def _store_beams(
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
