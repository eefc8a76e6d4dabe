"""The vocabulary of the tasks as a SeqIO vocabulary."""

import seqio

from jaxaug.data import vocabulary
from jaxaug.errors import UserError


class FoundVocabulary(seqio.SentencePieceVocabulary):
    """The SentencePiece model that `jaxaug.data.vocabulary.model_file` finds.

    It is looked up, and if need be trained, at the first use of a piece: registering
    tasks stays cheap.
    """

    def __init__(self) -> None:
        super().__init__("")
        self._sentencepiece_model_file: str = ""

    def use(self, path: str) -> None:
        """Names the model, in place of the one that would be found.

        Raises:
          UserError: another model is in use already.
        """
        if self._sentencepiece_model_file not in ("", path):
            raise UserError(
                f"vocabulary {path}: {self._sentencepiece_model_file} is in use already "
                "in this process; name one vocabulary only."
            )
        self._sentencepiece_model_file = path

    def _model_context(self):
        if not self._sentencepiece_model_file:
            path = vocabulary.model_file()
            vocabulary.load(path)  # Checks the special ids.
            self._sentencepiece_model_file = path
        return super()._model_context()

    @property
    def sentencepiece_model_file(self) -> str:
        """Path of the model, which exists from here on."""
        self.load_model()
        return self._sentencepiece_model_file

    def __eq__(self, other: object) -> bool:
        """Whether the other vocabulary reads the same file and adds no ids."""
        if isinstance(other, FoundVocabulary):
            return True
        return (
            isinstance(other, seqio.SentencePieceVocabulary)
            and other.sentencepiece_model_file == self.sentencepiece_model_file
            and other.extra_ids == 0
        )


_DEFAULT = FoundVocabulary()


def default_vocabulary(path: str | None = None) -> seqio.SentencePieceVocabulary:
    """The vocabulary of all tasks, for `VOCABULARY = @vocabulary.default_vocabulary()`.

    Args:
      path: a SentencePiece model, such as that of the pretrained T5. Without it the
        model is `$JAXAUG_VOCABULARY`, else made of the words of the data folder.
    """
    if path:
        _DEFAULT.use(path)
    return _DEFAULT


def padded_size(multiple: int = 128) -> int:
    """Size of the vocabulary, rounded up so that its axis can be partitioned.

    It is the value of `T5Config.vocab_size` for a model that starts from nothing.
    """
    return -(-_DEFAULT.vocab_size // multiple) * multiple
