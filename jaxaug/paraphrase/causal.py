"""The programs of a language model: tokens of prompts -> outputs, log probabilities.

They have the same signatures as the programs in `jaxaug.paraphrase.decoder`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxaug.models import causal, programs
from jaxaug.models.layers import int8
from jaxaug.models.text import language
from jaxaug.models.text.language import LanguageModel, LineModel

# Outputs that are scored together; memory grows with the square of this number.
_CHUNK = 8


def sources_of(
    model: LanguageModel, prompts: Int[Array, "rows length"]
) -> Int[Array, "rows length"]:
    """Returns the inputs in the prompts, without the surrounding prompt."""
    counts = jnp.sum(prompts != 0, axis=1, keepdims=True) - model.shared
    moved = jnp.roll(prompts, -len(model.before), axis=1)
    return jnp.where(jnp.arange(prompts.shape[1]) < counts, moved, 0)


def ready(model: LanguageModel, params: Any) -> Any:
    """Returns parameters on the device, with the prefix that all prompts share."""
    return language.with_prefix(params, prefix(model, params))


@programs.of_model()
def prefix(model: LanguageModel, params: Any) -> Any:
    """Returns the prefix of all prompts; see `LineModel.prefix`."""
    return LineModel(model, None).prefix(params)


@programs.of_model(static_argnums=(0, 1, 2))
def decode(
    model: LanguageModel,
    decode_fn: Callable[..., Any],
    num: int,
    max_length: int,
    params: Any,
    prompts: Int[Array, "rows length"],
    input_ids: Int[Array, " rows"],
    key: Array,
    embeddings: Float[Array, "vocab d"] | None = None,
) -> Int[Array, "rows num max_length"]:
    """Returns the outputs of a batch by the decode function's score, best last.

    The prompts enter the cache in one step. Decode functions compare candidates with
    the input, not with the prompt.
    """
    lengths = jnp.sum(prompts != 0, axis=1, keepdims=True)
    inputs = jnp.pad(prompts, ((0, 0), (1, max_length)))
    given = jnp.arange(inputs.shape[1]) <= lengths
    if embeddings is None:
        # Our ids are one more than the rows of the table.
        table = int8.table(params["decoder"]["token_embedder"])
        embeddings = jnp.pad(table, ((1, 0), (0, 0)))
    decodes, _ = LineModel(model, decode_fn, max_length).predict_batch_with_aux(
        params,
        {
            "decoder_input_tokens": inputs,
            "decoder_causal_attention": given.astype(jnp.int32),
        },
        rng=key,
        decoder_params={
            "input_ids": input_ids,
            "source": sources_of(model, prompts),
            "embeddings": embeddings,
            "max_decode_steps": max_length,
        },
        return_all_decodes=True,
        num_decodes=num,
    )
    return decodes[..., :max_length]


@programs.of_model()
def log_probabilities(
    model: LanguageModel,
    params: Any,
    prompt: Int[Array, "1 length"],
    outputs: Int[Array, "num max_length"],
) -> Float[Array, " num"]:
    """Returns the log probability of each output of one input, up to its EOS."""
    num = len(outputs)
    size = min(num, _CHUNK)
    chunks = jnp.pad(outputs, ((0, -num % size), (0, 0))).reshape(
        -1, size, outputs.shape[1]
    )
    chosen = lax.map(lambda chunk: _side_by_side(model, params, prompt, chunk), chunks)
    chosen = chosen.reshape(-1, outputs.shape[1])[:num]
    is_eos = outputs == model.vocabulary.eos_id
    after_eos = jnp.cumsum(is_eos, axis=1) - is_eos > 0
    return jnp.sum(jnp.where(after_eos, 0.0, chosen), axis=1)


def _side_by_side(
    model: LanguageModel,
    params: Any,
    prompt: Int[Array, "1 length"],
    outputs: Int[Array, "num max_length"],
) -> Float[Array, "num max_length"]:
    """Returns the log probability of each token of outputs that share one prompt.

    One row holds BOS, the prompt, and all outputs without their last tokens. Each
    output attends to the prompt and to itself: a tree instead of `num` sequences.
    """
    num, max_length = outputs.shape
    length = prompt.shape[1] + 1
    last = jnp.sum(prompt != 0)  # Column of the last token of the prompt.
    tokens = jnp.concatenate(
        [jnp.zeros((1, 1), jnp.int32), prompt, outputs[:, :-1].reshape(1, -1)], axis=1
    )
    # Columns that are already in the cache.
    known = language.prefix_of(params)
    first = 0 if known is None else 1 + len(model.before)
    branch_steps = jnp.tile(jnp.arange(max_length - 1), num)
    positions = jnp.concatenate([jnp.arange(length), last + 1 + branch_steps])[None]
    branch = jnp.repeat(jnp.arange(num), max_length - 1)
    branch = jnp.concatenate([jnp.full((length,), -1), branch])
    column = jnp.arange(tokens.shape[1])
    earlier = column <= column[:, None]
    in_prompt = (branch == -1) & ((column <= last) | (branch == -1)[:, None])
    seen = earlier & (in_prompt | (branch == branch[:, None]))
    variables: dict[str, Any] = {"params": params}
    decode = known is not None
    if decode:
        variables["cache"] = language.grown(known, first, 1, tokens.shape[1])
    logits = model.module.apply(
        variables,
        tokens[:, first:],
        seen[None, None, first:].astype(jnp.float32),
        positions[:, first:],
        causal.Mode(True, decode, None),
        method=lambda module, *args: module.decoder(*args),
        mutable=["cache"],
    )[0][0]
    at_end = jnp.broadcast_to(logits[last - first], (num, 1, logits.shape[-1]))
    rest = logits[length - first :].reshape(num, max_length - 1, -1)
    logits = model.end_together(jnp.concatenate([at_end, rest], axis=1))
    return jnp.take_along_axis(jax.nn.log_softmax(logits), outputs[..., None], axis=-1)[
        ..., 0
    ]
