"""Blocks, encoder, and decoder of BART, Pegasus, and Marian."""

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jaxtyping import Array, Float, Int

from jaxaug.core.errors import UserError
from jaxaug.models import layers
from jaxaug.models.bart_config import Config

Tokens = Int[Array, "batch length"]
Activations = Float[Array, "batch length emb"]
Encoded = Float[Array, "batch input_length emb"]

_NORM_EPSILON = 1e-5


def _norm(config: Config, name: str) -> layers.LayerNorm:
    return layers.LayerNorm(_NORM_EPSILON, config.dtype, name=name)


def _attention(config: Config, heads: int, name: str) -> layers.Attention:
    return layers.Attention(
        num_heads=heads,
        head_dim=config.emb_dim // heads,
        qkv_bias=True,
        out_bias=True,
        dropout_rate=config.attention_dropout_rate,
        dtype=config.dtype,
        name=name,
    )


class _Block(nn.Module):
    """Base of encoder and decoder blocks: the residual with its norm, and the MLP."""

    config: Config
    deterministic: bool

    def before(self, name: str, x: Activations) -> Activations:
        return _norm(self.config, name)(x) if self.config.pre_norm else x

    def after(self, name: str, x: Activations, y: Activations) -> Activations:
        config = self.config
        y = nn.Dropout(config.dropout_rate)(y, deterministic=self.deterministic)
        x = x + y
        if not config.pre_norm:
            x = _norm(config, name)(x)
        return with_sharding_constraint(x, ("batch", "length", "embed"))

    def mlp(self, x: Activations, mlp_dim: int) -> Activations:
        config = self.config
        y = layers.mlp(
            mlp_dim,
            activation=config.activation,
            dropout_rate=config.activation_dropout_rate,
            dtype=config.dtype,
            name="mlp",
        )(self.before("mlp_norm", x), deterministic=self.deterministic)
        return self.after("mlp_norm", x, y)


class EncoderBlock(_Block):
    """Self-attention and MLP."""

    @nn.compact
    def __call__(self, x: Activations, mask: layers.Mask) -> Activations:
        config = self.config
        y = self.before("attention_norm", x)
        y = _attention(config, config.num_encoder_heads, "attention")(
            y, y, mask, deterministic=self.deterministic
        )
        x = self.after("attention_norm", x, y)
        return self.mlp(x, config.encoder_mlp_dim)


class DecoderBlock(_Block):
    """Causal self-attention, cross-attention, and MLP."""

    decode: bool

    @nn.compact
    def __call__(
        self,
        x: Activations,
        encoded: Encoded,
        mask: layers.Mask | None,
        cross_mask: layers.Mask,
    ) -> Activations:
        config, fixed = self.config, self.deterministic
        heads = config.num_decoder_heads
        y = self.before("self_attention_norm", x)
        y = _attention(config, heads, "self_attention")(
            y, y, mask, decode=self.decode, deterministic=fixed
        )
        x = self.after("self_attention_norm", x, y)
        y = self.before("cross_attention_norm", x)
        y = _attention(config, heads, "cross_attention")(
            y, encoded, cross_mask, decode=self.decode, deterministic=fixed, cross=True
        )
        x = self.after("cross_attention_norm", x, y)
        return self.mlp(x, config.decoder_mlp_dim)


class _Side(nn.Module):
    """Base of encoder and decoder: token embedding with positions, and last norm."""

    config: Config
    token_embedder: nn.Module

    def embed(
        self, tokens: Tokens, positions: Int[Array, "#rows length"], fixed: bool
    ) -> Activations:
        config = self.config
        x = self.token_embedder(tokens)
        if config.scale_embedding:
            x = x * jnp.sqrt(config.emb_dim).astype(x.dtype)
        x = x + self._embed_positions(positions)
        if config.embedding_norm:
            x = _norm(config, "embedding_norm")(x)
        return nn.Dropout(config.dropout_rate)(x, deterministic=fixed)

    def _embed_positions(self, positions: Int[Array, "#rows length"]) -> Activations:
        config = self.config
        if config.learned_positions:
            # The published table has two additional rows before the first position.
            return layers.LearnedPositions(
                config.num_positions + 2,
                config.emb_dim,
                offset=2,
                dtype=config.dtype,
                name="position_embedder",
            )(positions)
        length = positions.shape[-1]
        if length > config.num_positions:
            raise UserError(
                f"the model has {config.num_positions} positions, but the sequences "
                f"are {length} long: shorten them (task_feature_lengths)"
            )
        table = layers.sinusoidal_positions(config.num_positions, config.emb_dim)
        return jnp.asarray(table, config.dtype)[positions]

    def last_norm(self, x: Activations) -> Activations:
        return _norm(self.config, "norm")(x) if self.config.pre_norm else x


class Encoder(_Side):
    """Embedding and blocks."""

    @nn.compact
    def __call__(
        self,
        tokens: Tokens,
        positions: Tokens | None,
        mask: layers.Mask,
        deterministic: bool,
    ) -> Activations:
        if positions is None:
            positions = jnp.arange(tokens.shape[1])[None]
        x = self.embed(tokens, positions, deterministic)
        for i in range(self.config.num_encoder_layers):
            block = EncoderBlock(self.config, deterministic, name=f"layers_{i}")
            x = block(x, mask)
        return self.last_norm(x)


class Decoder(_Side):
    """Embedding and blocks; `decode` adds a position counter and caches."""

    @nn.compact
    def __call__(
        self,
        encoded: Encoded,
        tokens: Tokens,
        positions: Tokens | None,
        mask: layers.Mask | None,
        cross_mask: layers.Mask,
        deterministic: bool,
        decode: bool,
    ) -> Activations:
        config, counter = self.config, layers.Positions(name="positions")
        here = counter(tokens, positions, decode=decode)
        if config.id_offset == 0 != config.decoder_start_token_id:
            # With an offset, the embedder does this for every 0.
            starts = (here == 0) & (tokens == 0)
            tokens = jnp.where(starts, config.decoder_start_token_id, tokens)
        x = self.embed(tokens, here, deterministic)
        for i in range(config.num_decoder_layers):
            block = DecoderBlock(config, deterministic, decode, name=f"layers_{i}")
            x = block(x, encoded, mask, cross_mask)
        return self.last_norm(x)
