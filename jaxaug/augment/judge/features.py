"""Features of a pair of texts for a judge; a greater value is worse.

The word features need only the rules of `phrases`. A model of sentences (MiniLM)
improves the nearness of words and texts. A language model (`round_trip`) adds its own
features. Frames around a text do not count (see `frames`).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import rapidfuzz
from jaxtyping import Float

from jaxaug.augment.judge import frames, mistakes, phrases, small_models
from jaxaug.augment.judge.phrases import Phrase

SLOT, ORDER = "slot", "order"
WORDS = (
    "heads", "replaced", "missing", "extra", "slips", "moved", "bare", "people",
)  # fmt: skip
SENTENCES = ("unlike",)
TRIPS = ("there", "back", "fluency")
FORM = ("long", "lost", "gained", "strange")

# Maximum nearness of words that are not synonyms, and nearness of words with a synonym
# in common.
_MOST = 0.6

Measure = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, " n"]]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A text and a candidate.

    Attributes:
        kind: "slot", or anything else for orders, such as "intent" and "service".
        original: the text.
        candidate: a text that should have the same meaning.
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


def words(
    pairs: Sequence[Pair], measure: Measure | None = None
) -> Float[np.ndarray, "pairs features"]:
    """Returns the columns of `WORDS`.

    - heads: whether the candidate names or does another part of the text ("car of the
      type"), or nothing; for an order, its object counts too: 0 to 2;
    - replaced: the greatest distance between a word and its replacement: 0 to 1;
    - missing, extra: the greatest distance of a word without a counterpart from the
      other text: 0 to 1;
    - slips: repeated words, and an incomplete end;
    - moved: number of phrases attached to another word ("bike sort to repair" for
      "kind of bike to repair");
    - bare: number of nouns without their article after a preposition;
    - people: whether somebody other than "you" or "my" does or owns something.

    Args:
        pairs: texts.
        measure: similarity of two words that are not synonyms, 1 for equal words; None
            compares their letters.
    """
    near = _Nearness([pair.phrases for pair in pairs], measure or _letters)
    rows = [[*_of_words(*pair.phrases, near), *_of_order(pair)] for pair in pairs]
    return np.array(rows, np.float64).reshape(-1, len(WORDS))


def form(pairs: Sequence[Pair]) -> Float[np.ndarray, "pairs features"]:
    """Returns the columns of `FORM`, without frames.

    - long: natural logarithm of the number of words of the original;
    - lost, gained: number of content words that the other text does not have in any
      inflection;
    - strange: number of distinct words of the candidate that the original does not
      have.
    """
    rows = []
    for pair in pairs:
        first, second = pair.phrases
        rows.append(
            [
                np.log(max(1, len(first.words))),
                _without_counterpart(first, second),
                _without_counterpart(second, first),
                len({*second.words} - {*first.words}),
            ]
        )
    return np.array(rows, np.float64).reshape(-1, len(FORM))


def _without_counterpart(first: Phrase, second: Phrase) -> int:
    known = frozenset(base for word in second.content for base in phrases.bases(word))
    return sum(not phrases.bases(word) & known for word in first.content)


def sentences(
    pairs: Sequence[Pair], measure: Measure
) -> Float[np.ndarray, "pairs features"]:
    """Returns the column of `SENTENCES`: 1 - similarity of the texts without frames."""
    texts = [[small_models.plain(text) for text in pair.inside] for pair in pairs]
    near = measure([one for one, _ in texts], [other for _, other in texts])
    return 1.0 - np.asarray(near, np.float64).reshape(-1, 1)


def _of_order(pair: Pair) -> list[float]:
    """Returns the columns moved, bare, and people."""
    first, second = pair.phrases
    return [
        float(mistakes.moved(first, second)),
        float(mistakes.bare(first, second)),
        float(mistakes.mixes_people(pair.original, pair.candidate)),
    ]


def _letters(first: Sequence[str], second: Sequence[str]) -> Float[np.ndarray, " n"]:
    alike = rapidfuzz.distance.Levenshtein.normalized_similarity
    # Equal letters are weak evidence, so they count half.
    return np.array([alike(a, b) / 2 for a, b in zip(first, second, strict=True)])


class _Nearness:
    """Nearness of two words, 0 to 1; measured together, which suits models."""

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
        # Dogs are near to pets: only synonyms are completely the same.
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
    """Returns whether a word is a special case of another: `bedrooms` of `rooms`."""
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
    """Returns whether a head is another word of the text or is missing."""
    if not own or not other:
        return bool(own)
    if any(phrases.named(word, other[0]) for word in own):
        return False
    return any(phrases.bases(word) & phrases.bases(other[0]) for word in first.content)


def _replaced(
    first: Phrase, second: Phrase, near: _Nearness
) -> tuple[float, float, float]:
    """Returns the columns replaced, missing, and extra."""
    own, other = first.content, second.content
    if phrases.asked(first, second):
        # "Where" represents the place, and "costs" the price.
        own = [word for word in own if word not in first.heads]
        other = [word for word in other if word not in second.heads]
        other = [word for word in other if not phrases.says_what(word, second)]
    # The nearest words come first; equal ones keep their order.
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
    pairs: Sequence[Pair], trip: Callable[..., Sequence[Any]]
) -> Float[np.ndarray, "pairs features"]:
    """Returns the columns of `TRIPS`, in nats, by a `round_trip.RoundTrip`.

    - there, back: surprise at the whole candidate, given the text, and the reverse;
    - fluency: additional surprise per token of the candidate compared with the text,
      without an input.
    """
    originals = [pair.original for pair in pairs]
    candidates = [pair.candidate for pair in pairs]
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
