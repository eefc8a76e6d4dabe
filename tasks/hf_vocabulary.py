"""A published tokenizer as a SeqIO vocabulary, for decoder-only models.

Ids are the published ids plus 1. Id 0 is then free for padding and for the initial
token, as T5X requires. The network's config has `id_offset = 1`, and its embedding
table stays as published.
"""

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.core.files import PathLike
from jaxaug.models.tokenizers import hf


class HFVocabulary(seqio.Vocabulary):
    """A tokenizer of the library `tokenizers`, which is read on first use.

    The TensorFlow methods call it through stateless NumPy functions. Streams can then
    still be saved, but their graphs cannot leave the process.
    """

    def __init__(self, path: PathLike):
        """Stores the path; nothing is read yet.

        Args:
            path: tokenizer.json, its folder, a GGUF file, or a name of `jaxaug models
                list` that is on disk; see `jaxaug.models.tokenizers.hf.load`.
        """
        super().__init__()
        self._path = path

    @functools.cached_property
    def tokenizer(self) -> hf.Tokenizer:
        """The tokenizer; raises `UserError` if it does not exist."""
        return hf.load(self._path, id_offset=1)

    @property
    def _base_vocab_size(self) -> int:
        return self.tokenizer.vocab_size

    @property
    def eos_id(self) -> int | None:
        """Id that ends a sequence."""
        return self.tokenizer.eos_id

    @property
    def unk_id(self) -> int | None:
        """Id of unknown text; None for a byte vocabulary, which covers all text."""
        return self.tokenizer.unk_id

    @property
    def bos_id(self) -> int | None:
        """Initial id of the published model; T5X writes 0 there."""
        return self.tokenizer.bos_id

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of several texts at once."""
        return self.tokenizer.encode_batch(texts)

    def _encode(self, s: str) -> list[int]:
        return self.tokenizer.encode(s)

    def _decode(self, ids: Iterable[int]) -> str:
        return self.tokenizer.decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
        """Returns ids [n] of a string, or a ragged tensor [texts, n] for several."""

        def encode(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = self.encode_batch([text.decode("utf-8") for text in texts.ravel()])
            lengths = np.array([len(row) for row in rows], np.int64)
            flat = [token for row in rows for token in row]
            return np.array(flat, np.int32), lengths

        scalar = s.shape.rank == 0
        values, lengths = tf.numpy_function(
            encode, [tf.reshape(s, [-1])], [tf.int32, tf.int64], stateful=False
        )
        values.set_shape([None])
        lengths.set_shape([None])
        return values if scalar else tf.RaggedTensor.from_row_lengths(values, lengths)

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns strings [...] of ids [..., length]."""

        def decode(rows: np.ndarray) -> np.ndarray:
            texts = [
                self._decode(row).encode() for row in rows.reshape(-1, rows.shape[-1])
            ]
            return np.array(texts, object).reshape(rows.shape[:-1])

        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor()
        texts = tf.numpy_function(decode, [ids], tf.string, stateful=False)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __eq__(self, other: object) -> bool:
        """Returns whether the other vocabulary reads the same tokenizer."""
        return isinstance(other, HFVocabulary) and (
            self._path == other._path or self.tokenizer is other.tokenizer
        )

    def __str__(self) -> str:
        return f"HFVocabulary({self._path})"
