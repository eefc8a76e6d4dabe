"""Perplexity of texts under a causal language model."""

import functools
import json
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxaug.core.buckets import pad, plan
from jaxaug.core.errors import UserError
from jaxaug.models.scorers.store import Store, Texts, remembered
from jaxaug.models.text.language import LanguageModel


class CausalPerplexity:
    """exp of the mean of -log p(token | tokens before it), of a decoder-only model.

    The first token follows the model's beginning-of-text token (`bos_token_id`). The
    end of the text does not count.
    """

    def __init__(
        self,
        model: LanguageModel,
        identity: str,
        store: Store | None = None,
        batch_size: int = 16,
    ):
        """Prepares the key of the store.

        Args:
            model: model; its prompt is not used.
            identity: digest of the model, as in
                `jaxaug.models.named.identities.of_folder`.
            store: store of computed perplexities; None for none.
            batch_size: maximum texts of a batch.
        """
        self._model, self._store, self._batch_size = model, store, batch_size
        bos = model.module.config.bos_token_id  # type: ignore[attr-defined]
        self._identity = f"causal perplexity {json.dumps([identity, bos])}"

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " texts"]:
        """Returns the perplexity of each text.

        Raises:
            UserError: a text has no tokens.
        """
        items = [(text,) for text in texts]
        return remembered(self._store, self._identity, items, self._compute)[:, 0]

    def _compute(self, items: Sequence[Texts]) -> Float[np.ndarray, "n 1"]:
        sequences = self._model.vocabulary.encode_batch([text for (text,) in items])
        _check(items, [len(tokens) for tokens in sequences])
        each = self._log_probabilities(sequences)
        return np.array([[np.exp(-np.mean(own))] for own in each])

    def continued(
        self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
    ) -> list[float]:
        """Returns the log probability of each output behind its input, in nats.

        Args:
            inputs: token ids, without the token that begins a text.
            outputs: one or more token ids of each output.
        """
        whole = [[*one, *other] for one, other in zip(inputs, outputs, strict=True)]
        each = self._log_probabilities(whole)
        pairs = zip(each, outputs, strict=True)
        return [float(np.sum(own[-len(output) :])) for own, output in pairs]

    def _log_probabilities(
        self, sequences: Sequence[Sequence[int]]
    ) -> list[Float[np.ndarray, " tokens"]]:
        found: dict[int, np.ndarray] = {}
        lengths = [len(tokens) for tokens in sequences]
        for batch in plan(lengths, self._batch_size):
            rows = pad([sequences[i] for i in batch.indices], batch.rows, batch.length)
            values = np.asarray(self._program(self._params, rows))
            for i, own in zip(batch.indices, values, strict=False):
                found[i] = own[: lengths[i]]
        return [found[i] for i in range(len(sequences))]

    @functools.cached_property
    def _params(self) -> Any:
        return jax.device_put(self._model.params)

    @functools.cached_property
    def _program(self) -> Any:
        def program(
            params: Any, tokens: Int[Array, "rows length"]
        ) -> Float[Array, "rows length"]:
            logits: Any = self._model.module.apply(
                {"params": params},
                jnp.pad(tokens[:, :-1], ((0, 0), (1, 0))),
                tokens,
                enable_dropout=False,
            )
            log_probs = jax.nn.log_softmax(logits)
            return jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]

        return jax.jit(program)


def _check(items: Sequence[Texts], counts: Sequence[int]) -> None:
    for (text,), count in zip(items, counts, strict=True):
        if not count:
            raise UserError(
                f"text {text!r} has no tokens, so no perplexity: leave it out."
            )
