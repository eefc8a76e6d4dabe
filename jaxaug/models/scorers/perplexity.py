"""Perplexity of texts under a causal or a masked language model."""

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
from jaxaug.models.scorers.encoder import Encoder
from jaxaug.models.scorers.store import Store, Texts, remembered
from jaxaug.models.text.language import LanguageModel


class CausalPerplexity:
    """exp of the mean of -log p(token | tokens before it), of a decoder-only model.

    The first token follows the model's own beginning of text (`bos_token_id`); the end
    of the text does not count.
    """

    def __init__(
        self,
        model: LanguageModel,
        identity: str,
        store: Store | None = None,
        batch_size: int = 16,
    ):
        """
        Args:
          model: its prompt is not used.
          identity: of the model, as of `jaxaug.models.named.identities.of_folder`.
          store: of perplexities computed before.
          batch_size: texts that are computed together at most.
        """
        self._model, self._store, self._batch_size = model, store, batch_size
        bos = model.module.config.bos_token_id  # type: ignore[attr-defined]
        self._identity = f"causal perplexity {json.dumps([identity, bos])}"

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " texts"]:
        """Perplexity of each text.

        Raises:
          UserError: a text has no tokens.
        """
        items = [(text,) for text in texts]
        return remembered(self._store, self._identity, items, self._compute)[:, 0]

    def _compute(self, items: Sequence[Texts]) -> Float[np.ndarray, "n 1"]:
        sequences = self._model.vocabulary.encode_batch([text for (text,) in items])
        _check(items, [len(tokens) for tokens in sequences])
        found: dict[int, float] = {}
        lengths = [len(tokens) for tokens in sequences]
        for batch in plan(lengths, self._batch_size):
            rows = pad([sequences[i] for i in batch.indices], batch.rows, batch.length)
            values = np.asarray(self._program(self._params, rows))
            found |= dict(zip(batch.indices, values, strict=False))
        return np.array([[found[i]] for i in range(len(items))])

    @functools.cached_property
    def _params(self) -> Any:
        return jax.device_put(self._model.params)

    @functools.cached_property
    def _program(self) -> Any:
        def program(
            params: Any, tokens: Int[Array, "rows length"]
        ) -> Float[Array, " rows"]:
            logits: Any = self._model.module.apply(
                {"params": params},
                jnp.pad(tokens[:, :-1], ((0, 0), (1, 0))),
                tokens,
                enable_dropout=False,
            )
            log_probs = jax.nn.log_softmax(logits)
            chosen = jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
            return jnp.exp(-jnp.mean(chosen, axis=1, where=tokens != 0))

        return jax.jit(program)


class PseudoPerplexity:
    """exp of the mean of -log p(token | all others), of a masked language model.

    Salazar et al. (2020), equations 1 and 4: each token is masked in a copy of its own.
    Special tokens are never masked and do not count.
    """

    def __init__(self, encoder: Encoder, store: Store | None = None):
        """Takes an encoder with the head for masked words.

        Raises:
          UserError: it has another head, or the tokenizer has no mask.
        """
        self._encoder, self._store = encoder, store
        head = getattr(encoder.config, "head", None)
        if head != "masked_lm" or encoder.tokenizer.mask_id is None:
            raise UserError(
                f"{encoder.name}: is no masked language model with a mask token (its "
                f"head is {head!r}). Take a BertForMaskedLM or RobertaForMaskedLM."
            )

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " texts"]:
        """Pseudo-perplexity of each text, as far as it fits into the model.

        Raises:
          UserError: a text has no tokens.
        """
        identity = json.dumps([self._encoder.identity, self._encoder.max_length])
        return remembered(
            self._store,
            f"pseudo-perplexity {identity}",
            [(text,) for text in texts],
            self._compute,
        )[:, 0]

    def _compute(self, items: Sequence[Texts]) -> Float[np.ndarray, "n 1"]:
        words = self._encoder.tokenizer
        encoded = self._encoder.encode([text for (text,) in items])
        places = [
            [p for p, token in enumerate(one.tokens) if token not in words.specials]
            for one in encoded
        ]
        _check(items, [len(found) for found in places])
        masked, numbers = [], []
        for one, found in zip(encoded, places, strict=True):
            for place in found:
                copy = [*one.tokens]
                copy[place] = words.mask_id or 0
                masked.append(one._replace(tokens=copy))
                numbers.append((place, one.tokens[place]))
        scores = self._encoder.run(self._program, masked, np.asarray(numbers, np.int32))
        ends = np.cumsum([len(found) for found in places])[:-1]
        parts = np.split(scores, ends)
        return np.array([[np.exp(-np.mean(part))] for part in parts])

    @functools.cached_property
    def _program(self) -> Any:
        def program(
            params: Any, tokens: Array, segments: Array, mask: Array, numbers: Array
        ) -> Float[Array, " rows"]:
            module: Any = self._encoder.module
            logits = module.apply(
                {"params": params}, tokens, segments, mask, method=module.masked_logits
            )
            rows = jnp.arange(len(tokens))
            here = jax.nn.log_softmax(logits[rows, numbers[:, 0]])
            return here[rows, numbers[:, 1]]

        return jax.jit(program)


def _check(items: Sequence[Texts], counts: Sequence[int]) -> None:
    for (text,), count in zip(items, counts, strict=True):
        if not count:
            raise UserError(
                f"text {text!r} has no tokens, so no perplexity: leave it out."
            )
