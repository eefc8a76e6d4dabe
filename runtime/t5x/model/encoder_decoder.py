"""Training and decoding of an encoder-decoder module."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import flax.core
import jax
import jax.numpy as jnp
from absl import logging
from flax import linen as nn
from flax.core.scope import CollectionFilter
from jaxtyping import Array, Float, Int

from t5x import decoding
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


@dataclasses.dataclass(frozen=True)
class DecoderParams:
    """Defaults of `EncoderDecoderModel.predict_batch_with_aux`."""

    return_all_decodes: bool = False
    num_decodes: int = 1


class EncoderDecoderModel(BaseTransformerModel):
    """Model of a module with `encode` and `decode`, such as `t5.network.Transformer`.

    Batches hold `encoder_input_tokens`, `decoder_input_tokens`,
    `decoder_target_tokens`, and `decoder_loss_weights`. Packed batches also hold
    `segment_ids` and `positions`, with the prefixes `encoder_` and `decoder_`.
    """

    FEATURE_CONVERTER_CLS: Any = LazyAttribute("seqio:EncDecFeatureConverter")
    # Holds only if the module ignores padding; see `t5x.inference.lengths`.
    ignores_padding = True

    def __init__(
        self,
        module: nn.Module,
        input_vocabulary: Any,
        output_vocabulary: Any,
        optimizer_def: Any,
        decode_fn: DecodeFnCallable = decoding.beam_search,
        feature_converter_cls: Callable[..., Any] | None = None,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        loss_normalizing_factor: LossNormalizingFactor = None,
        default_decoder_params: DecoderParams | None = None,
        loss_chunk: int | None = None,
    ):
        """Initializes the model; see `BaseTransformerModel` for the other arguments."""
        super().__init__(
            module=module,
            input_vocabulary=input_vocabulary,
            output_vocabulary=output_vocabulary,
            optimizer_def=optimizer_def,
            decode_fn=decode_fn,
            label_smoothing=label_smoothing,
            z_loss=z_loss,
            loss_normalizing_factor=loss_normalizing_factor,
            loss_chunk=loss_chunk,
            feature_converter_cls=feature_converter_cls,
        )
        self._default_decoder_params = default_decoder_params or DecoderParams()

    def get_initial_variables(
        self,
        rng: jax.Array,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, Any] | None = None,
    ) -> flax.core.FrozenDict:
        """Returns initial variables; inputs are float32 without `input_types`."""
        inputs = placeholders(
            input_shapes,
            input_types,
            encoder_input_tokens=jnp.float32,
            decoder_input_tokens=jnp.float32,
            encoder_positions=jnp.int32,
            decoder_positions=jnp.int32,
            encoder_segment_ids=jnp.int32,
            decoder_segment_ids=jnp.int32,
        )
        encoder_tokens = inputs.pop("encoder_input_tokens")
        decoder_tokens = inputs.pop("decoder_input_tokens")
        variables = self.module.init(
            rng,
            encoder_tokens,
            decoder_tokens,
            decoder_tokens,
            decode=False,
            enable_dropout=False,
            **inputs,
        )
        return flax.core.freeze(variables)

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
        optional: dict[str, Any] = {
            name: batch.get(name)
            for name in (
                "encoder_segment_ids",
                "decoder_segment_ids",
                "encoder_positions",
                "decoder_positions",
            )
        }
        return self.module.apply(
            {"params": params, **(other_variables or {})},
            batch["encoder_input_tokens"],
            batch["decoder_input_tokens"],
            batch["decoder_target_tokens"],
            **optional,
            decode=False,
            enable_dropout=dropout_rng is not None,
            rngs=None if dropout_rng is None else {"dropout": dropout_rng},
            mutable=mutable,
        )

    def _compute_logits_from_slice(
        self,
        decoding_state: decoding.DecodingState,
        params: PyTree,
        encoded_inputs: Float[Array, "rows input_length emb"],
        raw_inputs: Int[Array, "rows input_length"],
        max_decode_length: int,
    ) -> tuple[Float[Array, "rows vocab"], Mapping[str, Any]]:
        """Runs one step; returns the next-token logits and the new cache."""
        logits, variables = self.module.apply(
            {"params": params, "cache": decoding_state.cache},
            encoded_inputs,
            raw_inputs,
            decoding_state.cur_token,
            decoding_state.cur_token,
            enable_dropout=False,
            decode=True,
            max_decode_length=max_decode_length,
            mutable=["cache"],
            method=self.module.decode,
        )
        return jnp.squeeze(logits, axis=1), variables["cache"]

    def _compute_kv_cache(
        self,
        params: PyTree,
        encoded_inputs: Float[Array, "batch input_length emb"],
        encoder_input_tokens: Int[Array, "batch input_length"],
        decoder_input_tokens: Int[Array, "batch length"],
        prefill_decoder_prompt: bool = False,
    ) -> tuple[PyTree, Int[Array, " batch"] | None]:
        """Returns the decoding cache, and the prompt lengths if it holds the prompts.

        It includes projected encoder outputs if the module keeps them. In the prompt,
        `decoder_input_tokens`, 0 is padding.
        """
        shape_only = jnp.ones_like(decoder_input_tokens)
        _, variables = self.module.apply(
            {"params": params},
            encoded_inputs,
            encoder_input_tokens,
            shape_only,
            shape_only,
            enable_dropout=False,
            decode=True,
            mutable=["cache", "cross_cache", "beam_cache"],
            method=self.module.decode,
        )
        # As leaves of the cache they pass through every decode function, which repeats
        # and reorders them with the cache.
        cache = variables["cache"]
        for name in ("cross_cache", "beam_cache"):
            if name in variables:
                cache = merged_cache(cache, variables[name])
        if not prefill_decoder_prompt:
            return cache, None
        lengths = jnp.sum(decoder_input_tokens != 0, axis=1)
        _, variables = self.module.apply(
            {"params": params, "cache": cache},
            encoded=encoded_inputs,
            encoder_input_tokens=encoder_input_tokens,
            decoder_input_tokens=decoder_input_tokens,
            decoder_target_tokens=shape_only,
            mutable=["cache"],
            enable_dropout=False,
            prefill=True,
            prefill_lengths=lengths,
            method=self.module.decode,
        )
        cache = variables["cache"]
        if "position_embedder" in cache["decoder"]:
            index = {
                "decoder": {"position_embedder": {"position_embedder_index": lengths}}
            }
            cache = merged_cache(cache, index)
        return cache, lengths

    def _can_prefill(self) -> bool:
        """Returns whether decode function and module support cached prompts."""
        for function, parameter in (
            (self._required_decode_fn(), "initial_index"),
            (self.module.decode, "prefill"),
        ):
            if parameter not in inspect.signature(function).parameters:
                logging.info(
                    "Prompts are fed token by token: %s has no parameter %r.",
                    function,
                    parameter,
                )
                return False
        return True

    def predict_batch_with_aux(
        self,
        params: PyTree,
        batch: Batch,
        rng: jax.Array | None = None,
        decoder_params: Mapping[str, Any] | None = None,
        return_all_decodes: bool | None = None,
        num_decodes: int | None = None,
        prompt_with_targets: bool = False,
    ) -> tuple[Int[Array, "batch *num_decodes length"], Mapping[str, Array]]:
        """Decodes the inputs of a batch.

        Args:
            batch: needs `encoder_input_tokens` and `decoder_input_tokens`. The width of
                the latter is the length of the predictions.
            decoder_params: additional arguments of the decode function; it is not
                changed.
            prompt_with_targets: whether to start from `decoder_input_tokens` without
                EOS. If the decode function and the module support it, the prompt enters
                the cache in one call; otherwise it is fed token by token.

        Returns:
            Predictions [batch, length] and {"scores": [batch]}. With
                `return_all_decodes`, [batch, num_decodes, length] and [batch,
                num_decodes], best one last.

        Raises:
            ValueError: an rng is given twice.
        """
        if return_all_decodes is None:
            return_all_decodes = self._default_decoder_params.return_all_decodes
        if num_decodes is None:
            num_decodes = self._default_decoder_params.num_decodes
        decode_args = self._decoder_params(decoder_params, rng)
        encoder_tokens = batch["encoder_input_tokens"]
        decoder_tokens = batch["decoder_input_tokens"]
        prompt = jnp.zeros_like(decoder_tokens)
        if prompt_with_targets:
            not_eos = decoder_tokens != self.output_vocabulary.eos_id
            prompt = decoder_tokens * not_eos

        encoded: Any = self.module.apply(
            {"params": params},
            encoder_tokens,
            enable_dropout=False,
            method=self.module.encode,
        )
        cache, initial_index = self._compute_kv_cache(
            params,
            encoded_inputs=encoded,
            encoder_input_tokens=encoder_tokens,
            decoder_input_tokens=prompt,
            # Without a prompt there is nothing to prefill, and steps are cheaper if all
            # rows share one position.
            prefill_decoder_prompt=prompt_with_targets and self._can_prefill(),
        )
        if initial_index is not None:
            decode_args["initial_index"] = initial_index

        # [batch, ...] -> [batch * num_decodes, ...]; the copies of a row are adjacent.
        expand = functools.partial(
            decoding.flat_batch_beam_expand, beam_size=num_decodes
        )
        tokens_to_logits = functools.partial(
            self._compute_logits_from_slice,
            params=params,
            encoded_inputs=expand(encoded),
            raw_inputs=expand(encoder_tokens),
            max_decode_length=decoder_tokens.shape[1],
        )
        decodes, scores = self._required_decode_fn()(
            inputs=prompt,
            cache=cache,
            tokens_to_logits=tokens_to_logits,
            num_decodes=num_decodes,
            cache_offset=self._cache_offset,
            **decode_args,
        )
        if return_all_decodes:
            return decodes, {"scores": scores}
        return decodes[:, -1, :], {"scores": scores[:, -1]}
