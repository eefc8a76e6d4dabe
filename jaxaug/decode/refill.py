"""Continuous batching: rows that have ended make room for other inputs.

The rows of a batch end at different steps, and the longest row decides how long the
batch takes. Here a row that has ended is given to another input. Each row has a
position, a limit, and a key (`sample.SampleState`), so its output is the same in any
batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.core
import flax.struct
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import lax
from jaxtyping import Array, Int

from jaxaug.decode.sample import SampleState, Steps


class Begun(NamedTuple):
    """The state of a model before the first step.

    Attributes:
        tokens: as `inputs` of `sample.sample`.
        cache: with a `cache_index` of each row.
        prompt: tokens of the prompt, which the cache holds.
        memory: arrays [rows, ...] that the steps read in addition to the cache.
    """

    tokens: Int[Array, "rows length"]
    cache: Any
    prompt: Int[Array, " rows"]
    memory: Any


def with_index(cache: Any, index: Int[Array, " rows"]) -> Any:
    """A cache whose rows are at positions of their own."""
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache))
    for path, leaf in flat.items():
        if path[-1] == "cache_index":  # [], or [layers] if they are scanned.
            flat[path] = jnp.broadcast_to(index, (*leaf.shape, *index.shape))
    return traverse_util.unflatten_dict(flat)


class Rows(flax.struct.PyTreeNode):
    """Rows that are decoded side by side.

    Attributes:
        state: of the sampling loop; what a row yields follows column 0 and its prompt.
        memory: arrays [rows, ...] that the steps read in addition to the cache.
        prompt: [rows] tokens of the prompt.
    """

    state: SampleState
    memory: Any
    prompt: Int[Array, " rows"]


def started(state: SampleState, memory: Any, decodes: int, cache_offset: int) -> Rows:
    """The rows of a state that has just begun, each with all that belongs to it.

    Args:
        state: of `sample.begin`.
        memory: arrays [inputs, ...].
        decodes: rows of an input.
        cache_offset: leading axes of the cache before the row axis.
    """
    rows = state.index.shape[0]

    def own(x: Array, axis: int) -> Array:
        # What the decodes of an input share has one row an input.
        return jnp.repeat(x, rows // x.shape[axis], axis=axis)

    cache = jax.tree.map(lambda x: own(x, cache_offset), state.cache)
    memory = jax.tree.map(lambda x: jnp.repeat(x, decodes, axis=0), memory)
    return Rows(state.replace(cache=cache), memory, state.index)


def empty(like: Rows, rows: int, cache_offset: int) -> Rows:
    """Returns ended rows with the shapes of others."""

    def zeros(x: Array, axis: int) -> Array:
        return jnp.zeros((*x.shape[:axis], rows, *x.shape[axis + 1 :]), x.dtype)

    found = _by_row(zeros, cache_offset, like)
    ended = jnp.ones((rows,), jnp.bool_)
    return found.replace(state=found.state.replace(ended=ended))


def put(rows: Rows, new: Rows, places: Int[Array, " n"], cache_offset: int) -> Rows:
    """Gives rows to others.

    Args:
        rows: what there is.
        new: n rows.
        places: of each; one beyond the last row leaves it out.
        cache_offset: see `started`.
    """

    def replaced(old: Array, x: Array, axis: int) -> Array:
        before = (slice(None),) * axis
        return old.at[(*before, places)].set(x, mode="drop")

    return _by_row(replaced, cache_offset, rows, new)


def take(rows: Rows, places: Int[Array, " n"], cache_offset: int) -> Rows:
    """Some of the rows."""

    def taken(x: Array, axis: int) -> Array:
        return jnp.take(x, places, axis=axis)

    return _by_row(taken, cache_offset, rows)


def advance(rows: Rows, steps: Steps, ended: Int[Array, ""]) -> Rows:
    """Decodes until at least `ended` rows have ended."""

    def too_few(state: SampleState) -> Array:
        return jnp.sum(state.ended) < ended

    return rows.replace(state=lax.while_loop(too_few, steps.step, rows.state))


def _by_row(fn: Callable[..., Array], cache_offset: int, *trees: Rows) -> Rows:
    """A function of arrays and their row axis, over all arrays."""
    rest = [t.replace(state=t.state.replace(cache=None)) for t in trees]
    found = jax.tree.map(lambda *x: fn(*x, axis=0), *rest)
    caches = [t.state.cache for t in trees]
    cache = jax.tree.map(lambda *x: fn(*x, axis=cache_offset), *caches)
    return found.replace(state=found.state.replace(cache=cache))
