"""Decoder-only transformer (causal or prefix language model) of T5 layers."""

from typing import ClassVar

import flax.struct
from flax import linen as nn
from jaxtyping import Array, Int

from t5x.examples.t5 import layers, parts
from t5x.examples.t5.attention import BiasAt
from t5x.examples.t5.masks import Mask
from t5x.examples.t5.parts import rematerialised
from t5x.examples.t5.position_bias import Bias


@flax.struct.dataclass
class TransformerConfig(parts.LayerConfig):
    """Options of a decoder-only network, in addition to `t5.parts.LayerConfig`."""

    num_layers: int = 6


class DecoderLayer(nn.Module):
    """Self-attention and MLP of one layer."""

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
    """The whole stack: embedding, layers, norm, and logits."""

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
        """Returns the logits of the target tokens.

        The other arguments are the same as in `t5.network.Transformer.decode`.

        Args:
            decoder_causal_attention: 1 at positions that see each other in both
                directions.
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
    """Wraps the stack in the scope `decoder`, as in published checkpoints."""

    config: TransformerConfig

    ignores_padding: ClassVar[bool] = True

    def setup(self) -> None:
        self.decoder = Decoder(self.config)

    def __call__(self, *args, **kwargs) -> parts.Logits:
        return self.decoder(*args, **kwargs)
