"""Takes candidates that differ from the source and from each other in their words.

Greedy max-min: each time the candidate whose least distance to the source and to all
candidates taken before is the greatest, plus a share of its fidelity.
"""

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxaug.augment.grammar import vocabulary

_WORD = re.compile(r"[^\W\d_]+")
# Share of the distance that the frame has; the words that carry meaning have the rest.
_FRAME = 0.25
# Points of distance that a point of fidelity is worth.
_FIDELITY = 0.6
# Points below the best choice, down to which choices are nearly equal.
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
      text: of the candidate.
      distance: from the source, 0 to 1.
      fidelity: greater is better, such as a similarity of meaning.
      preference: greater is better; decides among choices that are nearly equal.
    """

    text: str
    distance: float
    fidelity: float
    preference: float = 0.0


def taken(choices: Sequence[Choice], k: int) -> list[int]:
    """Returns the places of at most k choices, in the order in which they are taken.

    Args:
      choices: with distinct texts; of equals the first is taken.
      k: how many, at most.
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
    """Returns how much two texts differ in words and frame, 0 to 1.

    The frame is the closed-class words without articles, and the kind of the first word.
    Both parts are Jaccard distances.
    """
    one, other = _parts(first), _parts(second)
    words, frames = (_jaccard(a, b) for a, b in zip(one, other, strict=True))
    return (1 - _FRAME) * words + _FRAME * frames


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return 1 - len(first & second) / len(union) if union else 0.0


@functools.lru_cache(20_000)
def _parts(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """(bases of the words that carry meaning, frame)."""
    words = _WORD.findall(text.lower())
    frame = {word for word in words if word in _CLOSED - _ARTICLES}
    frame.add("first " + (words[0] if words and words[0] in _CLOSED else "open"))
    return frozenset(_base(w) for w in words if w not in _CLOSED), frozenset(frame)


def _base(word: str) -> str:
    forms = vocabulary.verb_forms(word)
    return forms[-1].base if forms else vocabulary.singular(word)
