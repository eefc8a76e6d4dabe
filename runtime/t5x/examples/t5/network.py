"""Encoder-decoder transformer of T5 and T5.1.1 (Raffel et al. 2020, Shazeer 2020)."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import flax.struct
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jaxtyping import Array, Float, Int

from t5x import checks, output_product
from t5x.examples.t5 import fused_attention, layers
from t5x.examples.t5.attention import BiasAt
from t5x.examples.t5.masks import Mask
from t5x.examples.t5.position_bias import Bias, bias_init
from t5x.examples.t5.remat import rematerialised

Tokens = Int[Array, "batch length"]
Activations = Float[Array, "batch length emb"]
Logits = Float[Array, "batch length vocab"]

_SIZES = ("vocab_size", "emb_dim", "num_heads", "head_dim", "mlp_dim")


@flax.struct.dataclass
class LayerConfig:
    """Sizes and options that every network of these layers has.

    Attributes:
        vocab_size: rows of the embedding; often larger than the vocabulary.
        dtype: of activations; parameters and logits are float32.
        emb_dim: width of the model.
        num_heads: attention heads.
        head_dim: size of a head.
        mlp_dim: width of the hidden layer of an MLP block.
        mlp_activations: see `layers.MlpBlock`; T5 has ("relu",), T5.1.1 ("gelu", "linear").
        dropout_rate: of every dropout in the network.
        logits_via_embedding: whether the embedding serves as output matrix too.
        float32_attention_logits: whether attention logits are float32 in every dtype.
        fused_attention: whether attention stores no weights where that can be: in kernels
            on a GPU (with a dtype of 16 bits), and in blocks on a CPU.
        remat_policy: what a layer's backward pass computes again, see `remat`.

    Raises:
        UserError: a size below 1, a negative number of layers, or an unknown dtype.
    """

    vocab_size: int
    dtype: Any = jnp.float32
    emb_dim: int = 512
    num_heads: int = 8
    head_dim: int = 64
    mlp_dim: int = 2048
    mlp_activations: Sequence[str] = ("relu",)
    dropout_rate: float = 0.1
    logits_via_embedding: bool = False
    float32_attention_logits: bool = False
    fused_attention: bool = True
    remat_policy: str = "none"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if isinstance(self.dtype, str):
            checks.dtype(f"{owner}.dtype", self.dtype)
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), f"{owner}.{field.name}"
            # JAX makes pytrees of this class with placeholders for numbers.
            if not isinstance(value, (int, float, str)):
                continue
            if field.name.startswith("num_") and field.name.endswith("_layers"):
                checks.whole_number(name, value, least=0)
            elif field.name in _SIZES:
                checks.whole_number(name, value, least=1)


@flax.struct.dataclass
class T5Config(LayerConfig):
    """The options of `LayerConfig` and:

    Attributes:
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
    """

    num_encoder_layers: int = 6
    num_decoder_layers: int = 6


def layer_norm(config: LayerConfig, name: str) -> nn.Module:
    return layers.LayerNorm(dtype=config.dtype, name=name)


def dropout(
    config: LayerConfig, deterministic: bool, name: str | None = None
) -> nn.Module:
    """Dropout that treats all positions of a sequence alike."""
    return nn.Dropout(
        config.dropout_rate,
        broadcast_dims=(-2,),
        deterministic=deterministic,
        name=name,
    )


def attention(config: LayerConfig, name: str, joined: bool = True) -> nn.Module:
    return layers.MultiHeadDotProductAttention(
        num_heads=config.num_heads,
        head_dim=config.head_dim,
        dtype=config.dtype,
        dropout_rate=config.dropout_rate,
        float32_logits=config.float32_attention_logits,
        fused=config.fused_attention,
        joined_kernels=joined,
        name=name,
    )


def mlp(config: LayerConfig) -> nn.Module:
    return layers.MlpBlock(
        intermediate_dim=config.mlp_dim,
        activations=config.mlp_activations,
        intermediate_dropout_rate=config.dropout_rate,
        dtype=config.dtype,
        name="mlp",
    )


def position_biases(config: LayerConfig) -> layers.RelativePositionBiases:
    return layers.RelativePositionBiases(
        num_buckets=32,
        max_distance=128,
        num_heads=config.num_heads,
        dtype=config.dtype,
        embedding_init=bias_init,
        name="relpos_bias",
    )


def token_embedder(config: LayerConfig) -> layers.Embed:
    return layers.Embed(
        num_embeddings=config.vocab_size,
        features=config.emb_dim,
        dtype=config.dtype,
        attend_dtype=jnp.float32,
        embedding_init=nn.initializers.normal(stddev=1.0),
        name="token_embedder",
    )


def embed(embedder: nn.Module, tokens: Tokens, config: LayerConfig) -> Activations:
    # Initialisation feeds float ones where no type is given.
    return embedder(tokens.astype(jnp.int32)).astype(config.dtype)


def self_biases(config: LayerConfig, length: int, bidirectional: bool) -> Bias:
    """Biases of self-attention: of all pairs, or by distance where kernels take them."""
    biases = position_biases(config)
    if config.fused_attention and fused_attention.by_distance(
        length, config.head_dim, config.dtype
    ):
        return biases.by_distance(length, length, bidirectional)
    return biases(length, length, bidirectional)


def decoder_biases(config: LayerConfig, length: int, decode: bool) -> Bias | BiasAt:
    """Biases of a causal stack: for all positions, or by position while decoding."""
    if not decode:
        return self_biases(config, length, bidirectional=False)
    biases = position_biases(config)
    return lambda positions, keys: biases.at(positions, keys, bidirectional=False)


def output_logits(
    module: nn.Module, config: LayerConfig, embedder: nn.Module, y: Activations
) -> Logits:
    """Float32 logits. Tied ones are divided by sqrt(emb_dim), since the embedding is not.

    Their factors are told as those of `module` (see `t5x.output_product`).
    """
    y = y.astype(jnp.float32)
    if config.logits_via_embedding:
        root = jnp.sqrt(y.shape[-1])
        logits = embedder.attend(y) / root
        if output_product.is_wanted(module):
            table = jnp.asarray(embedder.embedding, jnp.float32)
            output_product.tell(module, logits, y / root, table=table)
        return logits
    dense = layers.DenseGeneral(
        config.vocab_size,
        dtype=jnp.float32,
        kernel_axes=("embed", "vocab"),
        name="logits_dense",
    )
    logits = dense(y)
    if output_product.is_wanted(module):
        kernel: Array = dense.get_variable("params", "kernel")
        output_product.tell(module, logits, y, kernel=kernel)
    return logits


def constrain(x: Activations) -> Activations:
    return with_sharding_constraint(x, ("batch", "length", "embed"))


class EncoderBlock(nn.Module):
    """Self-attention and MLP, each with a norm before and a residual around it."""

    config: T5Config
    deterministic: bool
    joined_kernels: bool = True

    def block(self, x: Activations, mask: Mask, bias: Bias) -> Activations:
        config, fixed = self.config, self.deterministic
        y = layer_norm(config, "pre_attention_layer_norm")(x)
        y = attention(config, "attention", self.joined_kernels)(
            y, y, mask, bias, deterministic=fixed
        )
        x = constrain(x + dropout(config, fixed)(y))
        y = layer_norm(config, "pre_mlp_layer_norm")(x)
        y = mlp(config)(y, deterministic=fixed)
        return constrain(x + dropout(config, fixed)(y))


class EncoderLayer(EncoderBlock):
    """The block with a bias that all layers share."""

    @nn.compact
    def __call__(self, x, mask, bias):
        return self.block(x, mask, bias)


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention and MLP."""

    config: T5Config
    deterministic: bool
    decode: bool
    joined_kernels: bool = True

    def block(
        self,
        x: Activations,
        encoded: Float[Array, "batch input_length emb"],
        mask: Mask | None,
        cross_mask: Mask,
        bias: Bias | BiasAt,
        prefill_lengths: Int[Array, " batch"] | None = None,
    ) -> Activations:
        config, fixed = self.config, self.deterministic
        y = layer_norm(config, "pre_self_attention_layer_norm")(x)
        y = attention(config, "self_attention", self.joined_kernels)(
            y,
            y,
            mask,
            bias,
            deterministic=fixed,
            decode=self.decode,
            prefill_lengths=prefill_lengths,
        )
        x = constrain(x + dropout(config, fixed)(y))
        y = layer_norm(config, "pre_cross_attention_layer_norm")(x)
        y = attention(config, "encoder_decoder_attention", self.joined_kernels)(
            y, encoded, cross_mask, deterministic=fixed, decode=self.decode, cross=True
        )
        x = constrain(x + dropout(config, fixed)(y))
        y = layer_norm(config, "pre_mlp_layer_norm")(x)
        y = mlp(config)(y, deterministic=fixed)
        return constrain(x + dropout(config, fixed)(y))


