"""Multi-head attention of T5, with caches for step-by-step decoding.

Cached keys and values are [rows, heads, head_dim, length]. `rows` is batch * decodes,
with the decodes of one input next to each other.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jax import lax, random
from jaxtyping import Array, Bool, Float, Int

from t5x.examples.t5 import beam_history, fused_attention
from t5x.examples.t5.dense import DenseGeneral, Initializer, attention_kernel_init
from t5x.examples.t5.masks import combine_biases, combine_masks
from t5x.examples.t5.position_bias import ByDistance
from t5x.on_cpu import reductions

MASKED = -1e10

# In a decoding step, biases are computed from query positions and number of keys.
BiasAt = Callable[[Int[Array, "rows queries"], int], Float[Array, "rows heads _ keys"]]

_HEAD_AXES = ("batch", "length", "heads", "kv")


def dot_product_attention(
    query: Float[Array, "batch queries heads dim"],
    key: Float[Array, "batch keys heads dim"] | Float[Array, "batch heads dim keys"],
    value: Float[Array, "batch keys heads dim"] | Float[Array, "batch heads dim keys"],
    bias: Float[Array, "#batch #heads queries keys"] | None = None,
    dropout_rng: Array | None = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = jnp.float32,
    float32_logits: bool = False,
    *,
    cache_layout: bool = False,
) -> Float[Array, "batch queries heads dim"]:
    """Computes attention (Vaswani et al. 2017, equation 1) without scaling the logits.

    Args:
        query: already scaled by 1/sqrt(dim) through the initialization of its
            projection.
        key: see cache_layout.
        value: see cache_layout.
        bias: added to the logits; masks are given as biases.
        dropout_rng: key for dropout of the weights, the same for all queries of a head;
            None for no dropout.
        dropout_rate: probability of a zero.
        deterministic: whether to disable dropout even if there is a key for it.
        dtype: dtype of the weights.
        float32_logits: whether the logits are float32 in every dtype.
        cache_layout: whether keys and values have the length as their last axis.
    """
    keys_and_values = "bhdk" if cache_layout else "bkhd"
    if float32_logits:
        query = query.astype(jnp.float32)
        key = key.astype(jnp.float32)
    logits = jnp.einsum(f"bqhd,{keys_and_values}->bhqk", query, key)
    if bias is not None:
        logits = logits + bias.astype(logits.dtype)
    weights = reductions.softmax(logits).astype(dtype)
    if dropout_rng is not None and dropout_rate > 0.0 and not deterministic:
        shape = (*weights.shape[:-2], weights.shape[-1])
        kept = _kept(dropout_rng, dropout_rate, shape, dtype)
        weights = weights * kept[..., None, :]
    return jnp.einsum(f"bhqk,{keys_and_values}->bqhd", weights, value)


def _kept(
    rng: Array, rate: float, shape: tuple[int, ...], dtype: Any
) -> Float[Array, "batch heads keys"]:
    """Returns the dropout factors of the keys' weights, the same for all queries."""
    keep = random.bernoulli(rng, 1.0 - rate, shape)
    return keep.astype(dtype) / jnp.asarray(1.0 - rate, dtype)


def _per_row(index: Int[Array, "*rows"]) -> Int[Array, "rows_or_1 1 1 1"]:
    return index.reshape(-1, 1, 1, 1)


