"""The filter of paraphrases of plain sentences: rules, MiniLM, and a language model.

Small language models often change a sentence by one word, such as the day or who does what,
and sentence embeddings hardly notice. So the strict filter accounts for every word.
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
"""Reasons, after those of `jaxaug.augment.judge.filters`."""

# A word or number; marks between words say nothing here.
_TOKEN = re.compile(r"\$?\d+(?:[.,:]\d+)*%?|[^\W\d]+(?:'[^\W\d]+)*")
# Without these words a sentence says the same.
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
    """What a paraphrase must reach.

    Attributes:
      similarity: cosine of the sentence embeddings of text and paraphrase, at least.
      fluency: nats per token by which the paraphrase may be less likely than the text.
      trip: nats per token of text and paraphrase, each given the other, at most.
    """

    similarity: float = 0.75
    fluency: float = 1.5
    trip: float = 1.5


def reasons(source: str, candidate: str, strict: bool) -> tuple[str, ...]:
    """Why the rules drop a candidate; none if they keep it.

    Args:
      source: the sentence.
      candidate: a text that is to say the same.
      strict: whether each word must be accounted for: it stands in the sentence or in
        one of its rewordings by rule, or a synonym does, in the same order, but for two
        parts that change places.
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
    """Whether the text asks for an answer; requests in the form of questions do not."""
    return text.rstrip().endswith("?") and not _REQUEST.match(text.lower())


def _persons(text: str) -> set[int]:
    # Requests name the person who is asked or not: "could you call", "call".
    body = _REQUEST.sub("", wordings.expanded(text))
    return {_PERSONS[word] for word in _TOKEN.findall(body) if word in _PERSONS}


def _with_synonyms(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The second text with the word of the first for one synonym of it."""
    missing = list((Counter(first) - Counter(second)).elements())
    added = list((Counter(second) - Counter(first)).elements())
    if len(missing) != 1 or len(added) != 1 or not _synonyms(missing[0], added[0]):
        return list(second)
    return [missing[0] if word == added[0] else word for word in second]


def _synonyms(first: str, second: str) -> bool:
    """Whether two words are synonyms of the lexicon in the same form."""
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
    """Whether the words are in the same order but for two parts that change places."""
    turns = range(max(1, len(first)))
    return any([*first[i:], *first[:i]] == list(second) for i in turns)


class Filter:
    """Keeps paraphrases that say what their text says; see the module."""

    def __init__(
        self, strict: bool, limits: Limits, similarity: str = "minilm",
        model: str = "smollm2", prompt: str = "sentence",
    ):  # fmt: skip
        """
        Args:
          strict: see `reasons`.
          limits: of the models.
          similarity: model of sentences.
          model: language model of the round trip.
          prompt: of that model.

        Raises:
          UserError: a model is not on this machine.
        """
        # Models bring JAX with them.
        from jaxaug.augment.judge.round_trip import RoundTrip
        from jaxaug.models.text import prompts, registry

        self._strict, self._limits = strict, limits
        self._near = measures.find("similarity", model=similarity)
        model_: Any = registry.load(model)
        self._trip = RoundTrip(model_.with_prompt(prompts.find(prompt)))

    def __call__(
        self, sources: Sequence[str], candidates: Sequence[str], trusted: Sequence[bool]
    ) -> list[tuple[tuple[str, ...], float]]:
        """(reasons, score) of each pair; the score is greater for better ones.

        Args:
          sources: sentences.
          candidates: of the sentence at the same place.
          trusted: whether the candidate was made by rule: rules do not judge rules.
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
