"""Features of the words of a text and its rewording, for the judge.

Frames around a text do not count (see `phrases.inside`). Function words and a list of
opposites find mistakes of grammar and the roles of people, without a parser. A mistake
of the original does not count.
"""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Sequence

import numpy as np
import rapidfuzz
from jaxtyping import Float

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


SLOT, ORDER, SENTENCE = "slot", "intent", "sentence"
WORDS = ("heads", "missing", "slips", "people", "long")

_NOUNS = frozenset({SLOT, "name"})
# Maximum nearness of words that are not synonyms, and nearness of words with a synonym
# in common.
_MOST = 0.6


@dataclasses.dataclass(frozen=True)
class Pair:
    """A text and a candidate.

    Attributes:
        kind: `slot`, `name`, `intent`, `service`, or `sentence`; the last three are
            read as orders.
        original: the text.
        candidate: a text that should have the same meaning.
    """

    kind: str
    original: str
    candidate: str

    @functools.cached_property
    def phrases(self) -> tuple[Phrase, Phrase]:
        """Both texts in parts, without their frames."""
        parts = phrases.of_slot if self.kind in _NOUNS else phrases.of_order
        first, second = self.inside
        return parts(first), parts(second)

    @functools.cached_property
    def inside(self) -> tuple[str, str]:
        """Both texts without their frames."""
        return (
            phrases.inside(self.kind, self.original),
            phrases.inside(self.kind, self.candidate),
        )


def is_trivial(pair: Pair) -> bool:
    """Returns whether the content words stay the same, in the same order.

    Examples are "name of a movie", "pickup date", and "pick up the date", with other
    function words, plurals, or spaces. Such a text is not a new wording, or it is
    wrong. "Whether it is furnished" for "is it furnished" is a new wording, and so is a
    frame.
    """
    if phrases.is_framed(pair.kind, pair.candidate):
        return False
    first, second = pair.phrases
    if first.asks != second.asks or first.words[:1] != second.words[:1] and first.asks:
        return False
    if _letters_of(first) == _letters_of(second):
        return True
    own, other = first.content, second.content
    return len(own) == len(other) and all(
        phrases.bases(a) & phrases.bases(b) for a, b in zip(own, other, strict=True)
    )


def _letters_of(phrase: Phrase) -> str:
    return "".join(phrase.words).replace("-", "")


def words(pairs: Sequence[Pair]) -> Float[np.ndarray, "pairs features"]:
    """Returns the columns of `WORDS`.

    - heads: whether the candidate names or does another part of the text ("car of the
      type"), or nothing; for an order, its object counts too: 0 to 2;
    - missing: the greatest distance of a word without a counterpart from the words of
      the candidate: 0 to 1;
    - slips: repeated words, an incomplete end, and mistakes of grammar;
    - people: whether somebody other than "you" or "my" does or owns something;
    - long: natural logarithm of the number of words of the original.
    """
    rows = []
    for pair in pairs:
        first, second = pair.phrases
        people = mixes_people(pair.original, pair.candidate)
        heads = _heads(first, second) + other_roles(first, second)
        found = heads, _missing(first, second), _slips(first, second), people
        rows.append([*found, math.log(max(1, len(first.words)))])
    return np.array(rows, np.float64).reshape(-1, len(WORDS))


@functools.lru_cache(1 << 16)
def _near(first: str, second: str) -> float:
    """Returns the nearness of two words, 0 to 1."""
    if phrases.named(first, second):
        return 1.0
    if _is_part(first, second) or _is_part(second, first):
        return 0.0
    if phrases.related(first, second):
        return _MOST
    # Equal letters are weak evidence, so they count half.
    measure = rapidfuzz.distance.Levenshtein.normalized_similarity
    return min(measure(first, second) / 2, _MOST)


def _is_part(first: str, second: str) -> bool:
    """Returns whether a word is a special case of another: `bedrooms` of `rooms`."""
    return any(
        len(base) > 3 and first != base and first.endswith(base)
        for base in phrases.bases(second)
    )


def _slips(first: Phrase, second: Phrase) -> float:
    repeated = max(0, second.repeated - first.repeated)
    ends_open = max(0, second.ends_open - first.ends_open)
    return float(repeated + ends_open + count(first, second))


def _heads(first: Phrase, second: Phrase) -> float:
    asked = phrases.asked(first, second)
    if asked is not None:
        return float(not asked)
    wrong = int(_is_other_part(first.heads, second.heads[:1], first))
    if first.object:
        other = (second.object,) if second.object else ()
        wrong += _is_other_part((first.object,), other, first)
    return float(wrong)


def _is_other_part(own: Sequence[str], other: Sequence[str], first: Phrase) -> bool:
    """Returns whether a head is another word of the text or is missing."""
    if not own or not other:
        return bool(own)
    if any(phrases.named(word, other[0]) for word in own):
        return False
    return any(phrases.bases(word) & phrases.bases(other[0]) for word in first.content)


def _missing(first: Phrase, second: Phrase) -> float:
    own, other = first.content, second.content
    if phrases.asked(first, second):
        # "Where" represents the place, and "costs" the price.
        own = [word for word in own if word not in first.heads]
        other = [word for word in other if word not in second.heads]
        other = [word for word in other if not phrases.says_what(word, second)]
    # The nearest words come first; equal ones keep their order.
    ranked = sorted(
        ((-_near(a, b), i, j) for i, a in enumerate(own) for j, b in enumerate(other))
    )
    left, right = set(range(len(own))), set(range(len(other)))
    for _, i, j in ranked:
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
    missing = (1.0 - max((_near(own[i], b) for b in other), default=0.0) for i in left)
    return max(missing, default=0.0)
