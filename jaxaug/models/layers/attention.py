"""Multi-head attention with grouped queries, biases, rotary positions, and windows."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jaxtyping import Array, Float, Int, Shaped
from t5x.examples.t5 import cache
from t5x.examples.t5.layers import MultiHeadDotProductAttention
from t5x.on_cpu import features, reductions

from jaxaug.models.layers.dense import MASKED, kernel_init, linear, softcap
from jaxaug.models.layers.positions import RotaryScaling, rotary

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


class Attention(MultiHeadDotProductAttention):
    """Attention with the caches of T5's (`t5x.examples.t5.cache`).

    The kernels have separate axes for heads and head_dim. The cache stores rotated
    keys, of `num_kv_heads` heads. Fused attention has no dropout.

    Attributes:
        num_kv_heads: number of key and value heads; None means `num_heads`.
        qkv_bias: whether the projections of queries, keys, and values have biases.
        out_bias: whether the output projection has a bias.
        rope_theta: base of rotary positions; None for none.
        rope_scaling: scaling of the rotary positions; None for none.
        qk_norm: makes a norm of the given name for the heads of queries and keys, which
            is applied before positions; None for none.
        scale: None, so that it is 1 / sqrt(head_dim).
        cap: cap of the logits; see `dot_product_attention`.
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
        self,
        query: Array,
        key: Array,
        positions: Int[Array, "#rows queries"] | None,
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
