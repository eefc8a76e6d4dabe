"""State of decoding loops, and operations on their caches.

Shapes use `batch` for rows of the input, `beams` for decodes of one row, and `rows` for
batch * beams, with the decodes of one row next to each other.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import flax.core
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x.errors import UserError
from t5x.state_utils import as_container

PyTree = Any
Cache = dict[str, Any] | flax.core.FrozenDict[str, Any]

NEG_INF_VALUE = -1.0e7
# The value is finite, so that masked scores can be added and compared without NaN.
NEG_INF = np.array(NEG_INF_VALUE)

# The position counter: a scalar shared by all rows, unless the prompt was prefilled.
_INDEX_LEAF = "cache_index"
# Leaves without a batch axis.
_UNBATCHED_LEAVES = frozenset({"cached_bias", "position_embedder_index"})
# Leaves that all decodes of an input share: the projected encoder output, and the
# history of `share_history`. They have one row per input and are never repeated or
# moved.
SHARED_LEAVES = frozenset(
    {"cached_cross_key", "cached_cross_value", "cached_beam_key", "cached_beam_value"}
)
# The lookup scans the slots of all beams for each beam, so its cost is quadratic. On a
# CPU, 64 beams take as long as moving all keys and values.
_MOST_SHARING = 32


BROKEN = -1
"""Token id of a token that could not be chosen; it is in no vocabulary.

Its score is NaN.
"""


class DecodingState(flax.struct.PyTreeNode):
    """Input of `tokens_to_logits` in a decoding loop.

    Attributes:
        cur_index: position of `cur_token`; a scalar in beam search, [rows] in sampling.
        sequences: tokens so far ([rows, length + 1] in beam search).
        cache: nested mapping of arrays that lead with `rows`.
    """

    cur_index: Int[Array, "*rows"]
    sequences: Int[Array, "rows length"]
    cur_token: Int[Array, "rows 1"]
    cache: Cache


TokensToLogits = Callable[[DecodingState], tuple[Float[Array, "rows vocab"], Cache]]
DecodeFn = TypeVar("DecodeFn", bound=Callable[..., Any])


def rows_alone(decode_fn: DecodeFn) -> DecodeFn:
    """Marks a decode function in which the result of a row depends on that row only.

    Programs may then batch examples freely. Functions that draw random numbers for a
    whole batch do not qualify.
    """
    decode_fn.rows_alone = True  # type: ignore[attr-defined]
    return decode_fn


WOULD_ROWS_BE_ALONE = object()
"""Passed as `tokens_to_logits` to ask a question; see `rows_alone_if_asked`."""


def rows_alone_if_asked(decode_fn: DecodeFn) -> DecodeFn:
    """Marks a decode function in which row independence depends on its arguments.

    If the function gets `WOULD_ROWS_BE_ALONE` as `tokens_to_logits`, it returns the
    answer instead of decoding.
    """
    decode_fn.rows_alone = _ask  # type: ignore[attr-defined]
    return decode_fn


def are_rows_alone(decode_fn: Callable[..., Any] | None) -> bool:
    """Returns whether a row's result depends on that row only; False if unmarked."""
    inner = decode_fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    mark = getattr(inner, "rows_alone", False)
    return mark(decode_fn) if callable(mark) else mark


def _ask(decode_fn: Callable[..., bool]) -> bool:
    # Only a call sees the arguments that gin, its scopes, and partial functions add.
    return decode_fn(
        inputs=None, cache=None, tokens_to_logits=WOULD_ROWS_BE_ALONE, eos_id=None
    )


def merged_cache(cache: Cache, other: Cache) -> Cache:
    """Merges two caches; on conflict, the leaf of `other` wins."""
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache), keep_empty_nodes=True)
    flat.update(traverse_util.flatten_dict(flax.core.unfreeze(other)))
    return traverse_util.unflatten_dict(flat)


def _map_leaves(fn: Callable, cache: Cache, skip: frozenset[str]) -> Cache:
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache), keep_empty_nodes=True)
    mapped = {
        path: (
            leaf
            if path[-1] in skip or leaf is traverse_util.empty_node
            else jax.tree.map(fn, leaf)
        )
        for path, leaf in flat.items()
    }
    return as_container(traverse_util.unflatten_dict(mapped), cache)


