"""Training and decoding of a decoder-only module."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.core
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.core.scope import CollectionFilter
from flax.linen import partitioning as flax_partitioning
from jaxtyping import Array, Float, Int

from t5x import decoding
from t5x.errors import UserError
from t5x.model.base_model import (
    BaseTransformerModel,
    Batch,
    DecodeFnCallable,
    LazyAttribute,
    LossNormalizingFactor,
    PyTree,
    placeholders,
    tells_product,
)
from t5x.search.decode_state import merged_cache


class DecoderOnlyModel(BaseTransformerModel):
    """Language model over targets, or over inputs followed by targets.

    With inputs, the loss counts only the targets, as `decoder_loss_weights` states.
    """

    FEATURE_CONVERTER_CLS: Any = LazyAttribute("seqio:DecoderFeatureConverter")
    # Holds only if the module ignores padding; see `t5x.inference.lengths`.
    ignores_padding = True

    def __init__(
        self,
        module: nn.Module,
        vocabulary: Any,
        optimizer_def: Any,
        decode_fn: DecodeFnCallable = decoding.temperature_sample,
        inputs_bidirectional_attention: bool = False,
        feature_converter_cls: Callable[..., Any] | None = None,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        loss_normalizing_factor: LossNormalizingFactor = None,
        loss_chunk: int | None = None,
    ):
        """Initializes the model; see `BaseTransformerModel` for the other arguments.

        Args:
            inputs_bidirectional_attention: whether input positions attend to each other
                in both directions (prefix language model, Raffel et al. 2020, section
                3.2.1).
        """
        super().__init__(
            module=module,
            input_vocabulary=vocabulary,
            output_vocabulary=vocabulary,
            optimizer_def=optimizer_def,
            decode_fn=decode_fn,
            label_smoothing=label_smoothing,
            z_loss=z_loss,
            loss_normalizing_factor=loss_normalizing_factor,
            loss_chunk=loss_chunk,
            feature_converter_cls=feature_converter_cls,
        )
        self._inputs_bidirectional_attention = inputs_bidirectional_attention

    def get_initial_variables(
        self,
        rng: jax.Array,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, Any] | None = None,
    ) -> flax.core.FrozenDict:
        """Returns initial variables; inputs are float32 without `input_types`."""
        tokens = placeholders(
            input_shapes, input_types, decoder_input_tokens=jnp.float32
        )["decoder_input_tokens"]
        variables = self.module.init(rng, tokens, tokens, enable_dropout=False)
        return flax.core.freeze(variables)

    def _get_decoder_causal_attention(self, batch: Batch) -> Array | None:
        if not self._inputs_bidirectional_attention:
            return None
        if "decoder_causal_attention" not in batch:
            raise UserError(
                "inputs_bidirectional_attention needs the feature "
                "'decoder_causal_attention': give task_feature_lengths for both "
                "'inputs' and 'targets'"
            )
        return batch["decoder_causal_attention"]

    @tells_product
    def _compute_logits(
        self,
        params: PyTree,
        batch: Batch,
        dropout_rng: jax.Array | None = None,
        mutable: CollectionFilter = False,
        other_variables: PyTree | None = None,
    ) -> Any:
        """Returns logits [batch, length, vocab], and the `mutable` variables if any."""
        return self.module.apply(
            {"params": params, **(other_variables or {})},
            batch["decoder_input_tokens"],
            batch["decoder_target_tokens"],
            decoder_segment_ids=batch.get("decoder_segment_ids"),
            decoder_positions=batch.get("decoder_positions"),
            decoder_causal_attention=self._get_decoder_causal_attention(batch),
            decode=False,
            enable_dropout=dropout_rng is not None,
            rngs=None if dropout_rng is None else {"dropout": dropout_rng},
            mutable=mutable,
        )

    def _compute_logits_from_slice(
        self,
        decoding_state: decoding.DecodingState,
        params: PyTree,
        max_decode_length: int,
    ) -> tuple[Float[Array, "rows vocab"], Mapping[str, Any]]:
        """Runs one step; returns the next-token logits and the new cache."""
        logits, variables = self.module.apply(
            {"params": params, "cache": decoding_state.cache},
            decoding_state.cur_token,
            decoding_state.cur_token,
            enable_dropout=False,
            decode=True,
            max_decode_length=max_decode_length,
            mutable=["cache"],
        )
        return jnp.squeeze(logits, axis=1), variables["cache"]

    def _compute_kv_cache(
        self,
        params: PyTree,
        inputs: Int[Array, "batch length"],
        causal_attention_mask: Int[Array, "batch length"],
    ) -> tuple[PyTree, Int[Array, " batch"]]:
        """Returns a cache of all inputs but the last, and the position of the last.

        The last token is fed again in the first step, because its logits choose the
        first target. `causal_attention_mask` is 1 at BOS and inputs.
        """
        shape_only = jnp.ones_like(inputs)
        _, variables = self.module.apply(
            {"params": params},
            shape_only,
            shape_only,
            enable_dropout=False,
            decode=True,
            mutable=["cache", "beam_cache"],
        )
        cache = variables["cache"]
        if "cache_axes" in variables:
            cache = jax.tree.map(
                flax_partitioning.with_sharding_constraint,
                cache,
                flax_partitioning.get_axis_names(variables["cache_axes"]),
            )
        if "beam_cache" in variables:
            cache = merged_cache(cache, variables["beam_cache"])
        lengths = jnp.sum(inputs[:, 1:] != 0, axis=-1)
        _, variables = self.module.apply(
            {"params": params, "cache": cache},
            decoder_input_tokens=inputs,
            # Masks the padding; the inputs cannot, because the id of BOS is 0.
            decoder_target_tokens=causal_attention_mask,
            decoder_causal_attention=self._get_decoder_causal_attention(
                {"decoder_causal_attention": causal_attention_mask}
            ),
            mutable=["cache"],
            enable_dropout=False,
            prefill=True,
            prefill_lengths=lengths,
        )
        return variables["cache"], lengths

    def predict_batch_with_aux(
        self,
        params: PyTree,
        batch: Batch,
        rng: jax.Array | None = None,
        *,
        return_all_decodes: bool = False,
        num_decodes: int = 1,
        decoder_params: Mapping[str, Any] | None = None,
    ) -> tuple[Int[Array, "batch *num_decodes length"], Mapping[str, Array]]:
        """Continues the inputs; see `EncoderDecoderModel.predict_batch_with_aux`.

        For inputs [9, 4, 1] and targets [3, 1] the converter makes decoder_input_tokens
        [0, 9, 4, 1, 3, 0] and decoder_causal_attention [1, 1, 1, 1, 0, 0]. Their
        product is the prompt. The result starts with the tokens after the prompt.

        Raises:
            UserError: the batch has no `decoder_causal_attention`.
            ValueError: an rng is given twice.
        """
        if "decoder_causal_attention" not in batch:
            raise UserError(
                "prediction needs the feature 'decoder_causal_attention', which shows "
                "where the inputs end: give task_feature_lengths for both 'inputs' and "
                "'targets'"
            )
        decode_args = self._decoder_params(decoder_params, rng)
        causal_attention = batch["decoder_causal_attention"]
        inputs = batch["decoder_input_tokens"] * causal_attention
        cache, initial_index = self._compute_kv_cache(params, inputs, causal_attention)
        tokens_to_logits = functools.partial(
            self._compute_logits_from_slice,
            params=params,
            max_decode_length=inputs.shape[1],
        )
        decodes, scores = self._required_decode_fn()(
            inputs=inputs,
            cache=cache,
            tokens_to_logits=tokens_to_logits,
            num_decodes=num_decodes,
            initial_index=initial_index,
            cache_offset=self._cache_offset,
            **decode_args,
        )
        if not return_all_decodes:
            decodes, scores = decodes[:, -1, :], scores[:, -1]
        return remove_prefix(decodes, initial_index), {"scores": scores}


@jax.vmap
def remove_prefix(
    sequence: Int[Array, "*num_decodes length"], prefix_length: Int[Array, ""]
) -> Int[Array, "*num_decodes length"]:
    """Drops the first `prefix_length` tokens and pads with 0; maps over the batch."""
    is_prefix = jnp.arange(sequence.shape[-1]) < prefix_length
    return jnp.roll(jnp.where(is_prefix, 0, sequence), -prefix_length, axis=-1)
