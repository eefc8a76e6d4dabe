"""Encoder-decoder transformer of T5 and T5.1.1 (Raffel et al. 2020, Shazeer 2020)."""

from typing import ClassVar

import flax.struct
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t5x.examples.t5 import layers, parts
from t5x.examples.t5.attention import BiasAt
from t5x.examples.t5.masks import Mask
from t5x.examples.t5.parts import (
    Activations,
    LayerConfig,
    Logits,
    Tokens,
    rematerialised,
)
from t5x.examples.t5.position_bias import Bias


@flax.struct.dataclass
class T5Config(LayerConfig):
    """Options of T5, in addition to `LayerConfig`."""

    num_encoder_layers: int = 6
    num_decoder_layers: int = 6


class EncoderBlock(nn.Module):
    """Self-attention and MLP, each with a preceding norm and a residual connection."""

    config: T5Config
    deterministic: bool
    joined_kernels: bool = True

    def block(self, x: Activations, mask: Mask, bias: Bias) -> Activations:
        config, fixed = self.config, self.deterministic
        y = parts.layer_norm(config, "pre_attention_layer_norm")(x)
        y = parts.attention(config, "attention", self.joined_kernels)(
            y, y, mask, bias, deterministic=fixed
        )
        x = parts.constrain(x + parts.dropout(config, fixed)(y))
        y = parts.layer_norm(config, "pre_mlp_layer_norm")(x)
        y = parts.mlp(config)(y, deterministic=fixed)
        return parts.constrain(x + parts.dropout(config, fixed)(y))


class EncoderLayer(EncoderBlock):
    """Encoder block with a bias that all layers share."""

    @nn.compact
    def __call__(self, x, mask, bias):
        return self.block(x, mask, bias)


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention, and MLP."""

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
        y = parts.layer_norm(config, "pre_self_attention_layer_norm")(x)
        y = parts.attention(config, "self_attention", self.joined_kernels)(
            y,
            y,
            mask,
            bias,
            deterministic=fixed,
            decode=self.decode,
            prefill_lengths=prefill_lengths,
        )
        x = parts.constrain(x + parts.dropout(config, fixed)(y))
        y = parts.layer_norm(config, "pre_cross_attention_layer_norm")(x)
        y = parts.attention(config, "encoder_decoder_attention", self.joined_kernels)(
            y, encoded, cross_mask, deterministic=fixed, decode=self.decode, cross=True
        )
        x = parts.constrain(x + parts.dropout(config, fixed)(y))
        y = parts.layer_norm(config, "pre_mlp_layer_norm")(x)
        y = parts.mlp(config)(y, deterministic=fixed)
        return parts.constrain(x + parts.dropout(config, fixed)(y))


class DecoderLayer(DecoderBlock):
    """Decoder block with a bias that all layers share."""

    @nn.compact
    def __call__(self, x, encoded, mask, cross_mask, bias, prefill_lengths=None):
        return self.block(x, encoded, mask, cross_mask, bias, prefill_lengths)


class Encoder(nn.Module):
    """Embedding, layers with a common position bias, and final norm."""

    config: T5Config
    shared_embedding: nn.Module

    def run_layers(
        self, x: Activations, mask: Mask, deterministic: bool
    ) -> Activations:
        bias = parts.self_biases(self.config, x.shape[1], bidirectional=True)
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
        x = parts.embed(self.shared_embedding, encoder_input_tokens, config)
        x = parts.dropout(config, deterministic)(x)
        x = self.run_layers(x, mask, deterministic)
        x = parts.layer_norm(config, "encoder_norm")(x)
        # This is the only dropout of T5 that differs between positions.
        return nn.Dropout(config.dropout_rate)(x, deterministic=deterministic)


class Decoder(nn.Module):
    """Embedding, layers with a common position bias, final norm, and logits."""

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
        bias = parts.decoder_biases(self.config, x.shape[1], decode)
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
        y = parts.embed(self.shared_embedding, decoder_input_tokens, config)
        y = parts.dropout(config, deterministic)(y)
        y = self.run_layers(
            y, encoded, mask, cross_mask, deterministic, decode, prefill_lengths
        )
        y = parts.layer_norm(config, "decoder_norm")(y)
        y = parts.dropout(config, deterministic)(y)
        return parts.output_logits(self, config, self.shared_embedding, y)


class Transformer(nn.Module):
    """The encoder-decoder model."""

    config: T5Config

    encoder_cls: ClassVar[type[Encoder]] = Encoder
    decoder_cls: ClassVar[type[Decoder]] = Decoder
    ignores_padding: ClassVar[bool] = True

    def setup(self) -> None:
        self.shared_embedding = parts.token_embedder(self.config)
        self.encoder = self.encoder_cls(self.config, self.shared_embedding)
        self.decoder = self.decoder_cls(self.config, self.shared_embedding)

    def encode(
        self,
        encoder_input_tokens: Tokens,
        encoder_segment_ids: Tokens | None = None,
        enable_dropout: bool = True,
    ) -> Activations:
        """Encodes inputs in which 0 is padding; segments do not see each other."""
        tokens, segments = encoder_input_tokens, encoder_segment_ids
        mask = layers.make_padding_mask(
            tokens, tokens, segments, segments, self.config.dtype
        )
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
        """Returns the logits of the target tokens given the encoded inputs.

        Args:
            decoder_input_tokens: targets shifted right; one column in a decoding step.
            decoder_target_tokens: mark padding positions, unless `decode`.
            enable_dropout: whether to use dropout; needs the random stream "dropout".
            decode: whether to take one step with the collection `cache`, or to create
                it if it is missing (see `layers.MultiHeadDotProductAttention`).
            prefill: whether to put the first positions into an existing cache at once.
            prefill_lengths: number of positions per row; needed for `prefill`.

        Raises:
            ValueError: segment ids are combined with `decode` or given for inputs only;
                or `prefill` is combined with `decode` or lacks `prefill_lengths`.
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
            queries = jnp.ones_like(decoder_target_tokens)
        else:
            mask = layers.make_decoder_mask(
                decoder_target_tokens, dtype, decoder_segment_ids=decoder_segment_ids
            )
            queries = decoder_target_tokens
        if encoder_segment_ids is not None and decoder_segment_ids is None:
            raise ValueError(
                "encoder_segment_ids need decoder_segment_ids: inputs and targets are "
                "packed together"
            )
        cross_mask = layers.make_padding_mask(
            queries,
            encoder_input_tokens,
            decoder_segment_ids,
            encoder_segment_ids,
            dtype,
        )
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
        """Encodes the inputs and decodes the targets; see `decode` for arguments."""
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