def cache_map(fn: Callable, cache: Cache, apply_to_index: bool = False) -> Cache:
    """Applies `fn` to every leaf of the cache that has a row for each decode.

    Three kinds of leaves are left unchanged: `cached_bias` and
    `position_embedder_index`; `SHARED_LEAVES`, which have one row per input; and
    `cache_index`, unless `apply_to_index` (a prefilled cache has one index per row).
    """
    skip = _UNBATCHED_LEAVES | SHARED_LEAVES
    if not apply_to_index:
        skip |= {_INDEX_LEAF}
    return _map_leaves(fn, cache, skip)


def add_beam_dim(x: Array, beam_size: int, offset: int = 0) -> Array:
    """Repeats [*lead (offset axes), batch, ...] to [*lead, batch, beams, ...]."""
    return jnp.repeat(jnp.expand_dims(x, offset + 1), beam_size, axis=offset + 1)


def flatten_beam_dim(x: Array, offset: int = 0) -> Array:
    """Reshapes [*lead, batch, beams, ...] to [*lead, batch * beams, ...]."""
    shape = x.shape
    rows = shape[offset] * shape[offset + 1]
    return x.reshape(*shape[:offset], rows, *shape[offset + 2 :])


def unflatten_beam_dim(
    x: Array, batch_size: int, beam_size: int, offset: int = 0
) -> Array:
    """Reshapes [*lead, batch * beams, ...] to [*lead, batch, beams, ...]."""
    if x.shape[offset] != batch_size * beam_size:
        raise ValueError(
            f"axis {offset} of shape {x.shape} must be batch_size * beam_size = "
            f"{batch_size} * {beam_size}"
        )
    return x.reshape(*x.shape[:offset], batch_size, beam_size, *x.shape[offset + 1 :])


def flat_batch_beam_expand(x: Array, beam_size: int, offset: int = 0) -> Array:
    """Repeats rows to [*lead, batch * beams, ...]; copies are adjacent."""
    return jnp.repeat(x, beam_size, axis=offset)


def _pick_beams(x: Array, indices: Int[Array, "batch new"], offset: int = 0) -> Array:
    # The batch axis stays a batching dimension of the gather, which partitions over
    # devices without communication (indices into flattened rows would not).
    shape = (1,) * offset + indices.shape + (1,) * (x.ndim - offset - 2)
    return jnp.take_along_axis(x, indices.reshape(shape), axis=offset + 1, mode="clip")


def gather_beams(
    nested: PyTree,
    beam_indices: Int[Array, "batch new"],
    batch_size: int,
    old_beam_size: int,
    new_beam_size: int,
    one_hot: bool = True,
) -> PyTree:
    """Picks beams: leaves [batch, old, ...] -> [batch, new, ...].

    The sizes and `one_hot` are part of the T5X interface and unused: a one-hot product
    costs old * new times the work and spreads NaN between beams.
    """
    del batch_size, old_beam_size, new_beam_size, one_hot
    return jax.tree.map(lambda x: _pick_beams(x, beam_indices), nested)


def cache_gather_beams(
    nested: Cache,
    beam_indices: Int[Array, "batch new"],
    batch_size: int,
    old_beam_size: int,
    new_beam_size: int,
    one_hot: bool = True,
    offset: int = 0,
) -> Cache:
    """Picks beams of a cache; leaves without a row per beam are not moved."""
    del batch_size, old_beam_size, new_beam_size, one_hot
    skip = _UNBATCHED_LEAVES | {_INDEX_LEAF} | SHARED_LEAVES
    return _map_leaves(lambda x: _pick_beams(x, beam_indices, offset), nested, skip)


def share_history(cache: Cache, beams: int) -> Cache:
    """Returns a cache in which beams look up their history instead of moving it.

    Moving the keys and values of all beams costs a third of the network's time in every
    step. A network that supports the lookup has a leaf `cached_ancestors` [*lead,
    batch, length]. Keys and values then stay where they were written: `cached_key`
    [*lead, batch, heads, dim, length] becomes `cached_beam_key` [*lead, batch, heads,
    dim, length * beams], with the beams of a position next to each other.
    `cached_value` changes likewise. Reordering beams only changes `cached_ancestors`,
    which has a row per beam and holds the beam that wrote each position.
    """
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache), keep_empty_nodes=True)
    if not 1 < beams <= _MOST_SHARING:
        return cache
    for *layer, _ in [path for path in flat if path[-1] == "cached_ancestors"]:
        for name in ("key", "value"):
            own = flat.pop((*layer, f"cached_{name}"))
            # All beams take the prompt from the first one.
            slots = jnp.stack([own, *[jnp.zeros_like(own)] * (beams - 1)], axis=-1)
            flat[(*layer, f"cached_beam_{name}")] = slots.reshape(*own.shape[:-1], -1)
    return as_container(traverse_util.unflatten_dict(flat), cache)


