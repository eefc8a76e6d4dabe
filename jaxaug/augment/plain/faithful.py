"""The filter of paraphrases of plain sentences: rules, and the judge.

Small language models often change a sentence by one word, such as a day, or swap agent
and object. The strict filter therefore accounts for every word, unless the judge is
sure and more than one word is new.
"""

import re
from collections import Counter
from collections.abc import Sequence

from jaxaug.augment.judge import filters, network, verdicts
from jaxaug.augment.judge.features import SENTENCE, Pair
from jaxaug.augment.judge.verdicts import UNFAITHFUL
from jaxaug.augment.language import inflection, lexicon
from jaxaug.augment.plain import wordings

SURE = 0.85
"""Least probability at which a strict filter need not account for every word."""
STRICT, LIGHT, OFF = "strict", "light", "off"
SAME, WORDS, ORDER = "same_words", "words", "order"
PERSONS, MARK = "persons", "mark"
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


def reasons(source: str, candidate: str) -> tuple[str, ...]:
    """Returns why the rules drop a candidate; empty if they keep it."""
    (codes,) = filters.reasons(source, [candidate], names=())
    if _kept(wordings.expanded(source)) == _kept(wordings.expanded(candidate)):
        return (*codes, SAME)
    found = [*codes]
    if _asks(source) != _asks(candidate):
        found.append(MARK)
    if _persons(source) != _persons(candidate):
        found.append(PERSONS)
    return tuple(found)


def doubts(source: str, candidate: str) -> tuple[str, ...]:
    """Returns a reason if not every word is accounted for.

    Each word or a synonym of it must be in the sentence or in one of its rewordings by
    rule, in the same order. Two parts may change places.
    """
    known = [source, *(one.text for one in wordings.reword(source))]
    problems = {_problem(_words(one), _words(candidate)) for one in known}
    if "" in problems:
        return ()
    return (ORDER,) if ORDER in problems else (WORDS,)


def _problem(first: Sequence[str], second: Sequence[str]) -> str:
    second = _with_synonyms(first, second)
    if Counter(first) != Counter(second):
        return WORDS
    return "" if _is_rotation(first, second) else ORDER


def _swaps_a_word(first: str, second: str) -> bool:
    """Returns whether the texts differ in one word that replaces another."""
    own, other = Counter(_words(first)), Counter(_words(second))
    return (own - other).total() == (other - own).total() == 1


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


def judged(
    sources: Sequence[str],
    candidates: Sequence[str],
    trusted: Sequence[bool],
    strict: bool,
    model: str = network.BASE,
) -> list[tuple[tuple[str, ...], float]]:
    """Returns (reasons, probability) of each pair; without reasons, it is kept.

    Args:
        candidates: candidates, each for the sentence at the same index.
        trusted: whether the candidate was made by rule; the rules do not judge it.
        strict: whether each word must be accounted for (see `doubts`) where the
            probability is below `SURE` or one word replaces another.
        model: a key of `verdicts.NAMES`.

    Raises:
        UserError: a model is not on this machine and cannot be fetched.
    """
    found, least = list[tuple[str, ...]](), list[float]()
    for source, text, trust in zip(sources, candidates, trusted, strict=True):
        codes = () if trust else reasons(source, text)
        unclear = doubts(source, text) if strict and not (trust or codes) else ()
        # The judge often overlooks that one word replaces another.
        found.append(unclear if unclear and _swaps_a_word(source, text) else codes)
        least.append(SURE if unclear else verdicts.LEAST)
    left = [place for place, codes in enumerate(found) if not codes]
    pairs = [Pair(SENTENCE, sources[place], candidates[place]) for place in left]
    values = verdicts.faithful(pairs, model, [least[place] for place in left]).tolist()
    probabilities = dict(zip(left, values, strict=True))
    for place, value in probabilities.items():
        if value < least[place]:
            found[place] = (UNFAITHFUL,)
    return [(codes, probabilities.get(place, 0.0)) for place, codes in enumerate(found)]
