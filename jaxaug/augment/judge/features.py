"""Features of the words of a text and its rewording, for the judge.

Frames around a text do not count (see `frames`).
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import rapidfuzz
from jaxtyping import Float

from jaxaug.augment.judge import frames, mistakes, phrases
from jaxaug.augment.judge.phrases import Phrase

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
            frames.inside(self.kind, self.original),
            frames.inside(self.kind, self.candidate),
        )


def is_trivial(pair: Pair) -> bool:
    """Returns whether the content words stay the same, in the same order.

    Examples are "name of a movie", "pickup date", and "pick up the date", with other
    function words, plurals, or spaces. Such a text is not a new wording, or it is
    wrong. "Whether it is furnished" for "is it furnished" is a new wording, and so is a
    frame.
    """
    if frames.is_framed(pair.kind, pair.candidate):
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
        people = mistakes.mixes_people(pair.original, pair.candidate)
        heads = _heads(first, second) + mistakes.other_roles(first, second)
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
    return float(repeated + ends_open + mistakes.count(first, second))


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