class DecoderLayer(DecoderBlock):
    """The block with a bias that all layers share."""

    @nn.compact
    def __call__(self, x, encoded, mask, cross_mask, bias, prefill_lengths=None):
        return self.block(x, encoded, mask, cross_mask, bias, prefill_lengths)


class Encoder(nn.Module):
    """Embedding, layers with a common position bias, final norm."""

    config: T5Config
    shared_embedding: nn.Module

    def run_layers(
        self, x: Activations, mask: Mask, deterministic: bool
    ) -> Activations:
        bias = self_biases(self.config, x.shape[1], bidirectional=True)
        layer_cls = rematerialised(EncoderLayer, self.config)
        for i in range(self.config.num_encoder_layers):
            layer = layer_cls(self.config, deterministic, name=f"layers_{i}")
            x = layer(x, mask, bias)
        return x

    @nn.compact
    def __call__(
        self, encoder_input_tokens: Tokens, mask: Mask, deterministic: bool
    ) -> Activations:
        config = self.config
        x = embed(self.shared_embedding, encoder_input_tokens, config)
        x = dropout(config, deterministic)(x)
        x = self.run_layers(x, mask, deterministic)
        x = layer_norm(config, "encoder_norm")(x)
        # The one dropout of T5 that differs between positions.
        return nn.Dropout(config.dropout_rate)(x, deterministic=deterministic)


