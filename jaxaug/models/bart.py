"""BART, Pegasus, and Marian: encoder-decoders that differ in a few flags.

BART (Lewis et al. 2020) has learned positions, a norm on the embedding, and norms after
each residual. Pegasus (Zhang et al. 2020) has sinusoidal positions and norms before
each half of a block. Marian (Junczys-Dowmunt et al. 2018) has sinusoidal positions and
norms after each half. All tie the output matrix to the embedding and add a bias to the
logits.
"""

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes
from jax import lax
from jaxtyping import Array, Float, Int
from t5x.examples.t5 import layers as t5_layers

from jaxaug.core.errors import UserError
from jaxaug.models import layers
from jaxaug.models.bart_blocks import Activations, Decoder, Encoded, Encoder, Tokens
from jaxaug.models.bart_config import IGNORED, Config, key_map, to_hf

__all__ = ["IGNORED", "NETWORK", "Bart", "Config", "key_map", "to_hf"]

Inputs = Int[Array, "batch input_length"]
Logits = Float[Array, "batch length vocab"]

# The logical axis of the few outputs of a classifier; no rule shards it.
_LABELS = "kv"


class Bart(nn.Module):
    """Encoder-decoder with the methods of `t5x.examples.t5.network.Transformer`.

    If the configuration names labels, the model has a classifier (`classify`) and no
    logits bias, like BART-large-MNLI.
    """

    config: Config

    ignores_padding: ClassVar[bool] = True

    def setup(self) -> None:
        config = self.config
        self.token_embedder = self._embedder(config.vocab_size)
        # Marian may have a vocabulary per side; the first one belongs to the encoder.
        target_embedder = self.token_embedder
        if config.decoder_vocab_size is not None:
            target_embedder = self._embedder(config.decoder_vocab_size)
        self.target_embedder = target_embedder
        self.encoder = Encoder(config, self.token_embedder)
        self.decoder = Decoder(config, self.target_embedder)
        if config.logits_bias:
            self.final_logits_bias = param_with_axes(
                "final_logits_bias",
                nn.initializers.zeros,
                (config.decoder_vocab_size or config.vocab_size,),
                jnp.float32,
                axes=("vocab",),
            )
        if config.labels:
            self.dense = layers.linear(
                config.emb_dim, ("mlp", "embed"), use_bias=True, dtype=config.dtype
            )
            self.output = layers.linear(
                len(config.labels), ("embed", _LABELS), use_bias=True
            )

    def _embedder(self, size: int) -> layers.Embed:
        config = self.config
        return layers.Embed(
            size,
            config.emb_dim,
            dtype=config.dtype,
            id_offset=config.id_offset,
            bos_token_id=config.decoder_start_token_id,
        )

    def encode(
        self,
        encoder_input_tokens: Tokens,
        encoder_segment_ids: Tokens | None = None,
        enable_dropout: bool = True,
        encoder_positions: Tokens | None = None,
    ) -> Activations:
        """Returns encoded inputs. Id 0 is padding; segments do not see each other.

        Raises:
            UserError: the sequences are longer than the model has positions.
        """
        tokens, segments = encoder_input_tokens, encoder_segment_ids
        mask = t5_layers.make_padding_mask(tokens, tokens, segments, segments)
        return self.encoder(
            encoder_input_tokens, encoder_positions, mask, not enable_dropout
        )

    def decode(
        self,
        encoded: Encoded,
        encoder_input_tokens: Inputs,
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Inputs | None = None,
        decoder_segment_ids: Tokens | None = None,
        decoder_positions: Tokens | None = None,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
    ) -> Logits:
        """Returns float32 logits of the target tokens given the encoded inputs.

        Args:
            encoded: output of `encode`.
            encoder_input_tokens: show which positions of `encoded` are padding (0).
            decoder_input_tokens: the targets shifted right. The first id is 0, which
                stands for `decoder_start_token_id`. A decoding step takes one column.
            decoder_target_tokens: show which positions are padding; unused with
                `decode`.
            encoder_segment_ids: ids of the packed inputs; None means no packing.
            decoder_segment_ids: ids of the packed targets; None means no packing.
            decoder_positions: positions within the packed targets.
            enable_dropout: whether to apply dropout, with the random stream "dropout".
            decode: whether to take one step with the collection `cache`, or to create
                that collection if it is missing (see `layers.Attention`).
            max_decode_length: unused, since the cache knows its length; part of the
                interface.

        Raises:
            UserError: segment ids are combined with `decode` or given for one side
                only, or the sequences are longer than the model has positions.
        """
        del max_decode_length
        if (encoder_segment_ids is None) != (decoder_segment_ids is None):
            raise UserError(
                "segment ids of one side only: inputs and targets are packed together, "
                "so give both or neither"
            )
        if decode and encoder_segment_ids is not None:
            raise UserError(
                "decode=True works on one example a row: leave out the segment ids and "
                "decode from data that is not packed"
            )
        # The step below advances the column, so it is read first.
        column = self._column() if decode else None
        hidden = self._decode(
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
        config = self.config
        logits = self.target_embedder.attend(hidden)
        if config.logits_bias:
            # The bias is a constant of the published model, and its trainers keep it
            # fixed too.
            logits = logits + lax.stop_gradient(self.final_logits_bias)
        if decode and config.never_pad:
            logits = logits.at[..., config.pad_token_id].set(layers.MASKED)
        if column is not None:
            logits = self._force(logits, *column)
        return layers.shift_logits(logits, config.id_offset)

    def _column(self) -> tuple[Int[Array, "*rows"], int] | None:
        """Returns the column that a step writes and the last one, or None."""
        stack = self.variables.get("cache", {}).get("decoder")
        if not stack:
            return None
        length = layers.cache_length(stack["layers_0"]["self_attention"])
        return stack["positions"]["cache_index"], length - 1

    def _force(self, logits: Logits, column: Int[Array, "*rows"], last: int) -> Logits:
        """Masks all but the forced tokens in the first and in the last column."""
        config = self.config
        rows = jnp.arange(logits.shape[-1])
        for token, forced in (
            (config.forced_bos_token_id, column == 0),
            (config.forced_eos_token_id, column == last),
        ):
            if token is not None:
                hidden = forced.reshape(-1, 1, 1) & (rows != token)
                logits = jnp.where(hidden, layers.MASKED, logits)
        return logits

    def _decode(
        self,
        encoded: Encoded,
        encoder_input_tokens: Inputs,
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Inputs | None,
        decoder_segment_ids: Tokens | None,
        decoder_positions: Tokens | None,
        enable_dropout: bool,
        decode: bool,
    ) -> Activations:
        queries, mask = decoder_target_tokens, None
        if decode:
            queries = jnp.ones_like(queries)
        else:
            mask = t5_layers.make_decoder_mask(
                decoder_target_tokens,
                jnp.float32,
                decoder_segment_ids=decoder_segment_ids,
            )
        cross_mask = t5_layers.make_padding_mask(
            queries, encoder_input_tokens, decoder_segment_ids, encoder_segment_ids
        )
        return self.decoder(
            encoded,
            decoder_input_tokens,
            decoder_positions,
            mask,
            cross_mask,
            not enable_dropout,
            decode,
        )

    def __call__(
        self,
        encoder_input_tokens: Inputs,
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Inputs | None = None,
        decoder_segment_ids: Tokens | None = None,
        encoder_positions: Inputs | None = None,
        decoder_positions: Tokens | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
    ) -> Logits:
        """Encodes and decodes; see `encode` and `decode` for the arguments."""
        encoded = self.encode(
            encoder_input_tokens, encoder_segment_ids, enable_dropout, encoder_positions
        )
        if self.is_initializing() and self.config.labels:
            # Parameters are created on first use.
            self.output(self.dense(encoded[:, 0]))
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

    def classify(
        self, tokens: Tokens, *, enable_dropout: bool = False
    ) -> Float[Array, "batch labels"]:
        """Returns float32 logits of `config.labels`.

        The decoder reads the inputs too, shifted right. Its state at the last token of
        a row passes through two dense layers. That token must be the end of sequence.

        Raises:
            UserError: the configuration names no labels.
        """
        if not self.config.labels:
            raise UserError(
                "this model has no classifier: take weights whose config.json names an "
                "architecture ...ForSequenceClassification"
            )
        encoded = self.encode(tokens, enable_dropout=enable_dropout)
        shifted = jnp.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
        hidden = self._decode(
            encoded, tokens, shifted, tokens, None, None, None, enable_dropout, False
        )
        last = jnp.maximum(jnp.sum(tokens > 0, axis=1) - 1, 0)
        x = jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0]
        return self.output(jnp.tanh(self.dense(x)).astype(jnp.float32))


NETWORK = Bart
