"""Scores of translation, by which papers judge paraphrases: BLEU, METEOR, TER.

All are in per cent. TERp (TER-Plus, Snover et al., 2009), which the DiPS paper has, is
not here: its only program is in Java, needs WordNet and a table of phrases, and no kept
library has it. TER is another score: it knows no synonyms, stems or phrases, so that its
values are higher.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra
from jaxaug.metrics.diversity import load_sacrebleu
from jaxaug.metrics.text import sacrebleu_corpus

Synonyms = Callable[[str], Collection[str]]
"""A lower-case word -> other words that METEOR takes for it."""

DEFINITIONS: Mapping[str, str] = {
    "bleu_2": "BLEU of the whole corpus with n-grams up to 2 by sacrebleu: 13a tokens, "
    "exponential smoothing",
    "meteor": "mean over texts of METEOR by nltk (Lavie and Agarwal, 2007): alpha 0.9, "
    "beta 3, gamma 0.5; equal words, then equal Porter stems, then stems of words "
    "that WordNet has in one set (nltk by itself looks stems up, which are mostly "
    "none of its words); tokens of sacrebleu's 13a in lower case",
    "meteor_stems": "the same without WordNet: equal words and stems",
    "ter": "edits for each word of the references (Snover et al., 2006) by sacrebleu: "
    "shifts of words count 1; case does not count",
}


class _Lemma(NamedTuple):
    text: str

    def name(self) -> str:
        return self.text


class _Synset(NamedTuple):
    words: Collection[str]

    def lemmas(self) -> list[_Lemma]:
        return [_Lemma(word) for word in self.words]


class _Stem(str):
    """A stem that knows its word."""

    word: str


class _Stemmer:
    """Porter's stems for nltk, which looks these up in WordNet in the place of words."""

    def __init__(self) -> None:
        self._porter = load_nltk().PorterStemmer()

    def stem(self, word: str) -> _Stem:
        found = _Stem(self._porter.stem(word))
        found.word = word
        return found


class _Thesaurus:
    """What nltk asks of its reader of WordNet: the stems of what a word may be."""

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
    """Returns the library that computes METEOR.

    Raises:
        UserError: it is not installed.
    """
    try:
        from nltk.translate import meteor_score
    except ImportError:
        raise missing_extra(
            "cannot compute METEOR: nltk is not installed", "nlp"
        ) from None
    return meteor_score


@functools.cache
def _tokenizer() -> Callable[[str], str]:
    return load_sacrebleu().metrics.BLEU(tokenize="13a").tokenizer


def meteor(prediction: str, reference: str, synonyms: Synonyms | None = None) -> float:
    """METEOR of a text against its reference, 0 to 100; see `DEFINITIONS`.

    Args:
        prediction: what is scored; nothing in common with the reference is 0.
        reference: what should have been written.
        synonyms: see `Synonyms`, such as `WordNet.shared`; None is `meteor_stems`.

    Raises:
        UserError: nltk or sacrebleu is not installed.
    """
    words = [_tokenizer()(text.lower()).split() for text in (reference, prediction)]
    score = load_nltk().single_meteor_score(
        *words, stemmer=_stemmer(), wordnet=_Thesaurus(synonyms)
    )
    return 100.0 * score


def ter(predictions: Sequence[str], references: Sequence[str]) -> float:
    """TER of a corpus; 0 is equal, above 100 where texts are too long.

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
    """BLEU, METEOR and TER of texts against one reference each.

    Args:
        predictions: one or more.
        references: of each.
        synonyms: for `meteor`; without them its name is `meteor_stems`.

    Returns:
        Name of `DEFINITIONS` -> value.

    Raises:
        UserError: there is nothing to score or the numbers differ, or nltk or sacrebleu
            is not installed.
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