class Decoder(nn.Module):
    """Embedding, layers with a common position bias, final norm, logits."""

    config: T5Config
    shared_embedding: nn.Module

    def run_layers(
        self,
        x: Activations,
        encoded: Float[Array, "batch input_length emb"],
        mask: Mask | None,
        cross_mask: Mask,
        deterministic: bool,
        decode: bool,
        prefill_lengths: Int[Array, " batch"] | None = None,
    ) -> Activations:
        bias = decoder_biases(self.config, x.shape[1], decode)
        # Decoding has no backward pass.
        layer_cls = (
            DecoderLayer if decode else rematerialised(DecoderLayer, self.config)
        )
        for i in range(self.config.num_decoder_layers):
            layer = layer_cls(self.config, deterministic, decode, name=f"layers_{i}")
            x = layer(x, encoded, mask, cross_mask, bias, prefill_lengths)
        return x

    @nn.compact
    def __call__(
        self,
        encoded: Float[Array, "batch input_length emb"],
        decoder_input_tokens: Tokens,
        mask: Mask | None,
        cross_mask: Mask,
        deterministic: bool,
        decode: bool,
        prefill_lengths: Int[Array, " batch"] | None = None,
    ) -> Logits:
        config = self.config
        y = embed(self.shared_embedding, decoder_input_tokens, config)
        y = dropout(config, deterministic)(y)
        y = self.run_layers(
            y, encoded, mask, cross_mask, deterministic, decode, prefill_lengths
        )
        y = layer_norm(config, "decoder_norm")(y)
        y = dropout(config, deterministic)(y)
        return output_logits(self, config, self.shared_embedding, y)


