"""The vocabulary of the tasks, which is a SeqIO vocabulary where SeqIO is imported."""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from jaxaug.core.errors import UserError
from jaxaug.decode.contract import check_tokens
from jaxaug.feed import vocabulary
from jaxaug.models.tokenizers import hf


class FoundVocabulary:
    """The named vocabulary, or the result of `jaxaug.feed.vocabulary.model_file`.

    It is looked up, and trained if missing, on first use, so registering tasks is
    cheap. Encoding and decoding need no SeqIO; the TensorFlow methods import it.
    Once SeqIO is imported, instances also derive from its SentencePiece class (see
    `default_vocabulary`), so that comparisons with such a vocabulary ask this one
    first.
    """

    pad_id = extra_ids = 0

    def __new__(cls) -> Self:
        return object.__new__(_class_in_seqio() if "seqio" in sys.modules else cls)

    def __init__(self) -> None:
        self._named = self._path = ""
        self._tokenizer: Any = None
        self._found: Any = None

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
    def found(self) -> Any:
        """The vocabulary itself, a `seqio.Vocabulary`."""
        if self._found is None:
            import seqio

            from tasks.hf_vocabulary import HFVocabulary

            kind = HFVocabulary if self._published else seqio.SentencePieceVocabulary
            self._found = kind(self._path)
        return self._found

    @property
    def _published(self) -> hf.Tokenizer | None:
        return self.tokenizer if isinstance(self.tokenizer, hf.Tokenizer) else None

    @property
    def sentencepiece_model_file(self) -> str:
        """Path of the SentencePiece model, which is built if missing.

        Raises:
            AttributeError: the vocabulary is of another kind.
        """
        if self._published:
            message = f"{self._path} is no SentencePiece model"
            raise AttributeError(message)
        return self._path

    @property
    def file(self) -> str:
        """Path of the vocabulary file."""
        return self._published.path if self._published else self._path

    @property
    def encode_batch(self) -> Callable[[Sequence[str]], list[list[int]]] | None:
        """Function that encodes many texts; None for a SentencePiece model."""
        return getattr(self._published, "encode_batch", None)

    def _id(self, role: str) -> int | None:
        found = getattr(self.tokenizer, f"{role}_id")
        return found if self._published else found()

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
        found = self._published
        return found.vocab_size if found else self.tokenizer.get_piece_size()

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
        """See `seqio.Vocabulary.encode_tf`."""
        return self.found.encode_tf(s)

    def decode_tf(self, ids: Any) -> Any:
        """See `seqio.Vocabulary.decode_tf`."""
        return self.found.decode_tf(ids)

    def __eq__(self, other: object) -> bool:
        """Returns whether the other vocabulary reads the same file and adds no ids."""
        if isinstance(other, FoundVocabulary):
            return self is other or self.found == other.found
        seqio = sys.modules.get("seqio")
        known = seqio is not None and isinstance(other, seqio.Vocabulary)
        return known and self.found == other

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()  # gin copies vocabularies; SeqIO's state differs.

    def __str__(self) -> str:
        return f"FoundVocabulary({self.file})"


@functools.cache
def _class_in_seqio() -> type:
    """Returns the subclass of `FoundVocabulary` that is a SeqIO vocabulary."""
    import seqio

    bases = FoundVocabulary, seqio.SentencePieceVocabulary
    return type(FoundVocabulary.__name__, bases, {"__module__": __name__})


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
    if "seqio" in sys.modules:  # It may have been imported in the meantime.
        _DEFAULT.__class__ = _class_in_seqio()
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
