"""Decoder-only transformer (causal or prefix language model) of T5 layers."""

from typing import ClassVar

import flax.struct
from flax import linen as nn
from jaxtyping import Array, Int

from t5x.examples.t5 import layers, parts
from t5x.examples.t5.attention import BiasAt
from t5x.examples.t5.masks import Mask
from t5x.examples.t5.position_bias import Bias
from t5x.examples.t5.remat import rematerialised


@flax.struct.dataclass
class TransformerConfig(parts.LayerConfig):
    """The options of `t5x.examples.t5.parts.LayerConfig` and:

    Attributes:
        num_layers: layers of the decoder.
    """

    num_layers: int = 6


class DecoderLayer(nn.Module):
    """Self-attention and MLP."""

    config: TransformerConfig
    deterministic: bool
    decode: bool

    @nn.compact
    def __call__(
        self,
        x: parts.Activations,
        mask: Mask | None,
        bias: Bias | BiasAt,
        prefill_lengths: Int[Array, " batch"] | None,
    ) -> parts.Activations:
        config, fixed = self.config, self.deterministic
        y = parts.layer_norm(config, "pre_self_attention_layer_norm")(x)
        y = parts.attention(config, "self_attention")(
            y,
            y,
            mask,
            bias,
            deterministic=fixed,
            decode=self.decode,
            prefill_lengths=prefill_lengths,
        )
        x = parts.constrain(
            x + parts.dropout(config, fixed, "post_self_attention_dropout")(y)
        )
        y = parts.layer_norm(config, "pre_mlp_layer_norm")(x)
        y = parts.mlp(config)(y, deterministic=fixed)
        return parts.constrain(x + parts.dropout(config, fixed, "post_mlp_dropout")(y))


class Decoder(nn.Module):
    """The whole stack: embedding, layers, norm, logits."""

    config: TransformerConfig

    @nn.compact
    def __call__(
        self,
        decoder_input_tokens: parts.Tokens,
        decoder_target_tokens: parts.Tokens,
        decoder_segment_ids: parts.Tokens | None = None,
        decoder_positions: parts.Tokens | None = None,
        decoder_causal_attention: parts.Tokens | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
        prefill: bool = False,
        prefill_lengths: Int[Array, " batch"] | None = None,
    ) -> parts.Logits:
        """Logits of the target tokens.

        Args:
            decoder_input_tokens: the targets shifted right; one column in a decoding step.
            decoder_target_tokens: show which positions are padding (0), unless `decode`.
            decoder_segment_ids: for packed rows.
            decoder_positions: not needed by relative positions; part of the interface.
            decoder_causal_attention: 1 at positions that see each other both ways.
            enable_dropout: needs the random stream "dropout".
            decode: whether to create the collection `cache` or, if it is given, to take
                one step.
            max_decode_length: not needed, since the cache knows its length; part of the
                interface.
            prefill: whether to put the first positions into an existing cache at once.
            prefill_lengths: how many, for each row; needed if `prefill`.

        Raises:
            ValueError: `prefill` together with `decode` or without `prefill_lengths`.
        """
        del decoder_positions, max_decode_length
        if prefill and (decode or prefill_lengths is None):
            raise ValueError(
                "prefill=True needs prefill_lengths, and comes in a call of its own "
                "before the steps with decode=True"
            )
        config, deterministic = self.config, not enable_dropout
        mask = None
        if not decode:
            mask = layers.make_decoder_mask(
                decoder_target_tokens,
                config.dtype,
                decoder_causal_attention,
                decoder_segment_ids,
            )
        embedder = parts.token_embedder(config)
        y = parts.embed(embedder, decoder_input_tokens, config)
        y = parts.dropout(config, deterministic, "input_dropout")(y)
        bias = parts.decoder_biases(config, y.shape[1], decode)
        keeps = decode or prefill
        layer_cls = DecoderLayer if keeps else rematerialised(DecoderLayer, config)
        for i in range(config.num_layers):
            layer = layer_cls(config, deterministic, decode, name=f"layers_{i}")
            y = layer(y, mask, bias, prefill_lengths if prefill else None)
        y = parts.layer_norm(config, "decoder_norm")(y)
        y = parts.dropout(config, deterministic, "output_dropout")(y)
        return parts.output_logits(self, config, embedder, y)


class DecoderWrapper(nn.Module):
    """Puts the stack into the scope `decoder`, where published checkpoints have it."""

    config: TransformerConfig

    ignores_padding: ClassVar[bool] = True

    def setup(self) -> None:
        self.decoder = Decoder(self.config)

    def __call__(self, *args, **kwargs) -> parts.Logits:
        return self.decoder(*args, **kwargs)
