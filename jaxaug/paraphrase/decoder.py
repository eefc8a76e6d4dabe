"""Batches of tokens -> outputs and their log probabilities."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxaug.core.buckets import Batch, check_finite, in_batches, one_batch, pad
from jaxaug.models import programs
from jaxaug.models.t5 import SourceEncoderDecoderModel
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.registry import TextModel
from jaxaug.paraphrase import causal, samplers, stream

# Below this length, padding costs less than another compiled program.
_SHORTEST = 8


class Output(NamedTuple):
    """One output of one input; see `Decoder` for `log_probability`."""

    text: str
    log_probability: float


class Decoder:
    """Decodes batches with one model and one decode function.

    The log probability of an output is from the model, for any sampler. It is the sum
    of log p(token | tokens before, input) over the tokens of the output, including EOS.
    The scores of the decode functions are not comparable: some come from warped
    distributions, others are divided by a length penalty.

    The log probability is computed afterwards for each input alone. The shape depends
    only on the outputs of this input, so no digit depends on the batch size.
    """

    def __init__(
        self,
        model: TextModel | LanguageModel,
        decode_fn: Callable[..., Any],
        *,
        num: int,
        max_length: int,
        seed: int = 0,
        batch_size: int = 32,
        key: Array | None = None,
        params: Any = None,
        embeddings: Float[np.ndarray, "vocab d"] | None = None,
    ):
        """Takes a model and a decode function with the T5X contract.

        The function also gets `input_ids`, `source`, and `embeddings` [vocab, d], to
        compare words; None is the table of the model.

        Args:
            batch_size: inputs that `__call__` decodes together.
            key: key of all random draws; None makes it from `seed`.
            params: parameters on the device, with the prefix of the prompt; None takes
                the model's.
        """
        self._embeddings = None if embeddings is None else jax.device_put(embeddings)
        self._model = model.bare
        self._num = num
        self._max_length = max_length
        self._batch_size = batch_size
        self._key = jax.random.PRNGKey(seed) if key is None else key
        self._decode_fn = decode_fn
        self._eos_id: Any = model.output_vocabulary.eos_id
        ready = jax.device_put(model.params) if params is None else params
        programs_of: Any = (decode, log_probabilities)
        if isinstance(model, LanguageModel):
            programs_of = (causal.decode, causal.log_probabilities)
            ready = causal.ready(model, ready) if params is None else ready
        self._decode, self._log_probabilities = programs_of
        self._params = ready

    def tokens(
        self, sources: Int[np.ndarray, "rows length"], ids: Sequence[int]
    ) -> Int[np.ndarray, "rows num max_length"]:
        """Returns the outputs of padded inputs, the best by the sampler's score first.

        Args:
            ids: number of each input, which identifies its random draws; the rows after
                them are padding.
        """
        decodes = self._decode(
            self._model, self._decode_fn, self._num, self._max_length, self._params,
            sources, np.resize(np.asarray(ids, np.int32), len(sources)), self._key,
            self._embeddings,
        )  # fmt: skip
        return np.asarray(decodes)[:, ::-1]

    def __call__(self, sequences: Sequence[Sequence[int]]) -> list[list[Output]]:
        """Returns the outputs of inputs; the best by the sampler's own score is first.

        Args:
            sequences: the tokens of the inputs, including EOS.

        Raises:
            UserError: the model's logits or log probabilities are not finite.
        """
        return in_batches(
            sequences, self._batch_size, self._decoded, self._model.shared
        )

    def batch(
        self,
        sequences: Mapping[int, Sequence[int]] | Sequence[Sequence[int]],
        batch: Batch,
    ) -> dict[int, list[Output]]:
        """Returns the outputs of the inputs of a batch by their number."""
        return one_batch(sequences, batch, self._decoded)

    def _decoded(
        self, sources: Int[np.ndarray, "rows length"], batch: Batch
    ) -> list[list[Output]]:
        decodes = self.tokens(sources, batch.indices)
        check_finite(decodes, self._model.label)
        found = dict(zip(batch.indices, decodes, strict=False))
        rows = dict(zip(batch.indices, sources, strict=False))
        return [*self._outputs(found, rows).values()]

    @property
    def can_stream(self) -> bool:
        """True if `stream` supports the decode function: it must sample."""
        return samplers.chain(self._decode_fn, 0) is not None

    def stream(
        self, inputs: Sequence[tuple[int, Sequence[int]]], length: int, rows: int
    ) -> Iterator[dict[int, list[Output]]]:
        """Decodes inputs by continuous batching, and yields outputs when complete.

        A row of the batch that has ended is given to the next input at once.

        Args:
            length: number of columns of the encoder inputs, at least the number of
                tokens of the longest input.

        Raises:
            UserError: see `__call__`.
        """
        tokens = dict(inputs)
        for found in stream.decodes(
            self._model,
            self._decode_fn,
            self._num,
            self._max_length,
            self._params,
            self._key,
            inputs,
            length,
            rows * self._num,
        ):
            check_finite(np.stack(list(found.values())), self._model.label)
            yield self._outputs(
                {place: rows[::-1] for place, rows in found.items()},
                {place: pad([tokens[place]], 1, length)[0] for place in found},
            )

    def _outputs(
        self,
        decodes: Mapping[int, Int[np.ndarray, "num max_length"]],
        sources: Mapping[int, Int[np.ndarray, " length"]],
    ) -> dict[int, list[Output]]:
        """Returns texts and log probabilities."""
        scores = [
            self._log_probabilities(
                self._model,
                self._params,
                sources[place][None],
                _short(rows, self._eos_id),
            )
            for place, rows in decodes.items()
        ]
        outputs = {}
        for place, of_model in zip(decodes, jax.device_get(scores), strict=True):
            check_finite(of_model, f"{self._model.label}, input {place + 1}")
            texts = self.texts(decodes[place])
            outputs[place] = [*map(Output, texts, of_model.tolist())]
        return outputs

    def texts(self, outputs: Int[np.ndarray, "num max_length"]) -> list[str]:
        """Returns the text of each output."""
        # Zeros before EOS are tokens that the model chose; they have no text.
        return [
            self._model.decode([token for token in one if token])
            for one in outputs.tolist()
        ]


def _short(
    outputs: Int[np.ndarray, "num max_length"], eos_id: int
) -> Int[np.ndarray, "num length"]:
    """Returns a half, a quarter, ... of the columns if all outputs end within them."""
    is_eos = outputs == eos_id
    ends = np.where(is_eos.any(axis=1), is_eos.argmax(axis=1) + 1, outputs.shape[1])
    width = outputs.shape[1]
    while width > _SHORTEST and (width + 1) // 2 >= ends.max():
        width = (width + 1) // 2
    return outputs[:, :width]


def sources_of(
    model: TextModel, inputs: Int[Array, "rows length"]
) -> Int[Array, "rows length"]:
    """Returns the texts in the inputs, without the surrounding prompt and EOS."""
    before, after = model.around
    counts = jnp.sum(inputs != 0, axis=1, keepdims=True) - before - after
    moved = jnp.roll(inputs, -before, axis=1)
    return jnp.where(jnp.arange(inputs.shape[1]) < counts, moved, 0)


# Both programs are compiled once for all decoders of a model with equal settings.


@programs.of_model(static_argnums=(0, 1, 2))
def decode(
    model: TextModel,
    decode_fn: Callable[..., Any],
    num: int,
    max_length: int,
    params: Any,
    sources: Int[Array, "rows length"],
    input_ids: Int[Array, " rows"],
    key: Array,
    embeddings: Float[Array, "vocab d"] | None = None,
) -> Int[Array, "rows num max_length"]:
    """Returns the outputs of a batch by the decode function's score, best last."""
    t5x_model = SourceEncoderDecoderModel(
        model.module,
        model.input_vocabulary,
        model.output_vocabulary,
        optimizer_def=None,
        decode_fn=decode_fn,
        writes_unknown=False,
        end_together=model.end_together,
    )
    width = jnp.zeros((sources.shape[0], max_length), jnp.int32)
    arguments: dict[str, Any] = {
        "input_ids": input_ids,
        "source": sources_of(model, sources),
    }
    if embeddings is not None:
        arguments["embeddings"] = embeddings
    decodes, _ = t5x_model.predict_batch_with_aux(
        params,
        {"encoder_input_tokens": sources, "decoder_input_tokens": width},
        rng=key,
        decoder_params=arguments,
        return_all_decodes=True,
        num_decodes=num,
    )
    return decodes


@programs.of_model()
def log_probabilities(
    model: TextModel,
    params: Any,
    source: Int[Array, "1 length"],
    outputs: Int[Array, "num max_length"],
) -> Float[Array, " num"]:
    """Returns the log probability of each output of one input, up to its EOS."""
    module, variables = model.module, {"params": params}
    encoded: Any = module.apply(
        variables, source, enable_dropout=False, method=module.encode
    )
    logits: Any = module.apply(
        variables,
        jnp.repeat(encoded, len(outputs), axis=0),
        jnp.repeat(source, len(outputs), axis=0),
        jnp.pad(outputs[:, :-1], ((0, 0), (1, 0))),
        outputs,
        enable_dropout=False,
        decode=False,
        method=module.decode,
    )
    chosen = jnp.take_along_axis(
        jax.nn.log_softmax(model.end_together(logits.astype(jnp.float32))),
        outputs[..., None],
        axis=-1,
    )[..., 0]
    is_eos = outputs == model.output_vocabulary.eos_id
    after_eos = jnp.cumsum(is_eos, axis=1) - is_eos > 0
    return jnp.sum(jnp.where(after_eos, 0.0, chosen), axis=1)
