"""BERT and RoBERTa encoders with pooling, classification, and masked-word heads.

The networks have post-norm blocks, learned positions, and segment embeddings (Devlin et
al. 2019, Liu et al. 2019). BLEURT (Sellam et al. 2020) is the same network with one
output. BLEURT-20 has embeddings that are narrower than the blocks, as in RemBERT (Chung
et al. 2021).

Token ids equal the published ones: nothing here decodes.
"""

import dataclasses

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jaxtyping import Array, Bool, Float, Int

from jaxaug.models import layers
from jaxaug.models.bert_config import FAMILIES, IGNORED, Config, key_map, to_hf
from jaxaug.models.weights import hf_config

__all__ = [
    "IGNORED",
    "NETWORK",
    "Bert",
    "Config",
    "cls_pool",
    "key_map",
    "mean_pool",
    "to_hf",
]

Tokens = Int[Array, "batch length"]
Hidden = Float[Array, "batch length emb"]

# The logical axis of the few outputs of a classifier; no rule shards it.
_LABELS = "kv"


def mean_pool(
    hidden: Hidden, mask: Bool[Array, "batch length"]
) -> Float[Array, "batch emb"]:
    """Returns the float32 mean over the tokens of each row, as in sentence encoders."""
    weights = jnp.asarray(mask, jnp.float32)[..., None]
    total = jnp.sum(hidden.astype(jnp.float32) * weights, axis=1)
    return total / jnp.maximum(jnp.sum(weights, axis=1), 1.0)


def cls_pool(hidden: Hidden) -> Float[Array, "batch emb"]:
    """Returns the first position of each row ([CLS] or <s>) in float32."""
    return hidden[:, 0].astype(jnp.float32)


def _norm(config: Config, name: str) -> layers.LayerNorm:
    return layers.LayerNorm(config.norm_epsilon, config.dtype, name=name)


class Layer(nn.Module):
    """Self-attention and MLP, each followed by a residual and a norm."""

    config: Config

    @nn.compact
    def __call__(self, x: Hidden, mask: layers.Mask, deterministic: bool) -> Hidden:
        config = self.config
        dropout = nn.Dropout(config.dropout_rate, deterministic=deterministic)
        y = layers.Attention(
            num_heads=config.num_heads,
            head_dim=config.emb_dim // config.num_heads,
            qkv_bias=True,
            out_bias=True,
            dropout_rate=config.attention_dropout_rate,
            dtype=config.dtype,
            name="attention",
        )(x, x, mask, deterministic=deterministic)
        x = _norm(config, "attention_norm")(x + dropout(y))
        y = layers.mlp(
            config.mlp_dim,
            activation=config.activation,
            dtype=config.dtype,
            name="mlp",
        )(x, deterministic=deterministic)
        x = _norm(config, "mlp_norm")(x + dropout(y))
        return with_sharding_constraint(x, ("batch", "length", "embed"))


class Encoder(nn.Module):
    """The layers on top of embedded tokens."""

    config: Config

    @nn.compact
    def __call__(
        self, x: Hidden, mask: Bool[Array, "batch length"], deterministic: bool
    ) -> Hidden:
        config = self.config
        if config.embedding_dim is not None:
            x = layers.linear(
                config.emb_dim,
                ("mlp", "embed"),
                use_bias=True,
                dtype=config.dtype,
                name="projection",
            )(x)
        keys = jnp.asarray(mask)[:, None, None]
        for index in range(config.num_layers):
            x = Layer(config, name=f"layers_{index}")(x, keys, deterministic)
        return x


class Embeddings(nn.Module):
    """Sum of token, position, and segment embeddings, normalized."""

    config: Config

    def setup(self) -> None:
        config = self.config
        size = config.embedding_dim or config.emb_dim
        self.offset = 0
        if FAMILIES[config.family].padded_positions:
            self.offset = config.pad_token_id + 1
        self.token_embedder = layers.Embed(config.vocab_size, size, config.dtype)
        self.segment_embedder = layers.Embed(config.num_segments, size, config.dtype)
        self.position_embedder = layers.LearnedPositions(
            config.num_positions, size, self.offset, config.dtype
        )
        self.norm = layers.LayerNorm(config.norm_epsilon, config.dtype)
        self.dropout = nn.Dropout(config.dropout_rate)

    def __call__(self, tokens: Tokens, segments: Tokens, deterministic: bool) -> Hidden:
        positions = jnp.arange(tokens.shape[1])[None]
        if self.offset:
            # Positions count tokens; all padding has the position before the first one.
            is_token = jnp.asarray(tokens != self.config.pad_token_id, jnp.int32)
            positions = jnp.cumsum(is_token, axis=1) * is_token - 1
        x = self.token_embedder(tokens) + self.segment_embedder(segments)
        x = self.norm(x + self.position_embedder(positions))
        return self.dropout(x, deterministic=deterministic)


