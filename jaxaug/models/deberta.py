"""DeBERTa v2 and v3: an encoder with disentangled attention, and a classifier.

Source: He et al. 2021, "DeBERTa: Decoding-enhanced BERT with disentangled attention"
and "DeBERTaV3". The blocks are post-norm. Attention logits add two terms to the product
of query and key contents: content to position (c2p) and position to content (p2c).
Distances share logarithmic buckets. Models from v2-xlarge up have a convolution next to
the first block.

Token ids equal the published ones: nothing here decodes.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxaug.models import layers
from jaxaug.models.deberta_config import IGNORED, Config, key_map, to_hf
from jaxaug.models.weights import hf_config

__all__ = ["IGNORED", "NETWORK", "Config", "Deberta", "distances", "key_map", "to_hf"]

Tokens = Int[Array, "batch length"]
Hidden = Float[Array, "batch length emb"]
Seen = Bool[Array, "batch length"]
# Embedded distances: consecutive rows of the table, starting at the most negative one.
Table = Float[Array, "rows emb"]

# The logical axis of the few outputs of a classifier and of a kernel's width; no rule
# shards it.
_WHOLE = "kv"


def distances(length: int, config: Config) -> Int[np.ndarray, "length length"]:
    """Returns the row of the table of distances for each query and key.

    The distance query - key has its own row up to half of the buckets. From there to
    `max_distance` the rows grow with its logarithm. All larger distances share the last
    row.
    """
    places = np.arange(length)
    distance = places[:, None] - places[None, :]
    if config.buckets:
        distance = _bucket(distance, config.buckets, config.max_distance)
    return np.clip(distance + config.span, 0, 2 * config.span - 1)


def _bucket(
    distance: Int[np.ndarray, "..."], buckets: int, furthest: int
) -> Int[np.ndarray, "..."]:
    middle = buckets // 2
    size = np.abs(distance)
    # PyTorch computes in float32, which decides the bucket of values on a border.
    logarithm = np.log(np.maximum(size, middle).astype(np.float32) / np.float32(middle))
    step = logarithm / np.log(np.float32((furthest - 1) / middle))
    far = np.ceil(step * np.float32(middle - 1)) + middle
    return np.where(size <= middle, distance, far * np.sign(distance)).astype(np.int64)


def _norm(config: Config, name: str) -> layers.LayerNorm:
    return layers.LayerNorm(config.norm_epsilon, config.dtype, name=name)


class Attention(nn.Module):
    """Disentangled attention (section 3.1, equation 4 of the first paper)."""

    config: Config

    @nn.compact
    def __call__(
        self,
        x: Hidden,
        mask: layers.Mask,
        table: Table | None,
        rows: Int[np.ndarray, "length length"],
        deterministic: bool,
    ) -> Hidden:
        """Attends from every token to all tokens that the mask shows.

        Args:
            x: content.
            mask: 0 hides a key.
            table: embedded distances; None means attention to content alone.
            rows: rows of `table` for each query and key.
            deterministic: whether to leave out dropout.
        """
        config = self.config
        names = ["query", "key", "value"]
        if table is not None and not config.shared_keys:
            own = {"c2p": "position_key", "p2c": "position_query"}
            names += [own[term] for term in config.terms]
        project = {
            name: layers.linear(
                (config.num_heads, config.head_dim),
                ("embed", "heads", "kv"),
                use_bias=True,
                dtype=config.dtype,
                name=name,
            )
            for name in names
        }
        axes = ("batch", "length", "heads", "kv")
        query, key, value = (
            with_sharding_constraint(project[name](x), axes)
            for name in ("query", "key", "value")
        )
        scale = 1.0 / math.sqrt(config.head_dim * (1 + len(config.terms)))
        bias: Array | None = None
        if table is not None and config.terms:
            table = nn.Dropout(config.dropout_rate)(table, deterministic=deterministic)
            bias = jnp.zeros((), jnp.float32)
            if "c2p" in config.terms:
                position = project["key" if config.shared_keys else "position_key"]
                bias += _to_position(query, position(table), rows)
            if "p2c" in config.terms:
                position = project["query" if config.shared_keys else "position_query"]
                bias += _from_position(key, position(table), rows)
            bias *= scale
        dropped = config.attention_dropout_rate > 0 and not deterministic
        attended = layers.dot_product_attention(
            query,
            key,
            value,
            mask,
            scale=scale,
            bias=bias,
            dropout_rng=self.make_rng("dropout") if dropped else None,
            dropout_rate=config.attention_dropout_rate,
        )
        return layers.linear(
            config.emb_dim,
            ("heads", "kv", "embed"),
            axis=(-2, -1),
            use_bias=True,
            dtype=config.dtype,
            name="out",
        )(attended)


def _to_position(
    query: Float[Array, "batch length heads dim"],
    position: Float[Array, "rows heads dim"],
    rows: Int[np.ndarray, "length length"],
) -> Float[Array, "batch heads length length"]:
    """Returns the c2p logits, float32: each query times its distance to each key."""
    matches = jnp.einsum(
        "bqhd,rhd->bhqr", query, position, preferred_element_type=jnp.float32
    )
    return jnp.take_along_axis(matches, rows[None, None], axis=3)


def _from_position(
    key: Float[Array, "batch length heads dim"],
    position: Float[Array, "rows heads dim"],
    rows: Int[np.ndarray, "length length"],
) -> Float[Array, "batch heads length length"]:
    """Returns the p2c logits, float32: each key times its distance to each query."""
    matches = jnp.einsum(
        "bkhd,rhd->bhrk", key, position, preferred_element_type=jnp.float32
    )
    return jnp.take_along_axis(matches, rows[None, None], axis=2)


class Layer(nn.Module):
    """Attention and MLP, each followed by a residual and a norm."""

    config: Config

    @nn.compact
    def __call__(
        self,
        x: Hidden,
        mask: layers.Mask,
        table: Table | None,
        rows: Int[np.ndarray, "length length"],
        deterministic: bool,
    ) -> Hidden:
        config = self.config
        dropout = nn.Dropout(config.dropout_rate, deterministic=deterministic)
        attention = Attention(config, name="attention")
        y = attention(x, mask, table, rows, deterministic)
        x = _norm(config, "attention_norm")(x + dropout(y))
        mlp = layers.mlp(
            config.mlp_dim,
            activation=config.activation,
            dtype=config.dtype,
            name="mlp",
        )
        y = mlp(x, deterministic=deterministic)
        x = _norm(config, "mlp_norm")(x + dropout(y))
        return with_sharding_constraint(x, ("batch", "length", "embed"))


class Convolution(nn.Module):
    """Convolution over the embedded tokens, added to the first block's outputs."""

    config: Config

    @nn.compact
    def __call__(
        self, embedded: Hidden, x: Hidden, mask: Seen, deterministic: bool
    ) -> Hidden:
        config = self.config
        width, groups, size = config.conv_width, config.conv_groups, config.emb_dim
        kernel = param_with_axes(
            "kernel",
            layers.kernel_init,
            (width, size // groups, size),
            jnp.float32,
            axes=(_WHOLE, "embed", "mlp"),
        )
        bias = param_with_axes(
            "bias", nn.initializers.zeros, (size,), jnp.float32, axes=("mlp",)
        )
        y = lax.conv_general_dilated(
            embedded,
            jnp.asarray(kernel, config.dtype),
            window_strides=(1,),
            padding=[((width - 1) // 2,) * 2],
            dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=groups,
        )
        y = jnp.where(mask[..., None], y + jnp.asarray(bias, config.dtype), 0)
        y = nn.Dropout(config.dropout_rate)(y, deterministic=deterministic)
        x = x + layers.activation(config.conv_activation)(y)
        return jnp.where(mask[..., None], _norm(config, "norm")(x), 0)


class Distances(nn.Module):
    """The table of distances, normalized if the configuration says so."""

    config: Config

    @nn.compact
    def __call__(self) -> Table:
        config = self.config
        table = param_with_axes(
            "embedding",
            layers.kernel_init,
            (2 * config.span, config.emb_dim),
            jnp.float32,
            axes=("relpos_buckets", "embed"),
        )
        if config.norm_distances:
            table = _norm(config, "norm")(table)
        return jnp.asarray(table, config.dtype)


class Encoder(nn.Module):
    """The layers on top of embedded tokens."""

    config: Config

    @nn.compact
    def __call__(self, embedded: Hidden, mask: Seen, deterministic: bool) -> Hidden:
        config = self.config
        rows = distances(embedded.shape[1], config)
        table = None
        if config.relative:
            # Short texts need few rows of the table, and only these are projected.
            first = int(rows.min(initial=config.span))
            last = int(rows.max(initial=config.span))
            table = Distances(config, name="distances")()[first : last + 1]
            rows = rows - first
        x, keys = embedded, mask[:, None, None]
        for index in range(config.num_layers):
            layer = Layer(config, name=f"layers_{index}")
            x = layer(x, keys, table, rows, deterministic)
            if index == 0 and config.conv_width:
                convolution = Convolution(config, name="convolution")
                x = convolution(embedded, x, mask, deterministic)
        return x


class Embeddings(nn.Module):
    """Token embeddings plus optional position and segment embeddings, normalized."""

    config: Config

    @nn.compact
    def __call__(
        self, tokens: Tokens, segments: Tokens, mask: Seen, deterministic: bool
    ) -> Hidden:
        config = self.config
        size = config.embedding_dim or config.emb_dim
        embed: Any = layers.Embed
        words = embed(config.vocab_size, size, config.dtype, name="token_embedder")
        x = words(tokens)
        if config.learned_positions:
            x += layers.LearnedPositions(
                config.num_positions, size, 0, config.dtype, name="position_embedder"
            )(jnp.arange(tokens.shape[1])[None])
        if config.num_segments:
            x += embed(
                config.num_segments, size, config.dtype, name="segment_embedder"
            )(segments)
        if config.embedding_dim is not None:
            x = layers.linear(
                config.emb_dim,
                ("mlp", "embed"),
                dtype=config.dtype,
                name="projection",
            )(x)
        x = jnp.where(mask[..., None], _norm(config, "norm")(x), 0)
        return nn.Dropout(config.dropout_rate)(x, deterministic=deterministic)


class Deberta(nn.Module):
    """The encoder, with a classifier if the configuration names one."""

    config: Config

    def setup(self) -> None:
        config = self.config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        if config.head == "classifier":
            self.before = nn.Dropout(config.pooler_dropout_rate)
            self.dense = layers.linear(
                config.emb_dim, ("mlp", "embed"), use_bias=True, dtype=config.dtype
            )
            self.after = nn.Dropout(config.head_dropout_rate)
            self.output = layers.linear(
                len(config.labels), ("embed", _WHOLE), use_bias=True
            )

    def __call__(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Seen | None = None,
        *,
        enable_dropout: bool = False,
    ) -> Hidden:
        """Returns hidden states of the last layer.

        Args:
            tokens: ids of the published vocabulary.
            segments: 0 for the first text, 1 for the second of a pair; None means 0.
                Most published models do not read them.
            mask: False at padding; None masks `pad_token_id`.
            enable_dropout: needs the random stream "dropout".

        Raises:
            UserError: the sequences are longer than the table of positions, if any.
        """
        fixed = not enable_dropout
        tokens = tokens.astype(jnp.int32)
        if segments is None:
            segments = jnp.zeros_like(tokens)
        if mask is None:
            mask = tokens != self.config.pad_token_id
        mask = jnp.asarray(mask, jnp.bool_)
        x = self.encoder(self.embeddings(tokens, segments, mask, fixed), mask, fixed)
        if self.is_initializing() and self.config.head == "classifier":
            # Parameters are created on first use.
            self.output(self.dense(x[:, 0]))
        return x

    def classify(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Seen | None = None,
        *,
        enable_dropout: bool = False,
    ) -> Float[Array, "batch labels"]:
        """Returns float32 logits of `config.labels`, computed from the first position.

        Raises:
            UserError: the configuration has no classifier.
        """
        hf_config.require_head(self.config.head, "classifier")
        fixed = not enable_dropout
        x = self(tokens, segments, mask, enable_dropout=enable_dropout)[:, 0]
        x = self.dense(self.before(x, deterministic=fixed))
        x = layers.activation(self.config.pooler_activation)(x)
        return self.output(self.after(x, deterministic=fixed).astype(jnp.float32))


NETWORK = Deberta
