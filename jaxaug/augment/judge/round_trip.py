"""The round trip: likelihoods of a text given another one, in both directions.

A language model would write a text with the same meaning for the other, in both
directions. "car you rent" leads to "rented car", but "the doctor's wife" does not lead
to "doctor". The model reads its own prompt (`jaxaug.models.text.prompts`). A model with
an adapter for paraphrasing reads the prompt of its training.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxaug.core.buckets import pad, plan
from jaxaug.models.text import language
from jaxaug.models.text.language import LanguageModel, LineModel

BATCH_SIZE = 32


class Trip(NamedTuple):
    """Log likelihoods of the tokens of an output, including its end.

    Attributes:
        given: with the input in the prompt.
        alone: with an empty input.
    """

    given: Float[np.ndarray, " tokens"]
    alone: Float[np.ndarray, " tokens"]


class RoundTrip:
    """Log likelihoods of texts as outputs for other texts."""

    def __init__(self, model: LanguageModel, batch_size: int = BATCH_SIZE):
        """
        Args:
            model: language model with the prompt to use.
            batch_size: maximum texts that go through the model together.
        """
        self._model, self._batch_size = model, batch_size

    def __call__(self, sources: Sequence[str], outputs: Sequence[str]) -> list[Trip]:
        """Returns the trip from each source to its output, without repeated work."""
        pairs = list(zip(sources, outputs, strict=True))
        wanted = dict.fromkeys([*pairs, *(("", output) for output in outputs)])
        found = dict(zip(wanted, self._score(list(wanted)), strict=True))
        return [Trip(found[pair], found["", pair[1]]) for pair in pairs]

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        """Returns the log likelihood of each token of each output."""
        words, behind = self._model.vocabulary, self._model.behind
        shared = len(self._model.before)
        # The prompt's part before the text is already in the cache.
        inputs = [
            self._model.encode(source)[shared:] if source else behind
            for source, _ in pairs
        ]
        outputs = [
            [*words.encode(f" {output}"), words.eos_id or 0] for _, output in pairs
        ]
        rows = [[*a, *b] for a, b in zip(inputs, outputs, strict=True)]
        found: dict[int, np.ndarray] = {}
        for batch in plan([len(row) for row in rows], self._batch_size):
            tokens = pad([rows[i] for i in batch.indices], batch.rows, batch.length)
            values = np.asarray(self._program(self._params, self._prefix, tokens))
            for value, index in zip(values, batch.indices, strict=False):
                # A token is one column after its probability.
                end = len(rows[index]) - 1
                found[index] = value[end - len(outputs[index]) : end]
        return [found[index] for index in range(len(pairs))]

    @functools.cached_property
    def _params(self) -> Any:
        return jax.device_put(self._model.params)

    @functools.cached_property
    def _prefix(self) -> Any:
        model = LineModel(self._model.bare, None)
        return jax.jit(model.prefix)(self._params)

    @functools.cached_property
    def _program(self) -> Any:
        model = self._model.bare
        first = 1 + len(model.before)

        def program(
            params: Any, prefix: Any, tokens: Int[Array, "rows length"]
        ) -> Float[Array, "rows length-1"]:
            rows, length = tokens.shape
            cache = language.grown(prefix, first, rows, first + length)
            logits: Any
            logits, _ = model.module.apply(
                {"params": params, "cache": cache},
                tokens,
                tokens,
                enable_dropout=False,
                decode=True,
                mutable=["cache"],
            )
            log_probs = jax.nn.log_softmax(model.end_together(logits[:, :-1]))
            return jnp.take_along_axis(log_probs, tokens[:, 1:, None], axis=-1)[..., 0]

        return jax.jit(program)
