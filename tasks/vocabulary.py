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
    """The vocabulary that is named, or that `jaxaug.feed.vocabulary.model_file` finds.

    It is looked up, and if need be trained, at the first use of a piece: registering
    tasks stays cheap. Everything is asked of the vocabulary that is found; the class
    derives from that of SentencePiece so that comparisons with one ask it first.
    """

    def __init__(self) -> None:
        super().__init__("")
        self._named = self._path = ""
        self._vocabulary: seqio.Vocabulary | None = None

    def use(self, path: str) -> None:
        """Names the vocabulary, in place of the one that would be found.

        Args:
          path: a SentencePiece model, or what `HFVocabulary` reads.

        Raises:
          UserError: another one is in use already.
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
                # A run has a copy of its own, which goes before.
                self._path = vocabulary.model_file(named=self._path)
            if hf.is_published(self._path):
                self._vocabulary = HFVocabulary(self._path)
            else:
                vocabulary.load(self._path)  # Checks the special ids.
                self._vocabulary = seqio.SentencePieceVocabulary(self._path)
        return self._vocabulary

    @property
    def sentencepiece_model_file(self) -> str:
        """Path of the SentencePiece model, which exists from here on.

        Raises:
          AttributeError: the vocabulary is of another kind.
        """
        return self.found.sentencepiece_model_file  # type: ignore[attr-defined]

    @property
    def tokenizer(self) -> Any:
        """The processor of the library that the vocabulary belongs to."""
        return self.found.tokenizer  # type: ignore[attr-defined]

    @property
    def file(self) -> str:
        """The file with the vocabulary."""
        if isinstance(self.found, HFVocabulary):
            return self.found.tokenizer.path
        return self.sentencepiece_model_file

    @property
    def encode_batch(self) -> Callable[[Sequence[str]], list[list[int]]] | None:
        """Encodes many texts; None for a SentencePiece model, which can be loaded."""
        return getattr(self.found, "encode_batch", None)

    @property
    def eos_id(self) -> int | None:
        """Id that ends a sequence."""
        return self.found.eos_id

    @property
    def unk_id(self) -> int | None:
        """Id of what the vocabulary lacks."""
        return self.found.unk_id

    @property
    def bos_id(self) -> int | None:
        """Id that begins a sequence."""
        return self.found.bos_id

    @property
    def _base_vocab_size(self) -> int:
        return self.found.vocab_size

    def _encode(self, s: str) -> Sequence[int]:
        return self.found._encode(s)

    def _decode(self, ids: Iterable[int]) -> str:
        ids = [int(token) for token in ids]
        check_tokens(ids)  # The T5X programs hand on what a decode function gave.
        return self.found._decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        return self.found._encode_tf(s)

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        return self.found._decode_tf(ids)

    def __eq__(self, other: object) -> bool:
        """Whether the other vocabulary reads the same file and adds no ids."""
        if isinstance(other, FoundVocabulary):
            return self is other or self.found == other.found
        return isinstance(other, seqio.Vocabulary) and self.found == other

    def __str__(self) -> str:
        return str(self.found)


_DEFAULT = FoundVocabulary()


def default_vocabulary(path: str | None = None) -> FoundVocabulary:
    """The vocabulary of all tasks, for `VOCABULARY = @vocabulary.default_vocabulary()`.

    Args:
      path: a SentencePiece model, such as that of the pretrained T5, or `mini` for that
        of the package's own model; or a published tokenizer for decoder-only models
        (see `HFVocabulary`). Without it the model is `$JAXAUG_VOCABULARY`, else made of the words of the data folder. A SentencePiece
        model is copied into the folder of a run that begins; programs that go on with
        it, or load it, use the copy (`jaxaug.feed.run_vocabulary`).
    """
    if path:
        _DEFAULT.use(path)
    return _DEFAULT


def padded_size(multiple: int = 128, words: FoundVocabulary | None = None) -> int:
    """Size of the vocabulary, rounded up so that its axis can be partitioned.

    It is the value of `T5Config.vocab_size` for a model that starts from nothing.

    Args:
      multiple: what the size is divisible by.
      words: `@vocabulary.default_vocabulary()`, where that is bound to a path: so the
        path is known before the size is asked for.
    """
    return -(-(words or _DEFAULT).vocab_size // multiple) * multiple
