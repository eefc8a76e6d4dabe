"""The vocabulary of the tasks."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from t5x.search.decode_state import check_tokens

from jaxaug.core.errors import UserError
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
        self._named = ""
        self._found: vocabulary.TokenVocabulary | hf.Tokenizer | None = None

    def use(self, path: str) -> None:
        """Names the vocabulary to use instead of the default.

        Args:
            path: a SentencePiece model, or a path for `tokenizers.hf.load`.

        Raises:
            UserError: another vocabulary is already in use.
        """
        used = self._named or (self._found.path if self._found else "")
        if used not in ("", path):
            raise UserError(
                f"vocabulary {path}: {used} is in use already in this process; "
                "name one vocabulary only."
            )
        self._named = path

    @property
    def found(self) -> vocabulary.TokenVocabulary | hf.Tokenizer:
        """The SentencePiece model, or the published tokenizer."""
        if self._found is None:
            path = vocabulary.shipped(self._named)
            if not (path and hf.is_published(path)):
                # The copy of a run takes precedence.
                path = vocabulary.model_file(named=path)
            is_published = hf.is_published(path)
            self._found = (
                hf.load(path, id_offset=1)
                if is_published
                else vocabulary.TokenVocabulary(path)
            )
        return self._found

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of `found`, such as `vocab_size` or `encode`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.found, name)

    @property
    def is_published(self) -> bool:
        """True for a published tokenizer, False for a SentencePiece model."""
        return isinstance(self.found, hf.Tokenizer)

    @property
    def file(self) -> str:
        """Path of the vocabulary file."""
        return self.found.path

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the end of sequence.

        Ids beyond the vocabulary become the unknown piece, if there is one.

        Raises:
            UserError: an id before the end is `t5x.search.decode_state.BROKEN`.
        """
        known = [int(token) for token in ids]
        if (end := self.eos_id) in known:
            known = known[: known.index(end)]
        check_tokens(known)  # The T5X programs pass on the output of a decode function.
        return self.found.decode(known)

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
