"""A sentence as words that methods may move, drop, and replace, and its outer form.

Edits have known places, so that the spans of a text can be moved along.
"""

import bisect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jaxaug.paraphrase import literals
from jaxaug.paraphrase.literals import Span

# Letters, also with an apostrophe inside, as in "don't".
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


class Edit(NamedTuple):
    """A replacement of `text[start:end]`; start == end inserts."""

    start: int
    end: int
    new: str


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Returns the text after all edits, which are sorted and do not overlap."""
    parts, done = [], 0
    for edit in edits:
        parts += [text[done : edit.start], edit.new]
        done = edit.end
    return "".join([*parts, text[done:]])


def moved(span: Span, edits: Iterable[Edit]) -> Span:
    """Returns the place of a span after all edits; no edit may touch the span.

    An insertion at the start of a span precedes it. An insertion at its end follows it.
    """
    shifts = [0, 0]
    for edit in edits:
        grown = len(edit.new) - (edit.end - edit.start)
        shifts[0] += grown if edit.end <= span[0] else 0
        shifts[1] += grown if edit.end <= span[1] and edit.start < span[1] else 0
    return span[0] + shifts[0], span[1] + shifts[1]


def word_spans(text: str) -> list[Span]:
    """Returns the words of a text: runs of letters, without digits and marks."""
    return [match.span() for match in _WORD.finditer(text)]


def occurrences(text: str, values: Iterable[str]) -> list[Span]:
    """Returns spans of values as whole words, ignoring case; they may overlap."""
    folded = text.casefold()
    return [
        match.span()
        for value in dict.fromkeys(values)
        # Most values are not in the text, and a pattern costs more than this check.
        if value.strip() and value.casefold() in folded
        for match in re.finditer(
            rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE
        )
    ]


def anywhere(text: str, parts: Iterable[str]) -> list[Span]:
    """Returns spans of parts, also inside of words, ignoring case; they may overlap."""
    return [
        match.span()
        for part in dict.fromkeys(parts)
        if part.strip()
        for match in re.finditer(re.escape(part), text, re.IGNORECASE)
    ]


def union(spans: Iterable[Span]) -> list[Span]:
    """Returns the same characters as sorted spans that do not overlap."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def touches(span: Span, kept: Sequence[Span]) -> bool:
    """Returns whether a span overlaps one of `kept`, or is inside it.

    `kept` comes from `union`.
    """
    place = bisect.bisect_right(kept, span[0], key=lambda one: one[1])
    return place < len(kept) and kept[place][0] < span[1]


_VOWELS = "aeiou"


class Word(NamedTuple):
    """A word with the marks around it.

    Attributes:
        before: marks, such as an opening bracket.
        core: the word itself.
        after: marks, such as a comma.
        fixed: whether it holds a literal or a protected text. A fixed word may move,
            but it is neither dropped nor replaced.
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
        text: a text; its pieces of prose are edited separately, see
            `jaxaug.paraphrase.literals`.
        edit: words -> words; not called for a text without words. White space moves
            with the word after it.
        protected: parts of the text that stay unchanged.
    """
    found = literals.framed(text)
    return found.filled(
        {
            number: _edited(piece.source, edit, protected, piece.literals)
            for number, piece in enumerate(found.pieces)
        }
    )


def _edited(
    text: str,
    edit: Callable[[list[Word]], Sequence[Word]],
    protected: Sequence[str],
    kept: Sequence[Span],
) -> str:
    body = text.rstrip(".!?").rstrip()
    # A mark at the end may belong to a literal.
    body = text[: max([len(body), *(end for _, end in kept)])]
    words = split(body, protected, kept)
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


def split(
    text: str, protected: Sequence[str] = (), kept: Sequence[Span] | None = None
) -> list[Word]:
    """Returns the words of a text, which is split at white space.

    A literal or a protected part is one fixed word, with its inner spaces and the
    characters next to it.

    Args:
        protected: parts to protect, compared without regard to letter case.
        kept: the literals of the text, if they are known.
    """
    own = literals.spans(text) if kept is None else kept
    closed = union([*own, *anywhere(text, protected)])
    found: list[Word] = []
    done = place = 0
    while place < len(text):
        if text[place].isspace() and not touches((place, place + 1), closed):
            place += 1
            continue
        start, fixed = place, False
        while place < len(text):
            inside = touches((place, place + 1), closed)
            if text[place].isspace() and not inside:
                break
            fixed, place = fixed or inside, place + 1
        piece, space = text[start:place], text[done:start]
        done = place
        if fixed:
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
