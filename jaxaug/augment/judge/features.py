"""What a judge sees of a pair of texts: numbers, each the worse the greater.

Those of the words need nothing but the rules of `phrases`; a model of sentences (MiniLM)
tells better how near two words are, and how near the texts; a language model
(`round_trip`) adds its own. Frames around a text do not count (see `frames`).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import rapidfuzz
from jaxtyping import Float

from jaxaug.augment.judge import frames, mistakes, phrases, small_models
from jaxaug.augment.judge.phrases import Phrase
from jaxaug.augment.judge.round_trip import RoundTrip

SLOT = "slot"
WORDS = (
    "heads", "replaced", "missing", "extra", "slips", "moved", "bare", "people",
)  # fmt: skip
SENTENCES = ("unlike",)
TRIPS = ("there", "back", "fluency")

# How near words are at most that are no synonyms, and those with a synonym in common.
_MOST = 0.6

Measure = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, " n"]]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A text and a candidate.

    Attributes:
      kind: "slot", or anything else for orders, such as "intent" and "service".
      original: the text.
      candidate: what is to say the same.
    """

    kind: str
    original: str
    candidate: str

    @functools.cached_property
    def phrases(self) -> tuple[Phrase, Phrase]:
        """Both texts in parts, without their frames."""
        parts = phrases.of_slot if self.kind == SLOT else phrases.of_order
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
    """Whether the words that say something stay the same, in their order.

    "name of a movie", "pickup date", "pick up the date": other function words, plurals
    or spaces. That is no new wording, and where it says something else it is wrong.
    "Whether it is furnished" for "is it furnished" is one, and so is a frame.
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


def words(
    pairs: Sequence[Pair], measure: Measure | None = None
) -> Float[np.ndarray, "pairs features"]:
    """The columns of `WORDS`.

    - heads: whether the candidate names or does another part of the text ("car of the
      type"), or nothing; for an order, of its object too: 0 to 2;
    - replaced: of the words that have another in their place, how far the worst is
      from it: 0 to 1;
    - missing, extra: of the words without a counterpart in the other text, how far the
      worst is from all of it: 0 to 1;
    - slips: words said twice, and an end that is left open;
    - moved: how many phrases hang on another word ("bike sort to repair" for "kind of
      bike to repair");
    - bare: how many nouns have lost their article behind a preposition;
    - people: whether somebody does or owns something besides "you" or "my".

    Args:
      pairs: texts.
      measure: similarity of two words, 1 for the same, for those that are no synonyms;
        None: that of their letters.
    """
    near = _Nearness([pair.phrases for pair in pairs], measure or _letters)
    rows = [[*_of_words(*pair.phrases, near), *_of_order(pair)] for pair in pairs]
    return np.array(rows, np.float64).reshape(-1, len(WORDS))


def sentences(
    pairs: Sequence[Pair], measure: Measure
) -> Float[np.ndarray, "pairs features"]:
    """The column of `SENTENCES`: 1 - similarity of the texts without their frames."""
    texts = [[small_models.plain(text) for text in pair.inside] for pair in pairs]
    near = measure([one for one, _ in texts], [other for _, other in texts])
    return 1.0 - np.asarray(near, np.float64).reshape(-1, 1)


def _of_order(pair: Pair) -> list[float]:
    """The columns moved, bare, and people."""
    first, second = pair.phrases
    return [
        float(mistakes.moved(first, second)),
        float(mistakes.bare(first, second)),
        float(mistakes.mixes_people(pair.original, pair.candidate)),
    ]


def _letters(first: Sequence[str], second: Sequence[str]) -> Float[np.ndarray, " n"]:
    alike = rapidfuzz.distance.Levenshtein.normalized_similarity
    # Letters say little: half of what they seem to.
    return np.array([alike(a, b) / 2 for a, b in zip(first, second, strict=True)])


class _Nearness:
    """Nearness of two words, 0 to 1; measured together, as models like it."""

    def __init__(self, items: Sequence[tuple[Phrase, Phrase]], measure: Measure):
        wanted = {
            (a, b)
            for first, second in items
            for a in first.content
            for b in second.content
            if not phrases.named(a, b)
        }
        ordered = sorted(wanted)
        values = measure([a for a, _ in ordered], [b for _, b in ordered])
        # Dogs are near to pets: what is no synonym is never quite the same.
        clipped = np.clip(np.asarray(values, np.float64), 0.0, _MOST)
        self._known = dict(zip(ordered, clipped.tolist(), strict=True))

    def __call__(self, first: str, second: str) -> float:
        if (first, second) not in self._known:
            return 1.0
        if _is_part(first, second) or _is_part(second, first):
            return 0.0
        known = self._known[first, second]
        return max(known, _MOST) if phrases.related(first, second) else known


def _is_part(first: str, second: str) -> bool:
    """Whether a word is a special one of another: `bedrooms` of `rooms`."""
    return any(
        len(base) > 3 and first != base and first.endswith(base)
        for base in phrases.bases(second)
    )


def _of_words(first: Phrase, second: Phrase, near: _Nearness) -> list[float]:
    slips = max(0, second.repeated - first.repeated)
    slips += max(0, second.ends_open - first.ends_open)
    slips += mistakes.count(first, second)
    return [
        _heads(first, second) + mistakes.other_roles(first, second),
        *_replaced(first, second, near),
        float(slips),
    ]


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
    """Whether a head is another word of the text than its own, or is not there."""
    if not own or not other:
        return bool(own)
    if any(phrases.named(word, other[0]) for word in own):
        return False
    return any(phrases.bases(word) & phrases.bases(other[0]) for word in first.content)


def _replaced(
    first: Phrase, second: Phrase, near: _Nearness
) -> tuple[float, float, float]:
    """The columns replaced, missing and extra."""
    own, other = first.content, second.content
    if phrases.asked(first, second):
        # "Where" stands for the place, and "costs" for the price.
        own = [word for word in own if word not in first.heads]
        other = [word for word in other if word not in second.heads]
        other = [word for word in other if not phrases.says_what(word, second)]
    # The nearest words first; of equals those that come first.
    ranked = sorted(
        ((-near(a, b), i, j) for i, a in enumerate(own) for j, b in enumerate(other))
    )
    left, right, replaced = set(range(len(own))), set(range(len(other))), 0.0
    for value, i, j in ranked:
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            replaced = max(replaced, 1.0 + value)
    missing = (1.0 - max((near(own[i], b) for b in other), default=0.0) for i in left)
    right = {j for j in right if other[j] not in second.needless}
    extra = (1.0 - max((near(a, other[j]) for a in own), default=0.0) for j in right)
    return replaced, max(missing, default=0.0), max(extra, default=0.0)


def trips(
    pairs: Sequence[Pair], trip: RoundTrip
) -> Float[np.ndarray, "pairs features"]:
    """The columns of `TRIPS`, in nats.

    - there, back: surprise at the whole candidate, given the text, and the other way;
    - fluency: how much more surprise a token at the candidate than at the text, given
      neither.
    """
    originals, candidates = _sides(pairs)
    there, back = trip(originals, candidates), trip(candidates, originals)
    rows = [
        [
            -one.given.sum(),
            -other.given.sum(),
            other.alone.mean() - one.alone.mean(),
        ]
        for one, other in zip(there, back, strict=True)
    ]
    return np.array(rows, np.float64).reshape(-1, len(TRIPS))


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [pair.original for pair in pairs], [pair.candidate for pair in pairs]
