"""Layers that the model families share.

Parameters are float32, whatever the dtype of the computation. Each declares its logical
axes in the collection `params_axes`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jax import lax
from jaxtyping import Array, Float, Int, Shaped
from t5x.examples.t5 import cache
from t5x.examples.t5.layers import DenseGeneral, MlpBlock, MultiHeadDotProductAttention
from t5x.on_cpu import features, products, reductions
from t5x.on_cpu import features as cpu

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion

# Finite, so that logits can still be added and compared without NaN.
MASKED = -1e10

# The initial standard deviation of all these families (`initializer_range`).
kernel_init = nn.initializers.normal(0.02)

# Keys are the names in Hugging Face configurations.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": functools.partial(nn.gelu, approximate=False), "gelu_fast": nn.gelu,
    "gelu_new": nn.gelu, "gelu_pytorch_tanh": nn.gelu, "linear": lambda x: x,
    "quick_gelu": lambda x: x * nn.sigmoid(1.702 * x), "relu": nn.relu, "silu": nn.silu,
    "swish": nn.silu, "tanh": nn.tanh,
}  # fmt: skip


def activation(name: str) -> Callable[[Array], Array]:
    """Returns the activation function of a Hugging Face name, or raises `UserError`."""
    if name not in ACTIVATIONS:
        raise UserError(
            f"activation {name!r} is not known; {suggestion(name, ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


_named = activation


def linear(
    features: int | Sequence[int],
    kernel_axes: tuple[str, ...],
    axis: int | Sequence[int] = -1,
    use_bias: bool = False,
    dtype: Any = jnp.float32,
    output_dtype: Any = None,
    name: str | None = None,
) -> DenseGeneral:
    """Returns a linear map over one or several axes, with or without bias.

    See `t5x.examples.t5.layers.DenseGeneral` for the arguments. The kernel has one axis
    per contracted and output axis.
    """
    return DenseGeneral(
        features,
        axis,
        dtype,
        kernel_init,
        kernel_axes,
        use_bias,
        output_dtype,
        name=name,
    )


class LayerNorm(nn.Module):
    """Norm of Ba et al. (2016), equation 3, with scale and bias; float32 statistics."""

    epsilon: float = 1e-5
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Float[Array, "... emb"]) -> Float[Array, "... emb"]:
        x = jnp.asarray(x, jnp.float32)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(lax.square(centred), axis=-1, keepdims=True)
        scaled = centred * lax.rsqrt(variance + self.epsilon) * _scale(self, x)
        bias = param_with_axes(
            "bias", nn.initializers.zeros, x.shape[-1:], jnp.float32, axes=("embed",)
        )
        return jnp.asarray(scaled + bias, self.dtype)


class RMSNorm(nn.Module):
    """Root-mean-square norm of Zhang and Sennrich (2019); float32 statistics.

    Attributes:
        offset: added to the scale, which then starts at 1 - offset; 1 for Gemma.
    """

    epsilon: float = 1e-6
    dtype: Any = jnp.float32
    offset: float = 0.0
    axis: str = "embed"

    @nn.compact
    def __call__(self, x: Float[Array, "... emb"]) -> Float[Array, "... emb"]:
        x = jnp.asarray(x, jnp.float32)
        mean_square = jnp.mean(lax.square(x), axis=-1, keepdims=True)
        normalised = x * lax.rsqrt(mean_square + self.epsilon)
        scale = _scale(self, x, 1.0 - self.offset, self.axis)
        return jnp.asarray(normalised * (self.offset + scale), self.dtype)


def _scale(
    module: nn.Module, x: Array, initial: float = 1.0, axis: str = "embed"
) -> Float[Array, " emb"]:
    return param_with_axes(
        "scale",
        nn.initializers.constant(initial),
        x.shape[-1:],
        jnp.float32,
        axes=(axis,),
        module=module,
    )


def softcap(x: Float[Array, "..."], cap: float | None) -> Float[Array, "..."]:
    """Returns cap * tanh(x / cap), which stays below the cap; x if cap is None."""
    return x if cap is None else cap * jnp.tanh(x / cap)


def pooler(config: Any) -> DenseGeneral:
    """Returns the dense layer of a classifier, before the activation."""
    return linear(config.emb_dim, ("mlp", "embed"), use_bias=True, dtype=config.dtype)


def label_logits(config: Any) -> DenseGeneral:
    """Returns the output layer of a classifier; no rule shards its few outputs."""
    return linear(len(config.labels), ("embed", "kv"), use_bias=True)


def mlp(
    mlp_dim: int,
    activation: str = "gelu",
    gated: bool = False,
    use_bias: bool = True,
    dropout_rate: float = 0.0,
    dtype: Any = jnp.float32,
    name: str | None = None,
) -> MlpBlock:
    """Returns a feed-forward block; the gated form follows Shazeer (2020), equation 6.

    Parameters are `wi` (if gated, the activated `wi_0` and the linear `wi_1`) and `wo`.

    Args:
        gated: whether the activated projection multiplies a linear one.
    """
    first = _named(activation)
    return MlpBlock(
        mlp_dim,
        (first, "linear") if gated else (first,),
        kernel_init,
        dropout_rate,
        dtype,
        use_bias,
        dropout_axes=(),
        name=name,
    )


class Embed(nn.Module):
    """Embedding table; `attend` computes tied logits with it.

    T5X reserves id 0 for padding and for the token before the first one, but published
    vocabularies have a token with id 0. With `id_offset` 1, ids are the published ones
    plus 1. The table stays as published, and id 0 is free.

    Attributes:
        dtype: dtype of the embedded tokens and of the factors in `attend`.
        id_offset: difference between an id and its row of the table.
        bos_token_id: row that embeds the ids below `id_offset`.
    """

    num_embeddings: int
    features: int
    dtype: Any = jnp.float32
    id_offset: int = 0
    bos_token_id: int = 0

    def setup(self) -> None:
        self.embedding = param_with_axes(
            "embedding",
            kernel_init,
            (self.num_embeddings, self.features),
            jnp.float32,
            axes=("vocab", "embed"),
        )

    def __call__(self, tokens: Shaped[Array, "..."]) -> Float[Array, "... features"]:
        # A traced array cannot index NumPy parameters.
        table = jnp.asarray(self.embedding)
        return jnp.asarray(table[self.rows(tokens)], self.dtype)

    @nn.nowrap
    def rows(self, tokens: Shaped[Array, "..."]) -> Int[Array, "..."]:
        """Returns the rows of the table that embed tokens."""
        # The initialization of T5X models passes float tokens.
        rows = tokens.astype(jnp.int32)
        if not self.id_offset:
            return rows
        free = rows < self.id_offset
        return jnp.where(free, self.bos_token_id, rows - self.id_offset)

    def attend(self, x: Float[Array, "... features"]) -> Float[Array, "... vocab"]:
        """Returns float32 inner products with every row of the table."""
        if cpu.is_used():
            table = jnp.asarray(self.embedding)
            return products.with_rows(x, table, self.dtype, jnp.float32)
        return lax.dot_general(
            jnp.asarray(x, self.dtype),
            jnp.asarray(self.embedding, self.dtype),
            (((x.ndim - 1,), (1,)), ((), ())),
            preferred_element_type=jnp.float32,
        )


def shift_logits(
    logits: Float[Array, "... rows"], id_offset: int
) -> Float[Array, "... vocab"]:
    """Converts logits per row of the table to logits per id; free ids get `MASKED`."""
    if not id_offset:
        return logits
    widths = [(0, 0)] * (logits.ndim - 1) + [(id_offset, 0)]
    return jnp.pad(logits, widths, constant_values=MASKED)


class LearnedPositions(nn.Module):
    """Table of position embeddings, float32 [num_positions, features].

    Attributes:
        offset: rows before position 0 (2 for BART, padding id + 1 for RoBERTa).
    """

    num_positions: int
    features: int
    offset: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(
        self, positions: Int[Array, "rows length"]
    ) -> Float[Array, "rows length features"]:
        """Embeds positions; refuses more columns than positions.

        Raises:
            UserError: there are more columns than positions.
        """
        limit = self.num_positions - self.offset
        if positions.shape[-1] > limit:
            raise UserError(
                f"the model has {limit} positions, but the sequences are "
                f"{positions.shape[-1]} long: shorten them (task_feature_lengths)"
            )
        table = param_with_axes(
            "embedding",
            kernel_init,
            (self.num_positions, self.features),
            jnp.float32,
            axes=("abspos_buckets", "embed"),
        )
        # A traced array cannot index NumPy parameters.
        rows = jnp.asarray(table)[positions + self.offset]
        return jnp.asarray(rows, self.dtype)


def sinusoidal_positions(
    length: int, features: int
) -> Float[np.ndarray, "length features"]:
    """Returns the float32 table of Vaswani et al. (2017), section 3.5.

    Sines and cosines do not alternate as in the paper: all sines come first. Marian and
    Pegasus both have this layout.
    """
    rates = 10000.0 ** (-2.0 * np.arange((features + 1) // 2) / features)
    angles = np.arange(length)[:, None] * rates
    cosines = np.cos(angles[:, : features // 2])
    return np.concatenate([np.sin(angles), cosines], axis=1).astype(np.float32)


class Positions(nn.Module):
    """Positions of tokens; while decoding, a counter `cache_index` in the cache."""

    @nn.compact
    def __call__(
        self,
        tokens: Shaped[Array, "rows length"],
        given: Int[Array, "rows length"] | None = None,
        *,
        decode: bool = False,
        prefill_lengths: Int[Array, " rows"] | None = None,
    ) -> Int[Array, "#rows length"]:
        """Returns `given` (packed rows) or 0, 1, ..., from the counter on in a step."""
        counted = jnp.arange(tokens.shape[1])[None]
        if prefill_lengths is not None:
            index = prefill_lengths.astype(jnp.int32)
            self.put_variable("cache", "cache_index", index)
            return counted
        if not decode:
            return counted if given is None else given
        exists = self.has_variable("cache", "cache_index")
        position = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        if not exists:
            return counted
        here = position.value.reshape(-1, 1) + counted
        position.value = position.value + tokens.shape[1]
        return here if given is None else given


class RotaryScaling(NamedTuple):
    """Scaling of rotary positions for longer texts.

    Attributes:
        kind: "linear" slows all rates down (Chen et al. 2023); "llama3" slows only slow
            ones down.
        low_frequency: for "llama3": turns within `original_positions` below which a
            rate is slowed down fully.
        high_frequency: for "llama3": turns above which a rate does not change; rates in
            between are interpolated.
        original_positions: for "llama3": longest sequence of pre-training.
    """

    kind: str
    factor: float
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    original_positions: int = 8192

    def scaled(self, rates: Float[Array, " pairs"]) -> Float[Array, " pairs"]:
        """Returns the scaled rates."""
        slowed = rates / self.factor
        if self.kind == "linear":
            return slowed
        turns = self.original_positions * rates / (2 * math.pi)
        width = self.high_frequency - self.low_frequency
        kept = jnp.clip((turns - self.low_frequency) / width, 0.0, 1.0)
        return kept * rates + (1 - kept) * slowed


def rotary(
    x: Float[Array, "rows length heads dim"],
    positions: Int[Array, "#rows length"],
    theta: float,
    scaling: RotaryScaling | None = None,
) -> Float[Array, "rows length heads dim"]:
    """Returns the rotary embedding of Su et al. (2021), equation 34, float32 angles.

    The pairs that turn together are (i, i + dim / 2), unlike in the paper. Published
    Llama weights in Hugging Face format have this layout.
    """
    half = x.shape[-1] // 2
    rates = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    if scaling is not None:
        rates = scaling.scaled(rates)
    angles = positions[..., None, None].astype(jnp.float32) * rates
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )


cache_length = cache.length
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
        mask: 0 hides a key.
        bias: added to the scaled logits, before the mask.
        cache_layout: whether keys and values have the length as their last axis.
        cap: cap of the logits, before the mask (see `softcap`); None for none.
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


class Attention(MultiHeadDotProductAttention):
    """Attention with the caches of T5's (`t5x.examples.t5.cache`).

    The kernels have separate axes for heads and head_dim. The cache stores rotated
    keys, of `num_kv_heads` heads. Fused attention has no dropout.

    Attributes:
        num_kv_heads: number of key and value heads; None means `num_heads`.
        rope_theta: base of rotary positions; None for none.
        rope_scaling: scaling of the rotary positions; None for none.
        qk_norm: makes a norm of the given name for the heads of queries and keys, which
            is applied before positions; None for none.
        scale: None, so that it is 1 / sqrt(head_dim).
    """

    kernel_init: Any = kernel_init
    joined_kernels: bool = False
    num_kv_heads: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    rope_theta: float | None = None
    rope_scaling: RotaryScaling | None = None
    qk_norm: Callable[[str], nn.Module] | None = None
    scale: float | None = None
    cap: float | None = None

    several: ClassVar[bool] = True

    def _project(
        self, name: str, inputs: Float[Array, "rows length emb"]
    ) -> Float[Array, "rows length heads dim"]:
        heads = self.num_heads
        if name != "query":
            heads = self.num_kv_heads or heads
        projected = linear(
            (heads, self.head_dim),
            ("embed", "heads", "kv"),
            use_bias=self.qkv_bias,
            dtype=self.dtype,
            name=name,
        )(inputs)
        projected = with_sharding_constraint(
            projected, ("batch", "length", "heads", "kv")
        )
        if self.qk_norm is None or name == "value":
            return projected
        return self.qk_norm(f"{name}_norm")(projected)

    def _placed(
        self, query: Array, key: Array, positions: Int[Array, "#rows queries"] | None
    ) -> tuple[Array, Array]:
        if self.rope_theta is None:
            return query, key
        assert positions is not None, "rotary embeddings need the positions"
        query, key = (
            rotary(x, positions, self.rope_theta, self.rope_scaling)
            for x in (query, key)
        )
        return query, key

    def _merged(self, attended: Array, features: int) -> Array:
        return linear(
            features,
            ("heads", "kv", "embed"),
            axis=(-2, -1),
            use_bias=self.out_bias,
            dtype=self.dtype,
            name="out",
        )(attended)

    def _is_fused(self, query: Array, key: Array, bias: Any, use_dropout: bool) -> bool:
        plain = not use_dropout and not self.cap
        return plain and super()._is_fused(query, key, bias, use_dropout)

    def _product(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Mask | None,
        bias: Array | None,
        dropout_rng: Array | None,
        cache_layout: bool,
    ) -> Float[Array, "rows queries heads dim"]:
        return dot_product_attention(
            query,
            key,
            value,
            mask,
            scale=self.logit_scale,
            bias=bias,
            cache_layout=cache_layout,
            cap=self.cap,
            dropout_rng=dropout_rng,
            dropout_rate=self.dropout_rate,
        )
