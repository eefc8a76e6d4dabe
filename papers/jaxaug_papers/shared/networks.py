"""The interface of T5X for encoder-decoders that read one example a row."""

from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from jaxaug.core.errors import UserError

Tokens = Int[Array, "batch length"]


class EncoderDecoder(nn.Module):
    """The methods of `t5x.examples.t5.network.Transformer`.

    Subclasses define `encode_tokens` and `decode_tokens`, whose tokens are int32.
    """

    def encode_tokens(self, tokens: Tokens, enable_dropout: bool) -> Array:
        """Returns the encoded inputs; 0 is padding and only at the end of a row."""
        raise NotImplementedError

    def decode_tokens(
        self,
        encoded: Array,
        sources: Int[Array, "batch input_length"],
        tokens: Tokens,
        enable_dropout: bool,
        decode: bool,
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits; see `decode`."""
        raise NotImplementedError

    def encode(
        self,
        encoder_input_tokens: Tokens,
        encoder_segment_ids: Tokens | None = None,
        enable_dropout: bool = True,
    ) -> Array:
        """Returns the encoded inputs, which must not be packed.

        Raises:
            UserError: the inputs are packed.
        """
        refuse_packed(encoder_segment_ids)
        # Initialization feeds floats if no type is given.
        return self.encode_tokens(
            encoder_input_tokens.astype(jnp.int32), enable_dropout
        )

    def decode(
        self,
        encoded: Array,
        encoder_input_tokens: Int[Array, "batch input_length"],
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Int[Array, "batch input_length"] | None = None,
        decoder_segment_ids: Tokens | None = None,
        decoder_positions: Tokens | None = None,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits of the target tokens given the encoded inputs.

        Args:
            encoder_input_tokens: inputs; 0 marks padding.
            decoder_input_tokens: targets shifted right; one column in a decoding step.
                The start token 0 has an embedding like any other token.
            decoder_target_tokens: ignored; part of the interface of T5X.
            decode: whether to create the collection `cache` or, if it exists, to decode
                one position.

        Raises:
            UserError: the examples are packed.
        """
        del decoder_target_tokens, decoder_positions, max_decode_length
        refuse_packed(encoder_segment_ids, decoder_segment_ids)
        tokens = decoder_input_tokens.astype(jnp.int32)
        return self.decode_tokens(
            encoded, encoder_input_tokens, tokens, enable_dropout, decode
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
    ) -> Any:
        """Returns the logits of the targets; see `encode` and `decode`."""
        del encoder_positions, decoder_positions
        return self.decode(
            self.encode(encoder_input_tokens, encoder_segment_ids, enable_dropout),
            encoder_input_tokens,
            decoder_input_tokens,
            decoder_target_tokens,
            encoder_segment_ids,
            decoder_segment_ids,
            enable_dropout=enable_dropout,
            decode=decode,
        )


def refuse_packed(*segment_ids: Tokens | None) -> None:
    """Raises `UserError` if examples are packed, because states cross examples."""
    if any(ids is not None for ids in segment_ids):
        raise UserError(
            "the model got segment ids, but its state would run from one packed "
            "example into the next: set `pack = False` for its feature converter"
        )