class MultiHeadDotProductAttention(nn.Module):
    """Multi-head attention with input and output projections.

    Self-attention decodes in three phases, distinguished by the collection `cache`:

    - `decode=True` without a cache creates `cached_key` and `cached_value` (zeros) and
      `cache_index` (a scalar 0), with the length of the inputs.
    - `prefill_lengths` fills the cache with that many positions of each row;
      `cache_index` becomes a vector.
    - `decode=True` with a cache takes one position, stores it, and sees all stored
      ones.

    The keys and values of cross-attention do not change during decoding. If the
    collection `cross_cache` is mutable in the first phase, they are stored there as
    `cached_cross_key` and `cached_cross_value`. A caller who merges them into the
    `cache` saves their projection in every step. These leaves may have fewer rows than
    the queries (one per input instead of one per decode).

    If the collection `beam_cache` is mutable in the first phase, `cached_ancestors` is
    stored there. Merged into the `cache`, it lets a beam search look up the past of a
    beam where it was written (`t5x.search.decode_state.share_history`, `beam_history`).

    Attributes:
        num_heads: number of heads.
        head_dim: size of a head.
        dtype: dtype of the computation.
        dropout_rate: dropout of the attention weights.
        kernel_init: initializer of all kernels.
        float32_logits: see `dot_product_attention`.
        joined_kernels: whether kernels are stored with heads and head_dim as one axis.
        fused: whether to compute attention without storing its weights if possible (see
            `fused_attention`).
    """

    num_heads: int
    head_dim: int
    dtype: Any = jnp.float32
    dropout_rate: float = 0.0
    kernel_init: Initializer = attention_kernel_init
    float32_logits: bool = False
    joined_kernels: bool = True
    fused: bool = True

    dense_cls: ClassVar[type[DenseGeneral]] = DenseGeneral

    @nn.compact
    def __call__(
        self,
        inputs_q: Float[Array, "rows queries emb"],
        inputs_kv: Float[Array, "rows keys emb"],
        mask: Float[Array, "rows 1 queries keys"] | None = None,
        bias: Float[Array, "1 heads queries keys"] | ByDistance | BiasAt | None = None,
        *,
        decode: bool = False,
        deterministic: bool = False,
        prefill: bool | None = None,
        prefill_lengths: Int[Array, " rows"] | None = None,
        cross: bool = False,
    ) -> Float[Array, "rows queries emb"]:
        """Attends from `inputs_q` to `inputs_kv`.

        Args:
            inputs_q: queries; one position per row in a decoding step.
            inputs_kv: keys and values; equal to `inputs_q` in self-attention.
            mask: 0 hides a key.
            bias: added to the logits. With `decode`, the biases of all positions, or a
                function of the query positions.
            decode: whether to create or use a cache.
            deterministic: whether to disable dropout.
            prefill: whether to fill the cache; None means if `prefill_lengths` is
                given.
            prefill_lengths: number of positions to put into the cache. With `prefill`
                and without lengths, the positions that the first query sees are
                counted.
            cross: whether keys and values come from the encoder.

        Raises:
            ValueError: `prefill` is combined with `decode`, or has neither lengths nor
                mask.
        """
        if prefill and decode:
            raise ValueError(
                "prefill and decode cannot both be true: fill the cache in a call of "
                "its own, then take the steps with decode=True"
            )
        if prefill and prefill_lengths is None:
            if mask is None:
                raise ValueError(
                    "prefill=True needs prefill_lengths, or a mask to count them from"
                )
            prefill_lengths = jnp.sum(mask[:, 0, 0, :], axis=-1, dtype=jnp.int32)
        heads = ("joined_kv",) if self.joined_kernels else ("heads", "kv")
        project = functools.partial(
            self.dense_cls,
            features=(self.num_heads, self.head_dim),
            kernel_axes=("embed", *heads),
            dtype=self.dtype,
        )
        # T5 has 1/sqrt(head_dim) in the initial query kernel instead of the logits. The
        # root is rounded to the computation dtype, as in the published models.
        root = jnp.sqrt(self.head_dim).astype(self.dtype)

        def query_init(*args):
            return self.kernel_init(*args) / root

        query = project(kernel_init=query_init, name="query")(inputs_q)
        query = with_sharding_constraint(query, _HEAD_AXES)

        key: Array
        value: Array
        cache_layout = False
        if cross and decode and self.has_variable("cache", "cached_cross_key"):
            key = self.get_variable("cache", "cached_cross_key")
            value = self.get_variable("cache", "cached_cross_value")
            cache_layout = True
        else:
            key = project(kernel_init=self.kernel_init, name="key")(inputs_kv)
            value = project(kernel_init=self.kernel_init, name="value")(inputs_kv)
            key = with_sharding_constraint(key, _HEAD_AXES)
            value = with_sharding_constraint(value, _HEAD_AXES)
            if cross and decode:
                self._keep_cross(key, value)

        if decode and not cross:
            if isinstance(bias, ByDistance):
                bias = bias.of_pairs()
            key, value, bias, mask, cache_layout = self._step(
                query, key, value, bias, mask
            )
        elif prefill_lengths is not None and prefill is not False:
            self._prefill(key, value, prefill_lengths)

        assert not callable(bias), "only decoding has positions to ask for biases"
        attended = self._attend(
            query, key, value, mask, bias, deterministic, cache_layout
        )
        return self.dense_cls(
            inputs_q.shape[-1],
            axis=(-2, -1),
            kernel_init=self.kernel_init,
            kernel_axes=(*heads, "embed"),
            dtype=self.dtype,
            name="out",
        )(attended)

    def _attend(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Float[Array, "rows 1 queries keys"] | None,
        bias: Float[Array, "#rows heads queries keys"] | ByDistance | None,
        deterministic: bool,
        cache_layout: bool,
    ) -> Float[Array, "rows queries heads dim"]:
        use_dropout = not deterministic and self.dropout_rate > 0.0
        if (
            self.fused
            and not cache_layout
            and fused_attention.possible(query, key, bias)
        ):
            if use_dropout:
                # All queries of a head drop the same keys, so the values can be masked
                # instead.
                of_keys = (key.shape[0], self.num_heads, key.shape[1])
                rng = self.make_rng("dropout")
                kept = _kept(rng, self.dropout_rate, of_keys, value.dtype)
                value = value * kept.swapaxes(1, 2)[..., None]
            return fused_attention.attend(query, key, value, bias, mask, scale=1.0)
        if isinstance(bias, ByDistance):
            bias = bias.of_pairs()
        # Rows that share keys and values (of an encoder output or of all beams) become
        # queries of one row, which reads them once.
        shape = query.shape
        if shape[0] != key.shape[0]:
            query = query.reshape(key.shape[0], -1, *shape[2:])
            if mask is not None:
                mask = mask.reshape(key.shape[0], 1, query.shape[1], -1)
        attention_bias = None
        if mask is not None:
            attention_bias = jnp.where(mask > 0, 0.0, MASKED).astype(self.dtype)
        attention_bias = combine_biases(attention_bias, bias)

        return dot_product_attention(
            query,
            key,
            value,
            bias=attention_bias,
            dropout_rng=self.make_rng("dropout") if use_dropout else None,
            dropout_rate=self.dropout_rate,
            dtype=self.dtype,
            float32_logits=self.float32_logits,
            cache_layout=cache_layout,
        ).reshape(shape)

    def _keep_cross(self, key: Array, value: Array) -> None:
        # In `init` the inputs are placeholders.
        if self.is_mutable_collection("cross_cache") and not self.is_initializing():
            key, value = jnp.moveaxis(key, 1, -1), jnp.moveaxis(value, 1, -1)
            self.put_variable("cross_cache", "cached_cross_key", key)
            self.put_variable("cross_cache", "cached_cross_value", value)

    def _step(
        self,
        query: Array,
        key: Array,
        value: Array,
        bias: Float[Array, "1 heads queries keys"] | BiasAt | None,
        mask: Float[Array, "rows 1 1 keys"] | None,
    ) -> tuple[Array, Array, Array | None, Array | None, bool]:
        """Returns the arguments of `_attend` when a cache is created or used."""
        beams = 1
        seen: Array | None
        if beam_history.is_shared(self):
            key, value, position, own = beam_history.step(self, key, value)
            beams = own.shape[1]
            positions: Array = position[:, None]
            seen = own.reshape(query.shape[0], 1, 1, -1)
        else:
            key, value, positions, seen = self._cache_step(query, key, value)
        length = key.shape[1] if seen is None else key.shape[-1] // beams
        if callable(bias):
            bias = bias(positions, length)
        elif bias is not None and seen is not None:
            bias = _bias_at(bias, positions)
        if beams > 1:
            # Slots of a position are next to each other.
            mask, bias = (
                None if x is None else jnp.repeat(x, beams, axis=-1)
                for x in (mask, bias)
            )
        return key, value, bias, combine_masks(mask, seen), seen is not None

    def _cache_step(
        self, query: Array, key: Array, value: Array
    ) -> tuple[
        Array,
        Array,
        Int[Array, "rows_or_1 queries"],
        Bool[Array, "rows 1 1 length"] | None,
    ]:
        """Creates the cache, or stores one position in it.

        Returns:
            Keys and values to attend to, the query positions, and the mask of stored
            keys. The mask is None when the cache is created; otherwise keys and values
            have the layout of the cache.
        """
        exists = self.has_variable("cache", "cached_key")
        shape = (key.shape[0], *key.shape[2:], key.shape[1])
        cached_key = self.variable("cache", "cached_key", jnp.zeros, shape, key.dtype)
        cached_value = self.variable(
            "cache", "cached_value", jnp.zeros, shape, key.dtype
        )
        index = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        if not exists:
            beam_history.offer(self, *key.shape[:2])
            return key, value, jnp.arange(key.shape[1])[None], None
        expected = (cached_key.value.shape[0], 1, self.num_heads, self.head_dim)
        if query.shape != expected:
            raise ValueError(
                f"a decoding step needs queries of shape {expected}, one position for "
                f"each row of the cache, but got {query.shape}"
            )
        position = index.value
        cached_key.value = _store(cached_key.value, key, position)
        cached_value.value = _store(cached_value.value, value, position)
        index.value = position + 1
        length = cached_key.value.shape[-1]
        seen = jnp.arange(length) <= _per_row(position)
        seen = jnp.broadcast_to(seen, (query.shape[0], 1, 1, length))
        return cached_key.value, cached_value.value, position.reshape(-1, 1), seen

    def _prefill(self, key: Array, value: Array, lengths: Int[Array, " rows"]) -> None:
        for name, projected in (("cached_key", key), ("cached_value", value)):
            projected = jnp.moveaxis(projected, 1, -1)
            filled = jnp.arange(projected.shape[-1]) < _per_row(lengths)
            self.put_variable("cache", name, jnp.where(filled, projected, 0))
        self.put_variable("cache", "cache_index", lengths.astype(jnp.int32))


def _bias_at(
    bias: Float[Array, "#rows heads queries keys"], positions: Int[Array, "#rows 1"]
) -> Float[Array, "rows heads 1 keys"]:
    return jnp.take_along_axis(bias, positions[:, None, :, None], axis=2, mode="clip")


def _store(
    cache: Float[Array, "rows heads dim length"],
    projected: Float[Array, "rows 1 heads dim"],
    position: Int[Array, "*rows"],
) -> Float[Array, "rows heads dim length"]:
    if position.ndim == 0:
        column = jnp.moveaxis(projected, 1, -1)
        return lax.dynamic_update_slice_in_dim(cache, column, position, axis=-1)
    # Rows past the end of the cache are finished and store nothing. A loop
    # that carries the cache writes in place.
    own = cache.at[jnp.arange(len(cache)), :, :, position]
    return own.set(projected[:, 0], mode="drop")
