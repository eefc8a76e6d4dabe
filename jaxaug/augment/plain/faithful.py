"""The filter of paraphrases of plain sentences: rules, MiniLM, and a language model.

Small language models often change a sentence by one word, such as a day, or swap agent
and object. Sentence embeddings hardly notice this. The strict filter therefore accounts
for every word.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxaug.augment.judge import filters, measures
from jaxaug.augment.language import inflection, lexicon
from jaxaug.augment.plain import wordings

STRICT, LIGHT, OFF = "strict", "light", "off"
SAME, WORDS, ORDER = "same_words", "words", "order"
PERSONS, MARK = "persons", "mark"
SIMILARITY, FLUENCY, TRIP = "similarity", "fluency", "round_trip"
"""Reasons, in addition to the reasons of `jaxaug.augment.judge.filters`."""

# A word or number; marks between words do not matter here.
_TOKEN = re.compile(r"\$?\d+(?:[.,:]\d+)*%?|[^\W\d]+(?:'[^\W\d]+)*")
# Words that do not change the meaning of a sentence.
_FREE = frozenset(["a", "an", "the", "that", "please", "then", "any"])
_PERSONS = {
    word: number
    for number, words in enumerate(
        (
            "i me my mine myself",
            "we us our ours ourselves",
            "you your yours yourself yourselves",
            "he him his himself",
            "she her hers herself",
            "they them their theirs themselves",
        )
    )
    for word in words.split()
}
_REQUEST = re.compile(r"(?:can|could|would|will) you (?!be\b|have\b)")


@dataclass(frozen=True)
class Limits:
    """Thresholds for a paraphrase.

    Attributes:
        similarity: least cosine of the sentence embeddings of text and paraphrase.
        fluency: nats per token by which the paraphrase may be less likely than the
            text.
        trip: maximum nats per token of text and paraphrase, each given the other.
    """

    similarity: float = 0.75
    fluency: float = 1.5
    trip: float = 1.5


def reasons(source: str, candidate: str, strict: bool) -> tuple[str, ...]:
    """Returns why the rules drop a candidate; empty if they keep it.

    Args:
        source: the sentence.
        candidate: a text that should have the same meaning.
        strict: whether each word must be accounted for. It or a synonym of it must be
            in the sentence or in one of its rewordings by rule, in the same order. Two
            parts may change places.
    """
    (codes,) = filters.reasons(source, [candidate], names=())
    if _kept(wordings.expanded(source)) == _kept(wordings.expanded(candidate)):
        return (*codes, SAME)
    found = [*codes]
    if _asks(source) != _asks(candidate):
        found.append(MARK)
    if _persons(source) != _persons(candidate):
        found.append(PERSONS)
    if strict:
        known = [source, *(one.text for one in wordings.reword(source))]
        problems = {_problem(_words(one), _words(candidate)) for one in known}
        if "" not in problems:
            found.append(ORDER if ORDER in problems else WORDS)
    return tuple(found)


def _problem(first: Sequence[str], second: Sequence[str]) -> str:
    second = _with_synonyms(first, second)
    if Counter(first) != Counter(second):
        return WORDS
    return "" if _is_rotation(first, second) else ORDER


def _words(text: str) -> list[str]:
    return _kept(wordings.canonical(text))


def _kept(text: str) -> list[str]:
    return [word for word in _TOKEN.findall(text.lower()) if word not in _FREE]


def _asks(text: str) -> bool:
    """Returns whether the text asks for an answer; requests in question form do not."""
    return text.rstrip().endswith("?") and not _REQUEST.match(text.lower())


def _persons(text: str) -> set[int]:
    # A request may name the person who is asked or not: "could you call", "call".
    body = _REQUEST.sub("", wordings.expanded(text))
    return {_PERSONS[word] for word in _TOKEN.findall(body) if word in _PERSONS}


def _with_synonyms(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Returns the second text with one synonym replaced by the word of the first."""
    missing = list((Counter(first) - Counter(second)).elements())
    added = list((Counter(second) - Counter(first)).elements())
    if len(missing) != 1 or len(added) != 1 or not _synonyms(missing[0], added[0]):
        return list(second)
    return [missing[0] if word == added[0] else word for word in second]


def _synonyms(first: str, second: str) -> bool:
    """Returns whether two words are synonyms of the lexicon in the same form."""
    own = {(f.base, f.form) for f in inflection.readings(first)}
    other = {(f.base, f.form) for f in inflection.readings(second)}
    known = lexicon.built_in()
    return any(
        form == of_other and base in words
        for base_of_first, form in own
        for base, of_other in other
        for words in known.lookup(base_of_first).values()
    )


def _is_rotation(first: Sequence[str], second: Sequence[str]) -> bool:
    """Returns whether the words have the same order, up to a rotation."""
    turns = range(max(1, len(first)))
    return any([*first[i:], *first[:i]] == list(second) for i in turns)


class Filter:
    """Keeps paraphrases with the meaning of their text; see the module."""

    def __init__(
        self, strict: bool, limits: Limits, similarity: str = "minilm",
        model: str = "smollm2", prompt: str = "sentence",
    ):  # fmt: skip
        """
        Args:
            strict: see `reasons`.
            limits: thresholds of the models.
            similarity: model of sentence embeddings.
            model: language model of the round trip.
            prompt: prompt of the language model.

        Raises:
            UserError: a model is not on this machine.
        """
        # Imported here, as models import JAX.
        from jaxaug.augment.judge.round_trip import RoundTrip
        from jaxaug.models.text import prompts, registry

        self._strict, self._limits = strict, limits
        self._near = measures.find("similarity", model=similarity)
        model_: Any = registry.load(model)
        self._trip = RoundTrip(model_.with_prompt(prompts.find(prompt)))

    def __call__(
        self, sources: Sequence[str], candidates: Sequence[str], trusted: Sequence[bool]
    ) -> list[tuple[tuple[str, ...], float]]:
        """Returns (reasons, score) of each pair; better pairs have a greater score.

        Args:
            sources: sentences.
            candidates: candidates, each for the sentence at the same index.
            trusted: whether the candidate was made by rule; the rules do not judge it.
        """
        found: list[tuple[tuple[str, ...], float]] = [
            ((), 0.0) if trust else (reasons(source, text, self._strict), -np.inf)
            for source, text, trust in zip(sources, candidates, trusted, strict=True)
        ]
        left = [i for i, (codes, _) in enumerate(found) if not codes]
        if not left:
            return found
        own, other = [sources[i] for i in left], [candidates[i] for i in left]
        near = self._near(own, other)
        there, back = self._trip(own, other), self._trip(other, own)
        for i, similarity, one, two in zip(left, near, there, back, strict=True):
            values = {
                SIMILARITY: self._limits.similarity - float(similarity),
                FLUENCY: float(two.alone.mean() - one.alone.mean())
                - self._limits.fluency,
                TRIP: float(-one.given.mean() - two.given.mean()) / 2
                - self._limits.trip,
            }
            codes = tuple(name for name, value in values.items() if value > 0)
            found[i] = codes, round(-values[FLUENCY] - values[TRIP], 4)
        return found