class MaskedWords(nn.Module):
    """Masked-word head: a dense layer, a norm, the output matrix, and its bias."""

    config: Config
    token_embedder: nn.Module

    @nn.compact
    def __call__(self, hidden: Hidden) -> Float[Array, "batch length vocab"]:
        config = self.config
        x = layers.linear(
            config.emb_dim, ("mlp", "embed"), use_bias=True, name="dense"
        )(hidden)
        # Every head has this norm in float32, whatever the dtype of the blocks.
        x = _norm(dataclasses.replace(config, dtype=jnp.float32), "norm")(
            layers.activation(config.activation)(x)
        )
        bias = param_with_axes(
            "bias",
            nn.initializers.zeros,
            (config.vocab_size,),
            jnp.float32,
            axes=("vocab",),
        )
        if config.tie_embeddings:
            return self.token_embedder.attend(x) + bias
        output = layers.linear(config.vocab_size, ("embed", "vocab"), name="output")
        return output(x.astype(jnp.float32)) + bias


class Bert(nn.Module):
    """The encoder, and one method for each head that a configuration can name."""

    config: Config

    def setup(self) -> None:
        config = self.config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        if config.head in ("pooler", "classifier"):
            self.dense = layers.linear(
                config.emb_dim, ("mlp", "embed"), use_bias=True, dtype=config.dtype
            )
        if config.head == "classifier":
            self.dropout = nn.Dropout(config.dropout_rate)
            self.output = layers.linear(
                len(config.labels), ("embed", _LABELS), use_bias=True
            )
        if config.head == "masked_lm":
            self.masked_words = MaskedWords(config, self.embeddings.token_embedder)

    def __call__(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Bool[Array, "batch length"] | None = None,
        *,
        enable_dropout: bool = False,
    ) -> Hidden:
        """Returns hidden states of the last layer.

        Args:
            tokens: ids of the published vocabulary.
            segments: 0 for the first sentence, 1 for the second of a pair; None means
                0.
            mask: False at padding; None masks `pad_token_id`.
            enable_dropout: needs the random stream "dropout".

        Raises:
            UserError: the sequences are longer than the table of positions.
        """
        fixed = not enable_dropout
        tokens = tokens.astype(jnp.int32)
        if segments is None:
            segments = jnp.zeros_like(tokens)
        if mask is None:
            mask = tokens != self.config.pad_token_id
        x = self.encoder(self.embeddings(tokens, segments, fixed), mask, fixed)
        if self.is_initializing():
            self._use_head(x)
        return x

    def _use_head(self, hidden: Hidden) -> None:
        # Parameters are created on first use.
        if self.config.head == "pooler":
            self.dense(hidden[:, 0])
        elif self.config.head == "classifier":
            self.output(self.dense(hidden[:, 0]))
        elif self.config.head == "masked_lm":
            self.masked_words(hidden)

    def pooled(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Bool[Array, "batch length"] | None = None,
    ) -> Float[Array, "batch emb"]:
        """Returns BERT's pooled output: a dense layer and tanh on the first position.

        Raises:
            UserError: the configuration has neither the head "pooler" nor "classifier".
        """
        hf_config.require_head(self.config.head, "pooler", "classifier")
        return jnp.tanh(self.dense(self(tokens, segments, mask)[:, 0]))

    def classify(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Bool[Array, "batch length"] | None = None,
        *,
        enable_dropout: bool = False,
    ) -> Float[Array, "batch labels"]:
        """Returns float32 logits of `config.labels`; BLEURT's score is the only column.

        Raises:
            UserError: the configuration has another head.
        """
        hf_config.require_head(self.config.head, "classifier")
        x = self(tokens, segments, mask, enable_dropout=enable_dropout)[:, 0]
        # RoBERTa also applies dropout before its dense layer. BERT does not, so neither
        # does this network.
        x = self.dropout(jnp.tanh(self.dense(x)), deterministic=not enable_dropout)
        return self.output(x.astype(jnp.float32))

    def masked_logits(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Bool[Array, "batch length"] | None = None,
    ) -> Float[Array, "batch length vocab"]:
        """Returns float32 logits of the masked-word head at each position.

        Raises:
            UserError: the configuration has another head.
        """
        hf_config.require_head(self.config.head, "masked_lm")
        return self.masked_words(self(tokens, segments, mask))


NETWORK = Bert