def gather_topk_beams(
    nested: PyTree,
    score_or_log_prob: Float[Array, "batch old"],
    batch_size: int,
    new_beam_size: int,
) -> PyTree:
    """Picks the `new_beam_size` best beams of each row, sorted ascending."""
    _, best = lax.top_k(score_or_log_prob, new_beam_size)
    old_beam_size = score_or_log_prob.shape[1]
    return gather_beams(
        nested, jnp.flip(best, axis=1), batch_size, old_beam_size, new_beam_size
    )


def top_k_two_stage(
    x: Float[Array, "batch n"], k: int
) -> tuple[Float[Array, "batch k"], Int[Array, "batch k"]]:
    """Computes `lax.top_k`; on TPU in two stages for small batches and long rows.

    On TPU, a wide vocabulary at batch 1 to 8 leaves most vector lanes idle; splitting
    the row into 128 pieces fills them. (On a CPU this takes twice as long.) Values and
    ties are the same as in `lax.top_k`.
    """
    pieces = 128
    batch, size = x.shape
    worthwhile = batch <= 8 and size > 8 * pieces * k
    if jax.default_backend() != "tpu" or not worthwhile:
        return lax.top_k(x, k)
    width = -(-size // pieces)
    padding = pieces * width - size
    x = jnp.pad(x, ((0, 0), (0, padding)), constant_values=-jnp.inf)
    values, inner = lax.top_k(x.reshape(batch, pieces, width), k)
    positions = inner + width * jnp.arange(pieces, dtype=inner.dtype)[:, None]
    values, outer = lax.top_k(values.reshape(batch, pieces * k), k)
    return values, jnp.take_along_axis(positions.reshape(batch, -1), outer, axis=1)


def usable(logits: Float[Array, "*rows vocab"]) -> Bool[Array, "*rows"]:
    """Returns whether a token can be chosen: no NaN or +inf, and not all -inf."""
    return jnp.isfinite(jnp.max(logits, axis=-1))


def check_decodes(
    decodes: Int[Array, "batch *decodes length"]
    | Int[np.ndarray, "batch *decodes length"],
) -> None:
    """Raises an error if the result of a decode function contains `BROKEN`.

    Inside a compiled program there are no values yet, and it does nothing. The holder
    of the result calls it again.

    Raises:
        UserError: the logits of a step were NaN or infinite.
    """
    if isinstance(decodes, jax.core.Tracer):
        return
    places = np.argwhere(np.asarray(decodes) == BROKEN)
    if len(places):
        row, *_, step = min(places.tolist(), key=lambda place: place[-1])
        raise _broken(step, f" of row {row}")


def check_tokens(tokens: Sequence[int]) -> None:
    """Checks that one output has no `BROKEN` token; raises as `check_decodes`."""
    if BROKEN in tokens:
        raise _broken(tokens.index(BROKEN), "")


def _broken(step: int, where: str) -> UserError:
    return UserError(
        f"decoding step {step} (counted from 0){where}: the logits of the model are "
        "NaN or infinite, no token can be chosen. Its weights are damaged or its "
        "activations overflow: check the weights, or use float32."
    )


def start_index(
    inputs: Int[Array, "batch length"], initial_index: Int[Array, " batch"] | None
) -> Int[Array, " batch"]:
    """Returns the number of prompt tokens that the cache holds for each row."""
    if initial_index is None:
        return jnp.zeros((inputs.shape[0],), jnp.int32)
    return jnp.asarray(initial_index, jnp.int32)


def prompt_lengths(
    inputs: Int[Array, "batch length"], start: Int[Array, " batch"]
) -> Int[Array, " batch"]:
    """Returns the number of tokens of each row before the first free position."""
    given = jnp.cumprod(inputs[:, 1:] != 0, axis=1).astype(jnp.int32)
    return jnp.maximum(jnp.sum(given, axis=1), start)
