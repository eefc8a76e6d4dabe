"""Log-likelihoods of given outputs under a trained model."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from t5x import models

from jaxaug.models.t5 import SourceEncoderDecoderModel
from jaxaug.models.text import continuing, registry


def score(
    model: registry.TextModel | continuing.PrefixModel,
    params: Any,
    inputs: Int[Array, "rows length"],
    outputs: Int[Array, "rows max_length"],
) -> Float[Array, " rows"]:
    """Returns the log-likelihood of each output, summed over its tokens and EOS.

    Args:
        model: model of a training run.
        params: parameters of the model.
        inputs: tokens including EOS, padded with 0.
        outputs: tokens including EOS, padded with 0.
    """
    if isinstance(model, continuing.PrefixModel):
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
    model: continuing.PrefixModel,
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
