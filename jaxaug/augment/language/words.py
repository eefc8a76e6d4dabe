"""A sentence as words that methods may move, drop and replace, and its outer form."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxaug.augment import descriptions

_EDGES = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)
_END = re.compile(r"\s*([.!?]*)\s*$")
_VOWELS = "aeiou"


class Word(NamedTuple):
    """A word with the marks around it.

    Attributes:
      before: marks, such as an opening bracket.
      core: the word itself.
      after: marks, such as a comma.
      fixed: holds a number, a placeholder or a protected text: it may move, but it is
        neither dropped nor replaced.
    """

    before: str
    core: str
    after: str
    fixed: bool

    @property
    def text(self) -> str:
        """The word as it is written."""
        return self.before + self.core + self.after

    def put(self, core: str) -> "Word":
        """Another word between the same marks."""
        return self._replace(core=core)


def edited(
    text: str,
    edit: Callable[[list[Word]], Sequence[Word]],
    protected: Sequence[str] = (),
) -> str:
    """A text with its words changed by a function.

    What the function does not see stays: the marks at the end, and a capital at the
    beginning, wherever the first word goes. `a` and `an` follow the next word.

    Args:
      text: a sentence.
      edit: words -> words; not called for a text without words.
      protected: texts in it that stay whole.
    """
    end = _END.search(text)
    ending = end[1] if end else ""
    words = split(text[: end.start()] if end else text, protected)
    if not words:
        return text
    first = words[0]
    capital = not first.fixed and first.core.istitle() and first.core != "I"
    if capital:
        words[0] = first.put(first.core.lower())
    written = [word.text for word in _articles(edit(words), {w.core for w in words})]
    joined = " ".join(filter(None, written))
    if capital:
        joined = re.sub(r"[^\W\d_]", lambda m: m[0].upper(), joined, count=1)
    return joined + ending


def split(text: str, protected: Sequence[str] = ()) -> list[Word]:
    """The words of a text; what is protected is one word, spaces included."""
    kept = sorted({*protected, *descriptions.protected(text)}, key=len, reverse=True)
    kept = [part for part in kept if part.strip()]
    # Protected parts with what touches them, else what stands between spaces.
    inner = "|".join(map(re.escape, kept))
    pattern = rf"(?:\S*?(?:{inner}))+\S*|\S+" if inner else r"\S+"
    found = []
    for piece in re.findall(pattern, text, re.IGNORECASE):
        match = _EDGES.fullmatch(piece)
        assert match is not None
        fixed = any(part.lower() in piece.lower() for part in kept)
        # Marks alone, such as a dash, are no word to replace.
        found.append(
            Word("", piece, "", True)
            if fixed
            else Word(match[1], match[2], match[3], fixed)
        )
    return found


def _articles(words: Sequence[Word], old: set[str]) -> list[Word]:
    """`a` or `an` as the next word wants it, where that word is a new one."""
    result = list(words)
    for place in range(len(result) - 1):
        core, following = result[place].core, result[place + 1].core
        if core.lower() in ("a", "an") and following and following not in old:
            article = core[0] + ("n" if following[0].lower() in _VOWELS else "")
            result[place] = result[place].put(article)
    return result
