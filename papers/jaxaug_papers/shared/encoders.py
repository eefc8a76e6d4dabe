"""Frozen encodings of sentences and words, the inputs of the networks."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from jaxaug.core.errors import UserError
from jaxaug.models.scorers import encoder as encoders
from jaxaug.models.scorers.pairs import Similarity
from jaxaug.models.scorers.store import Store

Encode = Callable[[Sequence[str]], Float[np.ndarray, "texts width"]]

STATIC = "static:"
_TABLE = ("embeddings", "token_embedder", "embedding")


def find(name: str) -> Encode:
    """Returns an encoder of sentences by name.

    Args:
        name: encoder of `jaxaug models list`, or its folder. Its pooled embeddings have
            unit length and are cached. The prefix `static:` selects the mean of the
            encoder's word embeddings instead.

    Raises:
        UserError: the model is not on this machine, or has no word embeddings.
    """
    encoder = encoders.load(name.removeprefix(STATIC))
    if name.startswith(STATIC):
        return functools.partial(static, encoder)
    return Similarity(encoder, Store()).embed


def static(
    encoder: encoders.Encoder, texts: Sequence[str]
) -> Float[np.ndarray, "texts width"]:
    """Returns the mean word embedding of each text, or zeros without tokens.

    Raises:
        UserError: the encoder is not of the BERT family.
    """
    table = _table(encoder)
    vectors = np.zeros((len(texts), table.shape[1]), np.float32)
    for row, tokens in enumerate(encoder.tokenizer.encode_batch(texts)):
        if tokens:
            vectors[row] = table[tokens].mean(axis=0)
    return vectors


def words_of(name: str) -> tuple[Callable[[int, Sequence[str]], list[list[int]]], Any]:
    """Returns the tokenizer and the word embeddings of an encoder, for an LSTM.

    Returns:
        A function (unused number, texts) -> tokens of each text, and the embedding
        table, [tokens, width].

    Raises:
        UserError: the model is not on this machine, or is not of the BERT family.
    """
    encoder = encoders.load(name)

    def encode(place: int, texts: Sequence[str]) -> list[list[int]]:
        del place
        return encoder.tokenizer.encode_batch(list(texts))

    return encode, _table(encoder)


def _table(encoder: encoders.Encoder) -> Float[np.ndarray, "words width"]:
    node: Any = encoder.params
    for key in _TABLE:
        node = node.get(key) if isinstance(node, dict) else None
        if node is None:
            raise UserError(
                f"{STATIC}{encoder.name}: has no table of words at {'/'.join(_TABLE)}. "
                "Name an encoder of the BERT family, such as minilm."
            )
    return np.asarray(jax.device_get(node), np.float32)


def scale(vectors: Float[np.ndarray, "n width"], norm: float) -> float:
    """Returns the factor that scales vectors to a mean norm.

    Raises:
        UserError: all vectors are zero.
    """
    mean = float(np.linalg.norm(vectors, axis=1).mean())
    if not mean > 0:
        raise UserError(
            "the encodings of all few-shot sentences are zero. Use another encoder."
        )
    return norm / mean
