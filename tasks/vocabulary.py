"""The vocabulary of the tasks."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.decode.contract import check_tokens
from jaxaug.feed import vocabulary
from jaxaug.models.tokenizers import hf


class FoundVocabulary:
    """The named vocabulary, or the result of `jaxaug.feed.vocabulary.model_file`.

    It is looked up, and trained if missing, on first use, so registering tasks is
    cheap. It has the methods of `seqio.Vocabulary`; only those for tensors import
    TensorFlow.

    The ids of a published tokenizer, for decoder-only models, are the published ids
    plus 1. Id 0 is then free for padding and for the initial token, as T5X requires.
    The network's config has `id_offset = 1`, and its embedding table stays as
    published.
    """

    pad_id = extra_ids = 0

    def __init__(self) -> None:
        self._named = self._path = ""
        self._tokenizer: Any = None

    def use(self, path: str) -> None:
        """Names the vocabulary to use instead of the default.

        Args:
            path: a SentencePiece model, or a path for `tokenizers.hf.load`.

        Raises:
            UserError: another vocabulary is already in use.
        """
        used = self._named or self._path
        if used not in ("", path):
            raise UserError(
                f"vocabulary {path}: {used} is in use already in this process; "
                "name one vocabulary only."
            )
        self._named = path

    @property
    def tokenizer(self) -> Any:
        """The SentencePiece processor, or the published tokenizer."""
        if self._tokenizer is None:
            self._path = vocabulary.shipped(self._named)
            if not (self._path and hf.is_published(self._path)):
                # The copy of a run takes precedence.
                self._path = vocabulary.model_file(named=self._path)
            if hf.is_published(self._path):
                self._tokenizer = hf.load(self._path, id_offset=1)
            else:
                self._tokenizer = vocabulary.load(self._path)
        return self._tokenizer

    @property
    def is_published(self) -> bool:
        """True for a published tokenizer, False for a SentencePiece model."""
        return isinstance(self.tokenizer, hf.Tokenizer)

    @property
    def sentencepiece_model_file(self) -> str:
        """Path of the SentencePiece model, which is built if missing.

        Raises:
            AttributeError: the vocabulary is of another kind.
        """
        if self.is_published:
            message = f"{self._path} is no SentencePiece model"
            raise AttributeError(message)
        return self._path

    @property
    def file(self) -> str:
        """Path of the vocabulary file."""
        return self.tokenizer.path if self.is_published else self._path

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of several texts, without the end of sequence."""
        if self.is_published:
            return self.tokenizer.encode_batch(texts)
        return self.tokenizer.encode(list(texts))

    def _id(self, role: str) -> int | None:
        found = getattr(self.tokenizer, f"{role}_id")
        return found if self.is_published else found()

    @property
    def eos_id(self) -> int | None:
        """Id that ends a sequence."""
        return self._id("eos")

    @property
    def unk_id(self) -> int | None:
        """Id of unknown text."""
        return self._id("unk")

    @property
    def bos_id(self) -> int | None:
        """Id that starts a sequence."""
        return self._id("bos")

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        found = self.tokenizer
        return found.vocab_size if self.is_published else found.get_piece_size()

    def encode(self, s: str) -> Sequence[int]:
        """Returns the ids of a text, without the end of sequence."""
        return self.tokenizer.encode(s)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the end of sequence.

        Ids beyond the vocabulary become the unknown piece, if there is one.

        Raises:
            UserError: an id before the end is `t5x.search.decode_state.BROKEN`.
        """
        known, size = [int(token) for token in ids], self.vocab_size
        if (unknown := self.unk_id) is not None:
            known = [token if token < size else unknown for token in known]
        if (end := self.eos_id) in known:
            known = known[: known.index(end) + 1]
        check_tokens(known)  # The T5X programs pass on the output of a decode function.
        return self.tokenizer.decode(known)

    def encode_tf(self, s: Any) -> Any:
        """Returns ids [n] of a string, or a ragged tensor [texts, n] for several.

        Streams with this op can be saved. Their graphs cannot leave the process.
        """
        import tensorflow as tf

        def encode(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = self.encode_batch([text.decode("utf-8") for text in texts.ravel()])
            lengths = np.array([len(row) for row in rows], np.int64)
            return np.array([i for row in rows for i in row], np.int32), lengths

        s = tf.convert_to_tensor(s)
        flat, types = tf.reshape(s, [-1]), [tf.int32, tf.int64]
        values, lengths = tf.numpy_function(encode, [flat], types, stateful=False)
        values.set_shape([None])
        lengths.set_shape([None])
        if s.shape.rank == 0:
            return values
        return tf.RaggedTensor.from_row_lengths(values, lengths)

    def decode_tf(self, ids: Any) -> Any:
        """Returns strings [...] of ids [..., length]."""
        import tensorflow as tf

        def decode(rows: np.ndarray) -> np.ndarray:
            flat = rows.reshape(-1, rows.shape[-1])
            texts = [self.decode(row).encode() for row in flat]
            return np.array(texts, object).reshape(rows.shape[:-1])

        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor()
        texts = tf.numpy_function(decode, [ids], tf.string, stateful=False)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __eq__(self, other: object) -> bool:
        """Returns whether the other vocabulary reads the same file and adds no ids.

        The other one may be SeqIO's class for SentencePiece models.
        """
        if self is other:
            return True
        file = getattr(other, "file", getattr(other, "sentencepiece_model_file", None))
        return bool(file) and getattr(other, "extra_ids", 0) == 0 and self.file == file

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"FoundVocabulary({self.file})"


_DEFAULT = FoundVocabulary()


def default_vocabulary(path: str | None = None) -> FoundVocabulary:
    """Returns the vocabulary of all tasks.

    Gin files bind it as `VOCABULARY = @vocabulary.default_vocabulary()`. By default it
    is `$JAXAUG_VOCABULARY`, or else a model of the words in the data folder. A
    SentencePiece model is copied into the folder of a new run. Programs that resume or
    load the run use the copy (`jaxaug.feed.run_vocabulary`).

    Args:
        path: a SentencePiece model, such as the pretrained T5's; `mini` for the
            package's own model; or a published tokenizer for decoder-only models (see
            `FoundVocabulary`).
    """
    if path:
        _DEFAULT.use(path)
    return _DEFAULT


def padded_size(multiple: int = 128, words: FoundVocabulary | None = None) -> int:
    """Returns the vocabulary size, rounded up so that its axis can be partitioned.

    It is the value of `T5Config.vocab_size` for a model that is trained from scratch.

    Args:
        multiple: divisor of the size.
        words: `@vocabulary.default_vocabulary()` if that is bound to a path, so that
            the path is known before the size is requested.
    """
    return -(-(words or _DEFAULT).vocab_size // multiple) * multiple
