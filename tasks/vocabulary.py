"""The vocabulary of the tasks as a SeqIO vocabulary."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import seqio
import tensorflow as tf

from jaxaug.core.errors import UserError
from jaxaug.decode.contract import check_tokens
from jaxaug.feed import vocabulary
from jaxaug.models.tokenizers import hf
from tasks.hf_vocabulary import HFVocabulary


class FoundVocabulary(seqio.SentencePieceVocabulary):
    """The named vocabulary, or the result of `jaxaug.feed.vocabulary.model_file`.

    It is looked up, and trained if missing, on first use, so registering tasks is
    cheap. All calls go to the vocabulary that is found. The class derives from
    SentencePiece's class, so that comparisons with such a vocabulary ask this one
    first.
    """

    def __init__(self) -> None:
        super().__init__("")
        self._named = self._path = ""
        self._vocabulary: seqio.Vocabulary | None = None

    def use(self, path: str) -> None:
        """Names the vocabulary to use instead of the default.

        Args:
            path: a SentencePiece model, or a path for `HFVocabulary`.

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
    def found(self) -> seqio.Vocabulary:
        """The vocabulary itself."""
        if self._vocabulary is None:
            self._path = vocabulary.shipped(self._named)
            if not (self._path and hf.is_published(self._path)):
                # The copy of a run takes precedence.
                self._path = vocabulary.model_file(named=self._path)
            if hf.is_published(self._path):
                self._vocabulary = HFVocabulary(self._path)
            else:
                vocabulary.load(self._path)  # Checks the special ids.
                self._vocabulary = seqio.SentencePieceVocabulary(self._path)
        return self._vocabulary

    @property
    def sentencepiece_model_file(self) -> str:
        """Path of the SentencePiece model, which is built if missing.

        Raises:
            AttributeError: the vocabulary is of another kind.
        """
        return self.found.sentencepiece_model_file  # type: ignore[attr-defined]

    @property
    def tokenizer(self) -> Any:
        """The processor of the vocabulary's library."""
        return self.found.tokenizer  # type: ignore[attr-defined]

    @property
    def file(self) -> str:
        """Path of the vocabulary file."""
        if isinstance(self.found, HFVocabulary):
            return self.found.tokenizer.path
        return self.sentencepiece_model_file

    @property
    def encode_batch(self) -> Callable[[Sequence[str]], list[list[int]]] | None:
        """Function that encodes many texts; None for a SentencePiece model."""
        return getattr(self.found, "encode_batch", None)

    @property
    def eos_id(self) -> int | None:
        """Id that ends a sequence."""
        return self.found.eos_id

    @property
    def unk_id(self) -> int | None:
        """Id of unknown text."""
        return self.found.unk_id

    @property
    def bos_id(self) -> int | None:
        """Id that starts a sequence."""
        return self.found.bos_id

    @property
    def _base_vocab_size(self) -> int:
        return self.found.vocab_size

    def _encode(self, s: str) -> Sequence[int]:
        return self.found._encode(s)

    def _decode(self, ids: Iterable[int]) -> str:
        ids = [int(token) for token in ids]
        check_tokens(ids)  # The T5X programs pass on the output of a decode function.
        return self.found._decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        return self.found._encode_tf(s)

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        return self.found._decode_tf(ids)

    def __eq__(self, other: object) -> bool:
        """Returns whether the other vocabulary reads the same file and adds no ids."""
        if isinstance(other, FoundVocabulary):
            return self is other or self.found == other.found
        return isinstance(other, seqio.Vocabulary) and self.found == other

    def __str__(self) -> str:
        return str(self.found)


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
            `HFVocabulary`).
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
