"""Multi-head attention with the caches of step-by-step decoding.

`rows` is batch * decodes; the decodes of one input are adjacent. Caches have the length
as their last axis, as in `t5x.examples.t5.layers`, so that every decode function can
expand and reorder them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped
from t5x.examples.t5 import beam_history, fused_attention
from t5x.on_cpu import features, reductions

from jaxaug.models.layers.dense import MASKED, Linear, softcap
from jaxaug.models.layers.positions import RotaryScaling, rotary

Mask = Shaped[Array, "#rows 1 #queries keys"]


def dot_product_attention(
    query: Float[Array, "batch queries heads dim"],
    key: Float[Array, "batch keys kv_heads dim"]
    | Float[Array, "batch kv_heads dim keys"],
    value: Float[Array, "batch keys kv_heads dim"]
    | Float[Array, "batch kv_heads dim keys"],
    mask: Mask | None = None,
    *,
    scale: float,
    bias: Float[Array, "#batch heads #queries keys"] | None = None,
    cache_layout: bool = False,
    cap: float | None = None,
    dropout_rng: Array | None = None,
    dropout_rate: float = 0.0,
) -> Float[Array, "batch queries heads dim"]:
    """Returns the attention of Vaswani et al. (2017), equation 1.

    Logits and softmax are float32.

    Args:
        query: queries. heads is a multiple of kv_heads; heads / kv_heads adjacent heads
            share a key (grouped queries, Ainslie et al. 2023).
        key: keys; see `cache_layout`.
        value: values; see `cache_layout`.
        mask: 0 hides a key.
        scale: factor of the logits.
        bias: added to the scaled logits, before the mask.
        cache_layout: whether keys and values have the length as their last axis.
        cap: cap of the logits, before the mask (see `dense.softcap`); None for none.
        dropout_rng: key for dropout of the weights; None for no dropout.
        dropout_rate: probability that a weight is dropped.
    """
    keys_and_values = "bhdk" if cache_layout else "bkhd"
    batch, queries, heads, dim = query.shape
    kv_heads = key.shape[1 if cache_layout else 2]
    grouped = query.reshape(batch, queries, kv_heads, heads // kv_heads, dim)
    if jax.default_backend() == "cpu":
        # This changes no value: products of two bfloat16 numbers are exact in float32.
        # XLA on CPUs with AMX compiles some bfloat16 products with float32 results, for
        # which it then has no kernel.
        grouped, key = grouped.astype(jnp.float32), key.astype(jnp.float32)
    logits = scale * jnp.einsum(
        f"bqhgd,{keys_and_values}->bhgqk",
        grouped,
        key,
        preferred_element_type=jnp.float32,
    )
    logits = softcap(logits, cap)
    if bias is not None:
        logits += bias.reshape(bias.shape[0], *logits.shape[1:3], *bias.shape[2:])
    if mask is not None:
        logits = jnp.where(mask[:, :, None] > 0, logits, MASKED)
    softmax = reductions.softmax if features.is_used() else jax.nn.softmax
    weights = softmax(logits).astype(value.dtype)
    if dropout_rng is not None:
        keep = jax.random.bernoulli(dropout_rng, 1.0 - dropout_rate, weights.shape)
        weights = jnp.where(keep, weights / (1.0 - dropout_rate), 0)
    attended = jnp.einsum(f"bhgqk,{keys_and_values}->bqhgd", weights, value)
    return attended.reshape(query.shape)


class Attention(nn.Module):
    """Projections, attention, and output projection.

    The caches follow `t5x.examples.t5.layers.MultiHeadDotProductAttention`. decode=True
    without a cache creates it, and `prefill_lengths` fills it. decode=True with a cache
    takes one position, or several if all rows are at the same one. The cache stores
    rotated keys, of `num_kv_heads` heads.

    Cross-attention writes keys and values to the collection `cross_cache`, if that is
    mutable, when the cache is created. If they are in `cache`, it reads them from
    there, with either one row per input or one row per decode. In the same way, the
    beams of an input may share one history (`beam_history`).

    Attributes:
        num_heads: number of query heads.
        head_dim: size of a head.
        num_kv_heads: number of key and value heads; None means `num_heads`.
        qkv_bias: whether the projections of queries, keys, and values have biases.
        out_bias: whether the output projection has a bias.
        rope_theta: base of rotary positions; None for none.
        rope_scaling: scaling of the rotary positions; None for none.
        qk_norm: makes a norm of the given name for the heads of queries and keys, which
            is applied before positions; None for none.
        window: number of keys that a query sees, up to and including its own; None for
            all. If a mask shows later keys (prefixes), the window also extends that far
            forward.
        scale: factor of the logits; None means 1 / sqrt(head_dim).
        cap: cap of the logits; see `dot_product_attention`.
        dropout_rate: rate on the attention weights.
        dtype: dtype of the computation.
        fused: whether attention without dropout avoids storing its weights if possible
            (see `fused_attention`).
    """

    num_heads: int
    head_dim: int
    num_kv_heads: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    rope_theta: float | None = None
    rope_scaling: RotaryScaling | None = None
    qk_norm: Callable[[str], nn.Module] | None = None
    window: int | None = None
    scale: float | None = None
    cap: float | None = None
    dropout_rate: float = 0.0
    dtype: Any = jnp.float32
    fused: bool = True

    @nn.compact
    def __call__(
        self,
        inputs_q: Float[Array, "rows queries emb"],
        inputs_kv: Float[Array, "rows keys emb"],
        mask: Mask | None = None,
        *,
        positions: Int[Array, "#rows queries"] | None = None,
        decode: bool = False,
        deterministic: bool = True,
        prefill_lengths: Int[Array, " rows"] | None = None,
        cross: bool = False,
    ) -> Float[Array, "rows queries emb"]:
        """Attends from `inputs_q` to `inputs_kv`.

        Args:
            inputs_q: query inputs; in a decoding step, the next position or positions
                of each row.
            inputs_kv: key and value inputs; the same as `inputs_q` in self-attention.
            mask: 0 hides a key; not needed in a step of self-attention.
            positions: positions of the queries; needed for rotary positions.
            decode: whether to create or use a cache.
            deterministic: whether to leave out dropout.
            prefill_lengths: number of positions of each row to put into an existing
                cache.
            cross: whether keys and values come from the encoder.
        """
        query = self._project("query", self.num_heads, inputs_q)
        if self.qk_norm is not None:
            query = self.qk_norm("query_norm")(query)
        cache_layout = False
        key: Array
        value: Array
        if cross and decode and self.has_variable("cache", "cached_cross_key"):
            key = self.get_variable("cache", "cached_cross_key")
            value = self.get_variable("cache", "cached_cross_value")
            cache_layout = True
        else:
            kv_heads = self.num_kv_heads or self.num_heads
            key = self._project("key", kv_heads, inputs_kv)
            value = self._project("value", kv_heads, inputs_kv)
            if self.qk_norm is not None:
                key = self.qk_norm("key_norm")(key)
            if cross and decode:
                self._keep_cross(key, value)
        if self.rope_theta is not None:
            assert positions is not None, "rotary embeddings need the positions"
            query = rotary(query, positions, self.rope_theta, self.rope_scaling)
            key = rotary(key, positions, self.rope_theta, self.rope_scaling)
        shared = beam_history.is_shared(self)
        in_step = shared or self.has_variable("cache", "cached_key")
        if self.window is not None and not (decode and in_step):
            mask = self._near(query.shape[1], key.shape[1], mask)
        if decode and not cross:
            seen: Array | None
            if shared:
                key, value, seen, mask = self._history_step(key, value, mask)
            else:
                key, value, seen = self._cache_step(query, key, value)
            if seen is not None:
                cache_layout, mask = True, seen if mask is None else mask * seen
        elif prefill_lengths is not None:
            self._prefill(key, value, prefill_lengths)

        attended = self._attend(query, key, value, mask, deterministic, cache_layout)
        return Linear(
            inputs_q.shape[-1],
            ("heads", "kv", "embed"),
            axis=(-2, -1),
            use_bias=self.out_bias,
            dtype=self.dtype,
            name="out",
        )(attended)

    def _attend(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Mask | None,
        deterministic: bool,
        cache_layout: bool,
    ) -> Float[Array, "rows queries heads dim"]:
        scale = self.scale or 1.0 / math.sqrt(self.head_dim)
        use_dropout = self.dropout_rate > 0.0 and not deterministic
        fused = self.fused and not use_dropout and not cache_layout and not self.cap
        if fused and fused_attention.possible(query, key):
            return fused_attention.attend(query, key, value, None, mask, scale=scale)
        # Rows that share keys and values, of an encoder output or of all beams, become
        # queries of one row. That row reads the keys and values once.
        rows, queries = query.shape[:2]
        if rows != key.shape[0]:
            query = query.reshape(key.shape[0], -1, *query.shape[2:])
            if mask is not None:
                mask = jnp.broadcast_to(mask, (rows, 1, queries, mask.shape[-1]))
                mask = mask.reshape(key.shape[0], 1, -1, mask.shape[-1])
        return dot_product_attention(
            query,
            key,
            value,
            mask,
            scale=scale,
            cache_layout=cache_layout,
            cap=self.cap,
            dropout_rng=self.make_rng("dropout") if use_dropout else None,
            dropout_rate=self.dropout_rate,
        ).reshape(rows, queries, self.num_heads, self.head_dim)

    def _near(self, queries: int, keys: int, mask: Mask | None) -> Mask:
        """Returns the mask without the keys outside the window."""
        # Index in the row: within a packed segment the distances are the same.
        assert self.window is not None
        apart = jnp.arange(queries)[:, None] - jnp.arange(keys)
        near = (jnp.abs(apart) < self.window)[None, None]
        return near if mask is None else jnp.where(near, mask, 0)

    def _project(
        self, name: str, heads: int, inputs: Float[Array, "rows length emb"]
    ) -> Float[Array, "rows length heads dim"]:
        projected = Linear(
            (heads, self.head_dim),
            ("embed", "heads", "kv"),
            use_bias=self.qkv_bias,
            dtype=self.dtype,
            name=name,
        )(inputs)
        return with_sharding_constraint(projected, ("batch", "length", "heads", "kv"))

    def _keep_cross(self, key: Array, value: Array) -> None:
        # `init` is excluded, because its inputs are placeholders.
        if self.is_mutable_collection("cross_cache") and not self.is_initializing():
            for name, projected in (("key", key), ("value", value)):
                leaf = jnp.moveaxis(projected, 1, -1)
                self.put_variable("cross_cache", f"cached_cross_{name}", leaf)

    def _cache_step(
        self, query: Array, key: Array, value: Array
    ) -> tuple[Array, Array, Bool[Array, "#rows 1 queries length"] | None]:
        """Creates the cache, or stores the next positions in it.

        Returns:
            Keys and values to attend to, and which of them are present. The last is
            None if the cache was created; otherwise keys and values have the cache
            layout.
        """
        exists = self.has_variable("cache", "cached_key")
        shape = (key.shape[0], *key.shape[2:], key.shape[1])
        keys = self.variable("cache", "cached_key", jnp.zeros, shape, key.dtype)
        values = self.variable("cache", "cached_value", jnp.zeros, shape, key.dtype)
        index = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        if not exists:
            beam_history.offer(self, *key.shape[:2])
            return key, value, None
        position, count = index.value, query.shape[1]
        # Rows at different positions take one step at a time.
        most = count if position.ndim == 0 else 1
        if query.shape[:2] != (keys.value.shape[0], most):
            raise ValueError(
                "a decoding step needs one position for each row of the cache: "
                f"queries [{keys.value.shape[0]}, 1, ...], but got {list(query.shape)}"
            )
        keys.value = _store(keys.value, key, position)
        values.value = _store(values.value, value, position)
        index.value = position + count
        last = position.reshape(-1, 1, 1, 1) + jnp.arange(count)[:, None]
        place = jnp.arange(keys.value.shape[-1])
        seen = place <= last
        if self.window is not None:
            seen &= place > last - self.window
        return keys.value, values.value, seen

    def _history_step(
        self, key: Array, value: Array, mask: Mask | None
    ) -> tuple[Array, Array, Bool[Array, "rows 1 1 slots"], Mask | None]:
        """Stores a position of all beams.

        Returns keys, values, the slots that each beam sees, and the mask.
        """
        key, value, position, own = beam_history.step(self, key, value)
        batch, beams, length, _ = own.shape
        if self.window is not None:
            first = position[:, None, None, None] - self.window
            own &= jnp.arange(length)[:, None] > first
        if mask is not None:
            mask = jnp.repeat(mask, beams, axis=-1)
        return key, value, own.reshape(batch * beams, 1, 1, -1), mask

    def _prefill(self, key: Array, value: Array, lengths: Int[Array, " rows"]) -> None:
        for name, projected in (("cached_key", key), ("cached_value", value)):
            leaf = jnp.moveaxis(projected, 1, -1)
            filled = jnp.arange(leaf.shape[-1]) < lengths.reshape(-1, 1, 1, 1)
            self.put_variable("cache", name, jnp.where(filled, leaf, 0))
        self.put_variable("cache", "cache_index", lengths.astype(jnp.int32))


def _store(
    cache: Float[Array, "rows heads dim length"],
    projected: Float[Array, "rows new heads dim"],
    position: Int[Array, "*rows"],
) -> Float[Array, "rows heads dim length"]:
    if position.ndim == 0:
        columns = jnp.moveaxis(projected, 1, -1)
        return lax.dynamic_update_slice_in_dim(cache, columns, position, axis=-1)
    # Rows that run past the end of the cache are finished and store nothing. A loop
    # that carries the cache updates it in place.
    own = cache.at[jnp.arange(len(cache)), :, :, position]
    return own.set(projected[:, 0], mode="drop")


def cache_length(cache: Mapping[str, Array]) -> int:
    """Returns the number of positions that the cache of an attention module holds."""
    # Each position of a shared history has a slot for every beam.
    name = "cached_key" if "cached_key" in cache else "cached_ancestors"
    return cache[name].shape[-1]
