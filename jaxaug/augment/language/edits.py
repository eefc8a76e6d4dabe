"""Edits of a text at known places, so that its spans can be moved along."""

import bisect
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


def words(text: str) -> list[Span]:
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
