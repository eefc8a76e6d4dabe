"""Decoder-only models of training runs: the target continues the input."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxaug_base.files import absolute
from jaxtyping import Array, Float, Int
from t5x import models
from t5x.feed.vocabularies import check_rows

from jaxaug.core.files import PathLike
from jaxaug.models.t5 import SourceEncoderDecoderModel
from jaxaug.models.text import adapters, checkpoint, language, registry, run_config

_BOTH_WAYS = "inputs_bidirectional_attention"


@dataclasses.dataclass(frozen=True, eq=False)
class PrefixModel(language.Loaded):
    """A decoder-only model that was trained to continue inputs with targets.

    Attributes:
        input_vocabulary: vocabulary of inputs and outputs, with `encode`, `decode`, and
            `eos_id`.
        bidirectional: whether the tokens of an input see each other in both directions.
    """

    label: str
    module: nn.Module
    params: Mapping[str, Any]
    input_vocabulary: Any
    bidirectional: bool

    @property
    def output_vocabulary(self) -> Any:
        """Vocabulary of outputs, the same as for inputs."""
        return self.input_vocabulary

    @property
    def vocabularies(self) -> tuple[Any, ...]:
        return (self.input_vocabulary,)

    def continued(
        self,
        params: Any,
        inputs: Int[Array, "rows length"],
        input_ids: Int[Array, " rows"],
        decode_fn: Callable[..., Any],
        max_length: int,
    ) -> Int[Array, "rows max_length"]:
        """Returns the best output of each input, as in an evaluation of T5X."""
        lengths = jnp.sum(inputs != 0, axis=1, keepdims=True)
        tokens = jnp.pad(inputs, ((0, 0), (1, max_length)))
        given = (jnp.arange(tokens.shape[1]) <= lengths).astype(jnp.int32)
        model = models.DecoderOnlyModel(
            self.module,
            self.input_vocabulary,
            None,
            decode_fn,
            inputs_bidirectional_attention=self.bidirectional,
        )
        decodes, _ = model.predict_batch_with_aux(
            params,
            {"decoder_input_tokens": tokens, "decoder_causal_attention": given},
            decoder_params={"input_ids": input_ids, "max_decode_steps": max_length},
        )
        return decodes[:, :max_length]


def load(folder: PathLike) -> registry.TextModel | PrefixModel:
    """Loads the model of a training run, or of a run that trained an adapter."""
    if adapters.is_run(folder) or not checkpoint.is_decoder_only(folder):
        found = registry.load(str(folder))
        if isinstance(found, registry.TextModel):
            return found
        parts = found.label, found.module, found.params, found.vocabulary
    else:
        run = checkpoint.load(folder)
        check_rows(run.model, folder)
        label = f"{absolute(folder).name}@{run.step}"
        parts = label, run.model.module, run.params, run.model.output_vocabulary
    both_ways = run_config.bound(
        checkpoint.config_of(folder), "DecoderOnlyModel", _BOTH_WAYS
    )
    return PrefixModel(*parts, bidirectional=bool(both_ways))


def score(
    model: registry.TextModel | PrefixModel,
    params: Any,
    inputs: Int[Array, "rows length"],
    outputs: Int[Array, "rows max_length"],
) -> Float[Array, " rows"]:
    """Returns the log-likelihood of each output, summed over its tokens and EOS."""
    if isinstance(model, PrefixModel):
        return _continued(model, params, inputs, outputs)
    scorer = SourceEncoderDecoderModel(
        model.module, model.input_vocabulary, model.output_vocabulary, None
    )
    return scorer.score_batch(
        params,
        {
            "encoder_input_tokens": inputs,
            "decoder_input_tokens": jnp.pad(outputs[:, :-1], ((0, 0), (1, 0))),
            "decoder_target_tokens": outputs,
            "decoder_loss_weights": (outputs != 0).astype(jnp.float32),
        },
    )


def _continued(
    model: PrefixModel,
    params: Any,
    inputs: Int[Array, "rows length"],
    outputs: Int[Array, "rows max_length"],
) -> Float[Array, " rows"]:
    """Scores outputs that directly follow the inputs, as in training."""
    lengths = jnp.sum(inputs != 0, axis=1, keepdims=True)
    width = inputs.shape[1] + outputs.shape[1]
    place = jnp.arange(width) - lengths
    written = jnp.take_along_axis(
        outputs, jnp.clip(place, 0, outputs.shape[1] - 1), axis=1
    )
    inside = (place >= 0) & (place < outputs.shape[1])
    given = jnp.pad(inputs, ((0, 0), (0, outputs.shape[1])))
    targets = jnp.where(inside, written, given * (place < 0))
    scorer = models.DecoderOnlyModel(
        model.module,
        model.input_vocabulary,
        None,
        inputs_bidirectional_attention=model.bidirectional,
    )
    return scorer.score_batch(
        params,
        {
            "decoder_input_tokens": jnp.pad(targets[:, :-1], ((0, 0), (1, 0))),
            "decoder_target_tokens": targets,
            "decoder_loss_weights": (inside & (targets != 0)).astype(jnp.float32),
            "decoder_causal_attention": (jnp.arange(width) <= lengths).astype(
                jnp.int32
            ),
        },
    )