class Transformer(nn.Module):
    """The encoder-decoder model."""

    config: T5Config

    encoder_cls: ClassVar[type[Encoder]] = Encoder
    decoder_cls: ClassVar[type[Decoder]] = Decoder
    ignores_padding: ClassVar[bool] = True

    def setup(self) -> None:
        self.shared_embedding = token_embedder(self.config)
        self.encoder = self.encoder_cls(self.config, self.shared_embedding)
        self.decoder = self.decoder_cls(self.config, self.shared_embedding)

    def encode(
        self,
        encoder_input_tokens: Tokens,
        encoder_segment_ids: Tokens | None = None,
        enable_dropout: bool = True,
    ) -> Activations:
        """Encodes inputs in which 0 is padding; segments do not see each other."""
        is_token = encoder_input_tokens > 0
        dtype = self.config.dtype
        mask = layers.make_attention_mask(is_token, is_token, dtype=dtype)
        if encoder_segment_ids is not None:
            same_segment = layers.make_attention_mask(
                encoder_segment_ids, encoder_segment_ids, jnp.equal, dtype=dtype
            )
            mask = layers.combine_masks(mask, same_segment, dtype=dtype)
        return self.encoder(encoder_input_tokens, mask, not enable_dropout)

    def decode(
        self,
        encoded: Float[Array, "batch input_length emb"],
        encoder_input_tokens: Int[Array, "batch input_length"],
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Int[Array, "batch input_length"] | None = None,
        decoder_segment_ids: Tokens | None = None,
        decoder_positions: Tokens | None = None,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
        prefill: bool = False,
        prefill_lengths: Int[Array, " batch"] | None = None,
    ) -> Logits:
        """Logits of the target tokens given the encoded inputs.

        Args:
            encoded: output of `encode`.
            encoder_input_tokens: show which positions of `encoded` are padding.
            decoder_input_tokens: the targets shifted right; one column in a decoding step.
            decoder_target_tokens: show which positions are padding, unless `decode`.
            encoder_segment_ids: for packed inputs.
            decoder_segment_ids: for packed targets.
            decoder_positions: not needed by relative positions; part of the interface.
            enable_dropout: needs the random stream "dropout".
            decode: whether to create the collection `cache` or, if it is given, to take
                one step (see `layers.MultiHeadDotProductAttention`).
            max_decode_length: not needed, since the cache knows its length; part of the
                interface.
            prefill: whether to put the first positions into an existing cache at once.
            prefill_lengths: how many, for each row; needed if `prefill`.

        Raises:
            ValueError: segment ids come together with `decode`, or of the inputs alone;
                `prefill` together with `decode` or without `prefill_lengths`.
        """
        del decoder_positions, max_decode_length
        if prefill and (decode or prefill_lengths is None):
            raise ValueError(
                "prefill=True needs prefill_lengths, and comes in a call of its own "
                "before the steps with decode=True"
            )
        if decode and encoder_segment_ids is not None:
            raise ValueError(
                "decode=True works on one example a row: leave out encoder_segment_ids "
                "and decode from data that is not packed"
            )
        dtype = self.config.dtype
        if decode:
            mask = None
            is_query = jnp.ones_like(decoder_target_tokens)
        else:
            mask = layers.make_decoder_mask(
                decoder_target_tokens, dtype, decoder_segment_ids=decoder_segment_ids
            )
            is_query = decoder_target_tokens > 0
        cross_mask = layers.make_attention_mask(
            is_query, encoder_input_tokens > 0, dtype=dtype
        )
        if encoder_segment_ids is not None:
            if decoder_segment_ids is None:
                raise ValueError(
                    "encoder_segment_ids need decoder_segment_ids: inputs and targets "
                    "are packed together"
                )
            same_segment = layers.make_attention_mask(
                decoder_segment_ids, encoder_segment_ids, jnp.equal, dtype=dtype
            )
            cross_mask = layers.combine_masks(cross_mask, same_segment, dtype=dtype)
        return self.decoder(
            encoded,
            decoder_input_tokens,
            mask,
            cross_mask,
            not enable_dropout,
            decode,
            prefill_lengths if prefill else None,
        )

    def __call__(
        self,
        encoder_input_tokens: Int[Array, "batch input_length"],
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Int[Array, "batch input_length"] | None = None,
        decoder_segment_ids: Tokens | None = None,
        encoder_positions: Int[Array, "batch input_length"] | None = None,
        decoder_positions: Tokens | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
    ) -> Logits:
        """`decode` of `encode`; the arguments are explained there."""
        del encoder_positions
        encoded = self.encode(encoder_input_tokens, encoder_segment_ids, enable_dropout)
        return self.decode(
            encoded,
            encoder_input_tokens,
            decoder_input_tokens,
            decoder_target_tokens,
            encoder_segment_ids,
            decoder_segment_ids,
            decoder_positions,
            enable_dropout,
            decode,
        )
