"""Words for generated services: made-up words, and known words with other meanings."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from jaxaug_papers.minisgd.draw import Draw

_ONSETS = (
    "b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w",
    "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "sh", "st", "tr",
)  # fmt: skip
_VOWELS = "aeiou"
_CODAS = ("", "", "", "n", "r", "l", "s", "t", "m", "ck")
_SYLLABLES = (1, 2, 2, 2, 3)
_MADE_UP = 0.3


def made_up(draw: Draw, length: int = 0) -> str:
    """Returns a word of one to three syllables, or of `length` letters if not 0."""
    word = ""
    for _ in range(length or draw.pick(_SYLLABLES)):
        word += draw.pick(_ONSETS) + draw.pick(_VOWELS) + draw.pick(_CODAS)
    return word[:length] if length else word


@dataclass(frozen=True, slots=True)
class Lexis:
    """The words of generated data: `known` get new meanings, `banned` do not occur."""

    known: tuple[str, ...]
    banned: frozenset[str]

    def word(self, draw: Draw, made_up_share: float = _MADE_UP) -> str:
        """Returns a word that is not banned."""
        while True:
            if draw.chance(made_up_share) or not self.known:
                found = made_up(draw)
            else:
                found = draw.pick(self.known)
            if found not in self.banned:
                return found

    def allowed(self, text: str) -> str:
        """Returns the text with replaced banned words; its length does not change."""
        return re.sub("[A-Za-z]+", lambda match: self._instead(match[0]), text)

    def _instead(self, word: str) -> str:
        attempt = 0
        found = word
        while found.lower() in self.banned:
            found = made_up(Draw(f"instead/{word.lower()}/{attempt}"), len(word))
            attempt += 1
        return found


class Fresh:
    """A generator of distinct words."""

    def __init__(self, lexis: Lexis, draw: Draw, taken: Collection[str] = ()):
        self.draw = draw
        self.lexis = lexis
        self._taken = set(taken)

    def __call__(self) -> str:
        while True:
            word = self.lexis.word(self.draw)
            if word not in self._taken:
                self._taken.add(word)
                return word
