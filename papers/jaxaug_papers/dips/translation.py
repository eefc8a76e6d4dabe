"""Translation metrics that papers use for paraphrases: BLEU, METEOR, and TER.

README.md of dips has the definitions. All values are in percent. The DiPS paper reports
TERp (TER-Plus, Snover et al., 2009), which is not available here. Its only
implementation is in Java and needs WordNet and a phrase table; no maintained library
has it. TER is not comparable with TERp. It ignores synonyms, stems, and phrases, so its
values are higher.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra
from jaxaug.metrics.diversity import load_sacrebleu
from jaxaug.metrics.text import sacrebleu_corpus

Synonyms = Callable[[str], Collection[str]]
"""Lower-case word -> other words that METEOR accepts as synonyms."""


class _Lemma(NamedTuple):
    text: str

    def name(self) -> str:
        return self.text


class _Synset(NamedTuple):
    words: Collection[str]

    def lemmas(self) -> list[_Lemma]:
        return [_Lemma(word) for word in self.words]


class _Stem(str):
    """A stem with a reference to its word."""

    word: str


class _Stemmer:
    """The Porter stemmer for nltk, which looks stems up in WordNet instead of words."""

    def __init__(self) -> None:
        self._porter = load_nltk().PorterStemmer()

    def stem(self, word: str) -> _Stem:
        found = _Stem(self._porter.stem(word))
        found.word = word
        return found


class _Thesaurus:
    """The part of the WordNet interface that nltk uses: the stems of synonyms."""

    def __init__(self, synonyms: Synonyms | None):
        self._synonyms = synonyms

    def synsets(self, stem: _Stem) -> list[_Synset]:
        if self._synonyms is None:
            return []
        words = (word for word in self._synonyms(stem.word) if " " not in word)
        return [_Synset([_stemmer().stem(word.lower()) for word in words])]


@functools.cache
def _stemmer() -> _Stemmer:
    return _Stemmer()


def load_nltk() -> Any:
    """Returns the module `nltk.translate.meteor_score`, which computes METEOR.

    Raises:
        UserError: nltk is not installed.
    """
    try:
        from nltk.translate import meteor_score
    except ImportError:
        raise missing_extra(
            "cannot compute METEOR: nltk is not installed", "nltk"
        ) from None
    return meteor_score


@functools.cache
def _tokenizer() -> Callable[[str], str]:
    return load_sacrebleu().metrics.BLEU(tokenize="13a").tokenizer


def meteor(prediction: str, reference: str, synonyms: Synonyms | None = None) -> float:
    """Returns METEOR of a text and its reference, 0 to 100.

    Args:
        synonyms: see `Synonyms`, such as `WordNet.shared`; None computes
            `meteor_stems`.

    Raises:
        UserError: nltk or sacrebleu is not installed.
    """
    words = [_tokenizer()(text.lower()).split() for text in (reference, prediction)]
    score = load_nltk().single_meteor_score(
        *words, stemmer=_stemmer(), wordnet=_Thesaurus(synonyms)
    )
    return 100.0 * score


def ter(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Returns TER of a corpus: 0 for equal texts; long texts may exceed 100.

    Raises:
        UserError: sacrebleu is not installed.
    """
    scorer = load_sacrebleu().metrics.TER()
    return scorer.corpus_score(list(predictions), [list(references)]).score


def paraphrase_scores(
    predictions: Sequence[str],
    references: Sequence[str],
    synonyms: Synonyms | None = None,
) -> dict[str, float]:
    """Returns BLEU-2, METEOR, and TER of texts with one reference each.

    Args:
        synonyms: synonyms for `meteor`; None computes `meteor_stems` instead.

    Returns:
        Values of `bleu_2`, `meteor` or `meteor_stems`, and `ter`.
        The first two are from 0 to 100, and higher is better. TER is in percent, and
        lower is better.

    Raises:
        UserError: there is no text, the numbers differ, or nltk or sacrebleu is not
            installed.
    """
    if len(predictions) != len(references) or not predictions:
        raise UserError(
            f"{len(predictions)} texts and {len(references)} references: give one "
            "reference for each text, and at least one."
        )
    pairs = zip(predictions, references, strict=True)
    values = [meteor(text, answer, synonyms) for text, answer in pairs]
    return {
        "bleu_2": sacrebleu_corpus(predictions, references, 2),
        "meteor" if synonyms else "meteor_stems": float(np.mean(values)),
        "ter": ter(predictions, references),
    }
