"""The classifiers of `jaxaug classify`: logistic regressions and LSTMs, by name."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxaug.augment.language.lexicon import STOP_WORDS
from jaxaug.core.installed import missing_extra
from jaxaug_papers.dips.classify import networks
from jaxaug_papers.dips.classify.examples import SAME, Example
from jaxaug_papers.dips.classify.networks import Settings, Split
from jaxaug_papers.shared import encoders

_WORDS = re.compile(r"\w+|[^\w\s]")
_PADDING, _UNKNOWN = 0, 1


class Fold(NamedTuple):
    """The data of one seed.

    Attributes:
        train: training examples, including the paraphrases.
        originals: number of training examples that are not paraphrases.
    """

    seed: int
    train: Sequence[Example]
    originals: int
    validation: Sequence[Example]
    test: Sequence[Example]
    labels: Sequence[str]


Classify = Callable[[Sequence[Fold], Settings], list[list[str]]]
"""(a fold per seed, settings of LSTMs) -> labels of the test examples of each fold."""


def sentence_regression(folds: Sequence[Fold], settings: Settings) -> list[list[str]]:
    """Classifies with logistic regression on tf-idf of unigrams and bigrams.

    Features occur in at least 5 training texts and have sublinear counts; rows have
    length 1. Test texts are not used for fitting. If no word is frequent enough, every
    example gets the most frequent class.

    Raises:
        UserError: scikit-learn is not installed.
    """
    del settings
    found = []
    for fold in folds:
        texts = [example.texts[0] for example in fold.train]
        vectors = _sklearn("feature_extraction.text").TfidfVectorizer(
            sublinear_tf=True, min_df=min(5, len(texts)), ngram_range=(1, 2)
        )
        try:
            features = vectors.fit_transform(texts)
        except ValueError:  # No word is frequent enough.
            common = Counter(example.label for example in fold.train).most_common(1)
            found.append([common[0][0]] * len(fold.test))
            continue
        tests = vectors.transform([example.texts[0] for example in fold.test])
        found.append(_regression(features, fold, tests))
    return found


def pair_regression(folds: Sequence[Fold], settings: Settings) -> list[list[str]]:
    """Classifies pairs with logistic regression on the two features of `matches`.

    Raises:
        UserError: scikit-learn is not installed.
    """
    del settings
    found = []
    for fold in folds:
        weights = word_weights(fold.train)
        features, tests = (
            np.array([matches(one.texts[0], one.texts[1], weights) for one in split])
            for split in (fold.train, fold.test)
        )
        found.append(_regression(features, fold, tests))
    return found


def _regression(features: Any, fold: Fold, tests: Any) -> list[str]:
    labels = [example.label for example in fold.train]
    if len(set(labels)) == 1:
        return labels[:1] * len(fold.test)
    model = _sklearn("linear_model").LogisticRegression(max_iter=1000)
    return model.fit(features, labels).predict(tests).tolist()


def _sklearn(module: str) -> Any:
    try:
        import importlib

        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise missing_extra(
            "cannot fit a logistic regression: scikit-learn is not installed", "sklearn"
        ) from None


def word_weights(examples: Sequence[Example]) -> dict[str, float]:
    """Returns the weights of words: 1 / (count + 10,000), or 0 if the count is 1.

    The constant is from the authors' program. It is so large that rare and common words
    have nearly the same weight.
    """
    counts = Counter(word for e in examples for t in e.texts for word in _plain(t))
    return {
        w: 1 / (count + 10_000) if count > 1 else 0.0 for w, count in counts.items()
    }


def _plain(text: str) -> list[str]:
    return text.lower().split()


def matches(
    first: str, second: str, weights: Mapping[str, float]
) -> tuple[float, float]:
    """Returns the fraction of shared words of two texts, unweighted and weighted.

    Distinct words of both texts count, except for stop words. Without any such word,
    both fractions are 0.
    """
    left, right = ({*_plain(text)} - STOP_WORDS for text in (first, second))
    if not left or not right:
        return 0.0, 0.0
    shared = left & right
    total = sum(weights.get(word, 0.0) for own in (left, right) for word in own)
    weight = 2 * sum(weights.get(word, 0.0) for word in shared)
    return (
        2 * len(shared) / (len(left) + len(right)),
        weight / total if total else 0.0,
    )


def lstm(folds: Sequence[Fold], settings: Settings) -> list[list[str]]:
    """Classifies with an LSTM over a sentence, or over each of a pair; see `networks`.

    Words are lower-cased runs of letters and digits, and single other characters. Words
    without training examples share a vector. With `settings.encoder`, the words are its
    tokens.
    """
    labels = list(folds[0].labels)
    if len(folds[0].test[0].texts) == 2:
        labels.sort(key=lambda label: label == SAME)
    encode, table = _words(folds, settings)
    train, validation, test = (
        _split([getattr(fold, name) for fold in folds], labels, encode, settings)
        for name in ("train", "validation", "test")
    )
    found = networks.fit(
        settings,
        train,
        [len(fold.train) for fold in folds],
        validation,
        test,
        [fold.seed for fold in folds],
        settings.batch_for(max(fold.originals for fold in folds)),
        len(labels),
        table,
    )
    return [[labels[number] for number in row] for row in found.tolist()]


_Encode = Callable[[int, Sequence[str]], list[list[int]]]


def _words(
    folds: Sequence[Fold], settings: Settings
) -> tuple[_Encode, Float[np.ndarray, "words width"] | None]:
    """Returns a function (fold, texts) -> word ids, and fixed word vectors or None."""
    if settings.encoder:
        return encoders.words_of(settings.encoder)
    vocabularies = []
    for fold in folds:
        texts = (text for example in fold.train for text in example.texts)
        words = dict.fromkeys(w for text in texts for w in _WORDS.findall(text.lower()))
        vocabularies.append({word: n for n, word in enumerate(words, _UNKNOWN + 1)})

    def encode(place: int, texts: Sequence[str]) -> list[list[int]]:
        known = vocabularies[place]
        return [
            [known.get(word, _UNKNOWN) for word in _WORDS.findall(text.lower())]
            for text in texts
        ]

    return encode, None


def _split(
    examples: Sequence[Sequence[Example]],
    labels: Sequence[str],
    encode: _Encode,
    settings: Settings,
) -> Split:
    """Returns the examples of all seeds, padded to the same number and length."""
    number = {label: n for n, label in enumerate(labels)}
    many, texts = max(map(len, examples)), len(examples[0][0].texts)
    shape = (len(examples), many, texts, settings.max_length)
    tokens = np.full(shape, _PADDING, np.int32)
    classes = np.zeros(shape[:2], np.int32)
    for place, own in enumerate(examples):
        classes[place, : len(own)] = [number[example.label] for example in own]
        for column in range(texts):
            found = encode(place, [example.texts[column] for example in own])
            for row, ids in enumerate(found):
                # An empty text becomes a single unknown word.
                ids = ids[: settings.max_length] or [_UNKNOWN]
                tokens[place, row, column, : len(ids)] = ids
    return Split(tokens, classes)


CLASSIFIERS: Mapping[str, tuple[Classify, int]] = {
    "LogReg": (sentence_regression, 1),
    "LSTM": (lstm, 1),
    "LogReg on matches": (pair_regression, 2),
    "SiameseLSTM": (lstm, 2),
}
"""Name -> (function, texts of an example)."""
