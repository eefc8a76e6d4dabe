"""Continuous batching: a row that has ended is given to another input.

The rows of a batch end at different steps, and without refilling the longest row
decides how long the batch takes. Each row has a position, a limit, and a key
(`SamplingLoopState`), so its output is the same in any batch.
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
from t5x.search.sampling import Sampler, SamplingLoopState


class Begun(NamedTuple):
    """The state of a model before the first step.

    Attributes:
        cache: cache of the model, with a `cache_index` for each row.
        prompt: number of prompt tokens that the cache holds.
        memory: arrays [rows, ...] that the steps read in addition to the cache.
    """

    tokens: Int[Array, "rows length"]
    cache: Any
    prompt: Int[Array, " rows"]
    memory: Any


def with_index(cache: Any, index: Int[Array, " rows"]) -> Any:
    """Returns a cache in which each row has a separate position."""
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache))
    for path, leaf in flat.items():
        if path[-1] == "cache_index":  # [], or [layers] if they are scanned.
            flat[path] = jnp.broadcast_to(index, (*leaf.shape, *index.shape))
    return traverse_util.unflatten_dict(flat)


class Rows(flax.struct.PyTreeNode):
    """Rows that are decoded at the same time.

    Attributes:
        state: state of the sampling loop; the output of a row follows column 0 and the
            prompt.
        memory: arrays [rows, ...] that the steps read in addition to the cache.
    """

    state: SamplingLoopState
    memory: Any
    prompt: Int[Array, " rows"]


def started(
    state: SamplingLoopState, memory: Any, decodes: int, cache_offset: int
) -> Rows:
    """Returns the rows of a new state, with cache and memory repeated for each row.

    Args:
        memory: arrays [inputs, ...] that the steps read.
        cache_offset: number of leading axes of the cache before the row axis.
    """
    rows = state.cur_index.shape[0]

    def own(x: Array, axis: int) -> Array:
        # What the decodes of an input share has one row an input.
        return jnp.repeat(x, rows // x.shape[axis], axis=axis)

    cache = jax.tree.map(lambda x: own(x, cache_offset), state.cache)
    memory = jax.tree.map(lambda x: jnp.repeat(x, decodes, axis=0), memory)
    return Rows(state.replace(cache=cache), memory, state.cur_index)


def empty(like: Rows, rows: int, cache_offset: int) -> Rows:
    """Returns ended rows of zeros with the shapes and types of `like`."""

    def zeros(x: Array, axis: int) -> Array:
        return jnp.zeros((*x.shape[:axis], rows, *x.shape[axis + 1 :]), x.dtype)

    found = _by_row(zeros, cache_offset, like)
    ended = jnp.ones((rows, 1), jnp.bool_)
    return found.replace(
        state=found.state.replace(ended=ended, step=jnp.zeros((), jnp.int32))
    )


def put(rows: Rows, new: Rows, places: Int[Array, " n"], cache_offset: int) -> Rows:
    """Returns `rows` with some rows replaced by new ones.

    Args:
        places: index in `rows` of each new row; a row whose index is beyond the last
            row is dropped.
    """

    def replaced(old: Array, x: Array, axis: int) -> Array:
        before = (slice(None),) * axis
        return old.at[(*before, places)].set(x, mode="drop")

    return _by_row(replaced, cache_offset, rows, new)


def advance(rows: Rows, steps: Sampler, ended: Int[Array, ""]) -> Rows:
    """Decodes all rows until at least `ended` of them have ended."""

    def too_few(state: SamplingLoopState) -> Array:
        return jnp.sum(state.ended) < ended

    return rows.replace(state=lax.while_loop(too_few, steps.step, rows.state))


def _by_row(fn: Callable[..., Array], cache_offset: int, *trees: Rows) -> Rows:
    """Applies a function to all arrays of some rows."""
    # The number of steps belongs to no row.
    rest = [t.replace(state=t.state.replace(cache=None, step=None)) for t in trees]
    found = jax.tree.map(lambda *x: fn(*x, axis=0), *rest)
    caches = [t.state.cache for t in trees]
    cache = jax.tree.map(lambda *x: fn(*x, axis=cache_offset), *caches)
    return found.replace(
        state=found.state.replace(cache=cache, step=trees[0].state.step)
    )
