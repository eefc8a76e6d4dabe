"""Selects candidates that differ from the source and from each other in their words.

The selection is greedy max-min. Each step takes the candidate with the greatest least
distance to the source and to all earlier candidates, plus a share of its fidelity.
"""

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxaug.augment.grammar import vocabulary

_WORD = re.compile(r"[^\W\d_]+")
# Share of the frame in the distance; the content words have the rest.
_FRAME = 0.25
# Points of distance that a point of fidelity is worth.
_FIDELITY = 0.6
# Choices within this many points of the best one are nearly equal.
_NEAR = 0.05
_USER = frozenset(["user", "you", "your", "want", "wants", "people"])
_CLOSED = (
    vocabulary.PREPOSITIONS
    | vocabulary.QUESTIONS
    | vocabulary.AUXILIARIES
    | vocabulary.OTHERS
    | vocabulary.DETERMINERS
    | _USER
)
_ARTICLES = frozenset(["a", "an", "the"])


class Choice(NamedTuple):
    """A candidate.

    Attributes:
        text: text of the candidate.
        distance: distance from the source, 0 to 1.
        fidelity: greater is better, such as a similarity of meaning.
        preference: greater is better; decides among choices that are nearly equal.
    """

    text: str
    distance: float
    fidelity: float
    preference: float = 0.0


def taken(choices: Sequence[Choice], k: int) -> list[int]:
    """Returns the indices of up to k choices, in the order of selection.

    Args:
        choices: choices with distinct texts; of equal choices the first is taken.
        k: maximum number of choices.
    """
    least = [choice.distance for choice in choices]
    left, order = list(range(len(choices))), list[int]()
    while left and len(order) < k:
        score = {at: least[at] + _FIDELITY * choices[at].fidelity for at in left}
        near = max(score.values()) - _NEAR
        best = max(
            (at for at in left if score[at] >= near),
            key=lambda at: (choices[at].preference, score[at]),
        )
        left.remove(best)
        order.append(best)
        for at in left:
            apart = distance(choices[best].text, choices[at].text)
            least[at] = min(least[at], apart)
    return order


def distance(first: str, second: str) -> float:
    """Returns the difference of two texts in words and frame, 0 to 1.

    The frame is the closed-class words without articles, and the kind of the first
    word. Both parts are Jaccard distances.
    """
    one, other = _parts(first), _parts(second)
    words, frames = (_jaccard(a, b) for a, b in zip(one, other, strict=True))
    return (1 - _FRAME) * words + _FRAME * frames


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return 1 - len(first & second) / len(union) if union else 0.0


@functools.lru_cache(20_000)
def _parts(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns (bases of the content words, frame)."""
    words = _WORD.findall(text.lower())
    frame = {word for word in words if word in _CLOSED - _ARTICLES}
    frame.add("first " + (words[0] if words and words[0] in _CLOSED else "open"))
    return frozenset(_base(w) for w in words if w not in _CLOSED), frozenset(frame)


def _base(word: str) -> str:
    forms = vocabulary.verb_forms(word)
    return forms[-1].base if forms else vocabulary.singular(word)
