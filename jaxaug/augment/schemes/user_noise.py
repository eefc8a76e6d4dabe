"""Noise of typing and speech: typos and disfluencies.

Both leave protected texts and spans unchanged. They record their edits, so that
annotated spans can be moved along. All words and the keyboard are in this module.
"""

from collections.abc import Callable, Sequence

import numpy as np

from jaxaug.augment.language import edits
from jaxaug.augment.language.edits import Edit, Span
from jaxaug.augment.schemes.noise import Rate
from jaxaug.core.typed import bounded
from jaxaug.paraphrase.literals import framed

Noise = Callable[[str, np.random.Generator, float, Sequence[Span]], list[Edit]]
"""(text, rng, rate, spans that stay) -> edits, sorted and disjoint."""

FILLERS = ("uh", "um", "er", "well", "you know", "i mean", "like", "hmm")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHORTEST = 3  # Least letters of a word with a typo: "to" and "too" are both words.


def _neighbours() -> dict[str, str]:
    """Returns letter -> adjacent keys; rows are shifted by half a key."""
    found: dict[str, set[str]] = {key: set() for row in _ROWS for key in row}
    for row, below in zip(_ROWS, (*_ROWS[1:], ""), strict=True):
        for place, key in enumerate(row):
            for other in (
                row[place + 1 : place + 2] + below[max(0, place - 1) : place + 1]
            ):
                found[key].add(other)
                found[other].add(key)
    return {key: "".join(sorted(others)) for key, others in found.items()}


NEIGHBOURS = _neighbours()


def typos(
    text: str,
    rng: np.random.Generator,
    *,
    rate: float = 0.1,
    protected: Sequence[str] = (),
) -> str:
    """Puts a typo into each word with a probability.

    A letter is replaced by an adjacent key, is left out, is doubled, or swaps with the
    next letter. First letters stay, as in most typos. Words of one or two letters,
    literals (see `jaxaug.paraphrase.literals`), and protected texts stay too.

    Args:
        text: a sentence.
        rng: source of the draws.
        rate: probability of each word.
        protected: parts of the text that stay.

    Raises:
        UserError: the rate is not between 0 and 1.
    """
    return _noisy(typo_edits, text, rng, rate, protected)


def disfluency(
    text: str,
    rng: np.random.Generator,
    *,
    rate: float = 0.1,
    protected: Sequence[str] = (),
) -> str:
    """Puts a hesitation before each word with a probability, as in speech.

    A hesitation is a filler such as "uh," or "i mean,", a repeated word, or a restart.
    A restart is two words, a comma, and both again. No word is left out. No protected
    text is repeated. See `typos` for the arguments.
    """
    return _noisy(disfluency_edits, text, rng, rate, protected)


def _noisy(
    noise: Noise,
    text: str,
    rng: np.random.Generator,
    rate: float,
    protected: Sequence[str],
) -> str:
    kept = edits.occurrences(text, protected)
    return edits.applied(text, noise(text, rng, rate, kept))


@bounded
def typo_edits(
    text: str, rng: np.random.Generator, rate: Rate, kept: Sequence[Span]
) -> list[Edit]:
    """Returns the edits of `typos`.

    Args:
        text: a sentence.
        rng: source of the draws.
        rate: probability of each word.
        kept: spans that stay, in addition to the literals; a word that touches one
            stays as a whole.

    Raises:
        UserError: the rate is not between 0 and 1.
    """
    closed = edits.union([*kept, *framed(text).fixed()])
    found = []
    for start, end in edits.words(text):
        # Draw for every word, so that an additional value changes no other word.
        chance, kind, where, which = rng.random(4)
        if chance >= rate or edits.touches((start, end), closed):
            continue
        # A word such as "3rd" or "a_b" has a span of its letters only.
        joined = text[start - 1 : start] + text[end : end + 1]
        if end - start < _SHORTEST or any(c.isalnum() or c == "_" for c in joined):
            continue
        place = start + 1 + int(where * (end - start - 1))
        found.append(_slip(text, place, end, int(kind * 4), which))
    return found


def _slip(text: str, place: int, end: int, kind: int, which: float) -> Edit:
    """Returns a typo in the letter at `place` of a word that ends at `end`."""
    letter, following = text[place], text[place + 1 : min(place + 2, end)]
    keys = NEIGHBOURS.get(letter.lower(), "")
    if kind == 0 and keys:
        key = keys[int(which * len(keys))]
        return Edit(place, place + 1, key.upper() if letter.isupper() else key)
    if kind == 1:
        return Edit(place, place + 1, "")
    if kind == 2 and following and following != letter:
        return Edit(place, place + 2, following + letter)
    return Edit(place, place + 1, letter * 2)


@bounded
def disfluency_edits(
    text: str, rng: np.random.Generator, rate: Rate, kept: Sequence[Span]
) -> list[Edit]:
    """Returns the edits of `disfluency`, all of them insertions.

    The spans `kept` stay whole and are not repeated. See `typo_edits` for the others.
    """
    closed = edits.union([*kept, *framed(text).fixed()])
    spans = edits.words(text)
    found = []
    for number, (start, end) in enumerate(spans):
        chance, kind, which = rng.random(3)
        # No insertion inside a value, "3rd", or "well-known".
        if chance >= rate or edits.touches((start, start), closed):
            continue
        if start and not text[start - 1].isspace():
            continue
        again = spans[number + 1][1] if number + 1 < len(spans) else end
        pair = text[start:again]
        free = not edits.touches((start, end), closed)
        if kind < 0.25 and free:
            new = f"{text[start:end]} "
        elif (
            kind < 0.5 and pair.count(" ") == 1 and _is_free(text, start, again, closed)
        ):
            new = f"{pair}, "
        else:
            filler = FILLERS[int(which * len(FILLERS))]
            # The marks between this word and the one before it.
            marks = text[spans[number - 1][1] if number else 0 : start].rstrip()
            begins = marks[-1] in ".!?" if marks else number == 0
            opens = text[start].isupper() and begins
            new = f"{filler.capitalize() if opens else filler}, "
        found.append(Edit(start, start, new))
    return found


def _is_free(text: str, start: int, end: int, closed: Sequence[Span]) -> bool:
    """Returns whether two words may be repeated: both are whole and not kept."""
    letters = all(c.isalpha() or c in " '\u2019" for c in text[start:end])
    whole = not text[end : end + 1].isalnum()
    return letters and whole and not edits.touches((start, end), closed)


NOISES: dict[str, Noise] = {"typos": typo_edits, "disfluency": disfluency_edits}
"""The methods that record where they change a text, by name."""
