"""Mistakes of a wording regardless of its words: grammar, and the roles of people.

Function words and a list of opposites decide, without a parser, as in `phrases`. A
mistake of the original does not count.
"""

import itertools
import re
from collections.abc import Sequence

from jaxaug.augment.judge import phrases
from jaxaug.augment.judge.phrases import PERSON, PLACE, TIME, Phrase

_A = frozenset({"a", "an"})
_PAST = frozenset({"was", "were", "been", "did"})
_SUBJECTS = frozenset({"i", "you", "he", "she", "it", "we", "they", "there", "that"})
_OBJECTS = frozenset({"you", "me", "us", "him", "her", "them", "it"})
_CLAUSES = frozenset({"where", "which", "when", "who", "whom", "what"})
_POINTS = {"to", "from", "into", "in", "on", "at"}
_SILENT_H = ("hour", "honest", "honor", "honour", "heir")
_SOUNDS_AS_CONSONANT = re.compile(r"uni(?![mn])|us[aeu]|ut[ei]|eu|once|one")
_ADDRESSED = frozenset({"my", "our", "your", "you", "user", "users"})
_OTHERS = frozenset(
    {"user", "users", "customer", "customers", "people", "somebody", "someone", "you"}
)
# A description means one word of each pair.
_OPPOSITES = (
    ("in", "out"), ("from", "to"), ("up", "off"), ("before", "after"), ("start", "end"),
    ("begin", "end"), ("first", "last"), ("public", "private"), ("large", "small"),
    ("big", "small"), ("minimum", "maximum"), ("give", "get"), ("give", "receive"),
    ("send", "receive"), ("arrive", "depart"), ("arrive", "leave"),
    ("arrival", "departure"),
    ("origin", "destination"), ("buy", "sell"), ("open", "closed"),
    ("indoor", "outdoor"),
    ("adult", "child"), ("cheap", "expensive"), ("outbound", "return"),
    ("with", "without"),
    ("pay", "earn"), ("lend", "borrow"), ("add", "remove"), ("more", "less"),
)  # fmt: skip


def count(first: Phrase, second: Phrase) -> int:
    """Returns the number of mistakes of `second` that `first` does not have."""
    return sum(
        max(0, found(second) - found(first))
        for found in (_articles, _past, _clauses_after_to, _bare_questions)
    )


def other_roles(first: Phrase, second: Phrase) -> int:
    """Returns how often somebody or something has another role than in `first`.

    Examples are "when you drop off a date" for "drop off date", and "who pays you" for
    "person to pay". Others are "check out date" for "check in date", and "lease your
    car" for "rent a car".
    """
    return (
        _asks_and_names(first, second)
        + _is_subject(first, second)
        + _opposite(first, second)
        + _owned(first, second)
    )


def _articles(phrase: Phrase) -> int:
    """Returns the number of wrong articles: `a event`, `an car`."""
    return sum(
        before in _A and (before == "an") is not _starts_with_vowel(word)
        for before, word in itertools.pairwise(phrase.words)
    )


def _starts_with_vowel(word: str) -> bool:
    if word.startswith(_SILENT_H):
        return True
    return word[:1] in set("aeiou") and not _SOUNDS_AS_CONSONANT.match(word)


def _past(phrase: Phrase) -> int:
    """Returns the number of past verbs; descriptions refer to the future.

    An example is "when you visited".
    """
    words = phrase.words
    return sum(word in _PAST for word in words) + sum(
        before in _SUBJECTS and word.endswith("ed") and len(word) > len("need")
        for before, word in itertools.pairwise(words)
    )


def _clauses_after_to(phrase: Phrase) -> int:
    """Returns the number of doubled links: `location to where you go`."""
    return sum(
        before in _POINTS and word in _CLAUSES
        for before, word in itertools.pairwise(phrase.words)
    )


def _bare_questions(phrase: Phrase) -> int:
    """Returns 1 for `what day of the visit`, which asks for a part of it."""
    first, _, third = (*phrase.words, "", "", "")[:3]
    return int(first in ("what", "which") and phrase.asks == TIME and third == "of")


def _asks_and_names(first: Phrase, second: Phrase) -> int:
    """Returns 1 for `when you drop off a date`, which names the asked thing again."""
    if second.asks not in (TIME, PLACE, PERSON) or not first.heads:
        return 0
    if second.words[0] in ("what", "which"):
        return 0
    known = phrases.bases(first.heads[0])
    return int(any(phrases.bases(word) & known for word in second.words[1:]))


def _is_subject(first: Phrase, second: Phrase) -> int:
    """Returns 1 for `who pays you` or `someone to meet you` for "person to meet"."""
    if first.asks or "to" not in first.words[:3] or not first.heads:
        return 0
    if not phrases.named(first.heads[0], "person"):
        return 0
    words = second.words
    acts = any(
        before == "who" and word not in _SUBJECTS | {"to"}
        for before, word in itertools.pairwise((*words, ""))
    )
    return int(acts or _ends_with_object(words) and not _ends_with_object(first.words))


def _ends_with_object(words: Sequence[str]) -> bool:
    return bool(words) and words[-1] in _OBJECTS


def _opposite(first: Phrase, second: Phrase) -> int:
    """Returns 1 if a word of the original is replaced by its opposite."""
    own, other = _bases(first.words), _bases(second.words)
    return int(
        any(
            a in own and b in other and b not in own and a not in other
            for pair in _OPPOSITES
            for a, b in (pair, pair[::-1])
        )
    )


def _bases(words: Sequence[str]) -> set[str]:
    return {base for word in words for base in phrases.bases(word)}


def _owned(first: Phrase, second: Phrase) -> int:
    """Returns 1 if an indefinite thing has become somebody's own."""
    any_one = _A & set(first.words)
    own = phrases.OWNERS & set(second.words) - set(first.words)
    return int(bool(any_one and own))


def mixes_people(original: str, candidate: str) -> bool:
    """Returns whether another person is added: `help the user track my laundry`."""
    own = set(phrases.words(original))
    return bool(own & _ADDRESSED and (set(phrases.words(candidate)) - own) & _OTHERS)
