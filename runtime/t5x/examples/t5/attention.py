"""Multi-head attention of T5, with caches for step-by-step decoding (see `cache`)."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jax import random
from jaxtyping import Array, Float, Int

from t5x.examples.t5 import cache, fused_attention
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
        bias: added to the logits; masks are given as biases.
        dropout_rng: key for dropout of the weights, the same for all queries of a head;
            None for no dropout.
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
    beam where it was written (`t5x.search.decode_state.share_history`, `cache`).

    Attributes:
        joined_kernels: whether kernels are stored with heads and head_dim as one axis.
        fused: whether to compute attention without storing its weights if possible (see
            `fused_attention`).
        window: number of keys that a query sees, up to and including its own; None for
            all. If a mask shows later keys (prefixes), the window also extends that far
            forward.
        scale: factor of the logits; None means 1 / sqrt(head_dim).
    """

    num_heads: int
    head_dim: int
    dtype: Any = jnp.float32
    dropout_rate: float = 0.0
    kernel_init: Initializer = attention_kernel_init
    float32_logits: bool = False
    joined_kernels: bool = True
    fused: bool = True
    window: int | None = None
    scale: float | None = 1.0

    dense_cls: ClassVar[type[DenseGeneral]] = DenseGeneral
    # Whether a decoding step may take several positions.
    several: ClassVar[bool] = False

    @nn.compact
    def __call__(
        self,
        inputs_q: Float[Array, "rows queries emb"],
        inputs_kv: Float[Array, "rows keys emb"],
        mask: Float[Array, "rows 1 queries keys"] | None = None,
        bias: Float[Array, "1 heads queries keys"] | ByDistance | BiasAt | None = None,
        *,
        positions: Int[Array, "#rows queries"] | None = None,
        decode: bool = False,
        deterministic: bool = False,
        prefill: bool | None = None,
        prefill_lengths: Int[Array, " rows"] | None = None,
        cross: bool = False,
    ) -> Float[Array, "rows queries emb"]:
        """Attends from `inputs_q` to `inputs_kv`.

        Args:
            mask: 0 hides a key.
            bias: added to the logits. With `decode`, the biases of all positions, or a
                function of the query positions.
            positions: positions of the queries, for subclasses with rotary positions.
            decode: whether to create or use a cache.
            prefill: whether to fill the cache; None means if `prefill_lengths` is
                given.
            prefill_lengths: number of positions to put into the cache. With `prefill`
                and without lengths, the positions that the first query sees are
                counted.

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
        query = self._project("query", inputs_q)
        cache_layout = False
        key: Array
        value: Array
        if cross and decode and self.has_variable("cache", "cached_cross_key"):
            key = self.get_variable("cache", "cached_cross_key")
            value = self.get_variable("cache", "cached_cross_value")
            cache_layout = True
        else:
            key = self._project("key", inputs_kv)
            value = self._project("value", inputs_kv)
            if cross and decode:
                cache.keep_cross(self, key, value)
        query, key = self._placed(query, key, positions)
        seen = None
        if decode and not cross:
            if isinstance(bias, ByDistance):
                bias = bias.of_pairs()
            key, value, places, seen, beams = cache.step(
                self, key, value, self.window, self.several
            )
            length = key.shape[1] if seen is None else key.shape[-1] // beams
            if callable(bias):
                bias = bias(places, length)
            elif bias is not None and seen is not None:
                places = places[:, None, :, None]
                bias = jnp.take_along_axis(bias, places, axis=2, mode="clip")
            if beams > 1:
                # Slots of a position are next to each other.
                mask, bias = (
                    None if x is None else jnp.repeat(x, beams, axis=-1)
                    for x in (mask, bias)
                )
            mask, cache_layout = combine_masks(mask, seen), seen is not None
        elif prefill_lengths is not None and prefill is not False:
            cache.prefill(self, key, value, prefill_lengths)
        if seen is None and self.window is not None:
            # Index in the row: within a packed segment the distances are the same.
            apart = jnp.arange(query.shape[1])[:, None] - jnp.arange(key.shape[1])
            near = (jnp.abs(apart) < self.window)[None, None]
            mask = near if mask is None else jnp.where(near, mask, 0)

        assert not callable(bias), "only decoding has positions to ask for biases"
        attended = self._attend(
            query, key, value, mask, bias, deterministic, cache_layout
        )
        return self._merged(attended, inputs_q.shape[-1])

    def _project(
        self, name: str, inputs: Float[Array, "rows length emb"]
    ) -> Float[Array, "rows length heads dim"]:
        """Returns the projection of inputs to queries, keys, or values."""
        # T5 has 1/sqrt(head_dim) in the initial query kernel instead of the logits. The
        # root is rounded to the computation dtype, as in the published models.
        root = jnp.sqrt(self.head_dim).astype(self.dtype)

        def query_init(*args):
            return self.kernel_init(*args) / root

        projected = self.dense_cls(
            features=(self.num_heads, self.head_dim),
            kernel_axes=("embed", *self._heads),
            kernel_init=query_init if name == "query" else self.kernel_init,
            dtype=self.dtype,
            name=name,
        )(inputs)
        return with_sharding_constraint(projected, _HEAD_AXES)

    @property
    def _heads(self) -> tuple[str, ...]:
        return ("joined_kv",) if self.joined_kernels else ("heads", "kv")

    def _placed(
        self, query: Array, key: Array, positions: Array | None
    ) -> tuple[Array, Array]:
        """Returns queries and keys with their positions, where they carry them."""
        return query, key

    def _merged(self, attended: Array, features: int) -> Array:
        """Returns the output projection."""
        return self.dense_cls(
            features,
            axis=(-2, -1),
            kernel_init=self.kernel_init,
            kernel_axes=(*self._heads, "embed"),
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
        if not cache_layout and self._is_fused(query, key, bias, use_dropout):
            if use_dropout:
                # All queries of a head drop the same keys, so the values can be masked
                # instead.
                of_keys = (key.shape[0], self.num_heads, key.shape[1])
                kept = _kept(
                    self.make_rng("dropout"), self.dropout_rate, of_keys, value.dtype
                )
                value = value * kept.swapaxes(1, 2)[..., None]
            return fused_attention.attend(
                query, key, value, bias, mask, scale=self.logit_scale
            )
        if isinstance(bias, ByDistance):
            bias = bias.of_pairs()
        # Rows that share keys and values (of an encoder output or of all beams) become
        # queries of one row, which reads them once.
        shape = query.shape
        if shape[0] != key.shape[0]:
            query = query.reshape(key.shape[0], -1, *shape[2:])
            if mask is not None:
                mask = jnp.broadcast_to(mask, (*shape[:1], 1, shape[1], mask.shape[-1]))
                mask = mask.reshape(key.shape[0], 1, query.shape[1], -1)
        rng = self.make_rng("dropout") if use_dropout else None
        return self._product(query, key, value, mask, bias, rng, cache_layout).reshape(
            shape
        )

    @property
    def logit_scale(self) -> float:
        """Factor of the logits."""
        return self.scale or 1.0 / math.sqrt(self.head_dim)

    def _is_fused(self, query: Array, key: Array, bias: Any, use_dropout: bool) -> bool:
        return self.fused and fused_attention.possible(query, key, bias)

    def _product(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None,
        bias: Array | None,
        dropout_rng: Array | None,
        cache_layout: bool,
    ) -> Float[Array, "rows queries heads dim"]:
        """Returns the attention of queries to keys that are not fused."""
        attention_bias = None
        if mask is not None:
            attention_bias = jnp.where(mask > 0, 0.0, MASKED).astype(self.dtype)
        return dot_product_attention(
            query,
            key,
            value,
            bias=combine_biases(attention_bias, bias),
            dropout_rng=dropout_rng,
            dropout_rate=self.dropout_rate,
            dtype=self.dtype,
            float32_logits=self.float32_logits,
            cache_layout=cache_layout,
        )
