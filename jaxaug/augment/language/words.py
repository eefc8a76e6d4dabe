"""A sentence as words that methods may move, drop, and replace, and its outer form."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxaug.augment import descriptions

_VOWELS = "aeiou"


class Word(NamedTuple):
    """A word with the marks around it.

    Attributes:
        before: marks, such as an opening bracket.
        core: the word itself.
        after: marks, such as a comma.
        fixed: whether it holds a number, a placeholder, or a protected text. A fixed
            word may move, but it is neither dropped nor replaced.
        space: white space before the word.
    """

    before: str
    core: str
    after: str
    fixed: bool
    space: str = " "

    @property
    def text(self) -> str:
        """The word as written."""
        return self.before + self.core + self.after

    def put(self, core: str) -> "Word":
        """Returns a copy of the word with another core and the same marks."""
        return self._replace(core=core)


def edited(
    text: str,
    edit: Callable[[list[Word]], Sequence[Word]],
    protected: Sequence[str] = (),
) -> str:
    """Returns a text with its words changed by a function.

    Every byte outside the changed words stays, such as white space and the marks at the
    end. A capital at the beginning stays there, whichever word comes first. `a` and
    `an` agree with a new next word.

    Args:
        text: a sentence.
        edit: words -> words; not called for a text without words. White space moves
            with the word after it.
        protected: parts of the text that stay unchanged.
    """
    body = text.rstrip().rstrip(".!?").rstrip()
    words = split(body, protected)
    if not words:
        return text
    first = words[0]
    capital = not first.fixed and first.core.istitle() and first.core != "I"
    lowered = first.core.lower() if capital else first.core
    words[0] = first._replace(core=lowered, space="")
    old = {word.core for word in words}
    result = _articles(edit(words), old)
    if capital:
        place = next((i for i, word in enumerate(result) if word.core), 0)
        word = result[place]
        same = place == 0 and word.core == lowered
        result[place] = word.put(first.core if same else _capitalized(word))
    parts = [(word.space or " ") + word.text for word in result]
    parts[0] = first.space + result[0].text
    return "".join(parts) + text[len(body) :]


def split(text: str, protected: Sequence[str] = ()) -> list[Word]:
    """Returns the words of a text, which is split at white space.

    A protected part is one fixed word, with its inner spaces and the characters next to
    it. Numbers and placeholders (see `descriptions.LITERAL`) are protected too.

    Args:
        text: text to split.
        protected: parts to protect, compared without regard to letter case.
    """
    kept = [
        part for part in sorted({*protected}, key=len, reverse=True) if part.strip()
    ]
    # Protected parts with adjacent characters, else the text between spaces.
    inner = "|".join([*map(re.escape, kept), descriptions.LITERAL.pattern])
    kept = [part.lower() for part in kept]
    found, done = [], 0
    for match in re.finditer(rf"(?:\S*?(?:{inner}))+\S*|\S+", text, re.IGNORECASE):
        piece, space = match[0], text[done : match.start()]
        done = match.end()
        lower = piece.lower()
        if descriptions.LITERAL.search(piece) or any(part in lower for part in kept):
            found.append(Word("", piece, "", True, space))
            continue
        start, end = 0, len(piece)
        while start < end and not _is_inner(piece[start]):
            start += 1
        while end > start and not _is_inner(piece[end - 1]):
            end -= 1
        # A piece of marks alone, such as a dash, has an empty core.
        found.append(Word(piece[:start], piece[start:end], piece[end:], False, space))
    return found


def _is_inner(character: str) -> bool:
    r"""Returns whether a character belongs to a word, as in the class `\w` of `re`."""
    return character.isalnum() or character == "_"


def _capitalized(word: Word) -> str:
    """Returns the core with a capital; a fixed or mixed-case core stays unchanged."""
    if word.fixed or not word.core.islower():
        return word.core
    return word.core[0].upper() + word.core[1:]


def _articles(words: Sequence[Word], old: set[str]) -> list[Word]:
    """Corrects `a` and `an` before new words."""
    result = list(words)
    for place in range(len(result) - 1):
        core, following = result[place].core, result[place + 1].core
        if core.lower() in ("a", "an") and following and following not in old:
            article = core[0] + ("n" if following[0].lower() in _VOWELS else "")
            result[place] = result[place].put(article)
    return result
