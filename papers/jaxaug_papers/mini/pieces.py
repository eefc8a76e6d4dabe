"""The vocabulary of the model `mini`: pieces for known words, and subwords.

It is a unigram model (Kudo, 2018) with the rules of `jaxaug.feed.vocabulary`. An index
is one token, and a comma does not change the token of a word. Text without pieces is
encoded as bytes, so that any text can be read and written.
"""

from collections.abc import Iterable, Iterator, Sequence

from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data import folders, sgd
from jaxaug.data.schema import read_schema
from jaxaug.feed import vocabulary
from jaxaug.formats.records import letter

SENTINELS = tuple(f"<{number}>" for number in range(8))
"""Sentinels of hidden spans, in order."""

_SLOTS, _INTENTS, _OPTIONS = 20, 10, 8
# Count of a listed word, large enough for a piece next to frequent text.
_LISTED = 60
_WORDS_A_LINE = 100


def train(data_dirs: Sequence[PathLike], words: Iterable[str], size: int) -> bytes:
    """Returns a SentencePiece model of the training text of data folders.

    Args:
        data_dirs: folders in the layout of the SGD repository; their train splits with
            original schemas are read.
        words: words that become whole pieces, whether or not they occur in the text.
    """
    return vocabulary.sentencepiece_model(
        _texts(data_dirs, sorted(words)),
        model_type="unigram",
        vocab_size=size,
        byte_fallback=True,
        # Indexes such as 1a are words.
        split_by_unicode_script=False,
        split_by_number=False,
        user_defined_symbols=_symbols(),
    )


def _symbols() -> list[str]:
    """Returns the indices and markers, which are one piece each."""
    words = [*vocabulary.MARKERS.split(), ")", *SENTINELS]
    words += [f"{slot}=" for slot in range(_SLOTS)]
    words += [f"i{n}{end}" for n in range(_INTENTS) for end in ("", "=")]
    words += [f"{s}{letter(o)}" for s in range(_SLOTS) for o in range(_OPTIONS)]
    return [f"\N{LOWER ONE EIGHTH BLOCK}{word}" for word in words]


def _texts(data_dirs: Sequence[PathLike], words: Sequence[str]) -> Iterator[str]:
    for folder in data_dirs:
        schema = read_schema(folders.schema_path(folder, "train"))
        yield from vocabulary.schema_texts(schema)
        for dialogue in sgd.read_dialogues(folder, "train"):
            yield from (clean(turn.utterance, True) for turn in dialogue.turns)
    for start in range(0, len(words), _WORDS_A_LINE):
        line = " ".join(words[start : start + _WORDS_A_LINE])
        yield from (line for _ in range(_LISTED))
