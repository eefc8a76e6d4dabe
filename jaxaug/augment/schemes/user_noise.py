"""What people do to a sentence when they type it or say it: typos and disfluencies.

Both leave protected texts and spans alone and know where they changed a text, so that
annotated spans can be moved along. All words and the keyboard are written down here.
"""

from collections.abc import Callable, Sequence

import numpy as np

from jaxaug.augment import descriptions
from jaxaug.augment.language import edits
from jaxaug.augment.language.edits import Edit, Span
from jaxaug.augment.schemes.noise import Rate
from jaxaug.core.typed import bounded

Noise = Callable[[str, np.random.Generator, float, Sequence[Span]], list[Edit]]
"""(text, rng, rate, spans that stay) -> edits, sorted and apart."""

FILLERS = ("uh", "um", "er", "well", "you know", "i mean", "like", "hmm")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHORTEST = 3  # Letters of a word that gets a typo: "to" and "too" are both words.


def _neighbours() -> dict[str, str]:
    """Letter -> the keys that touch its own; a row is half a key right of that above."""
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
    """One slip of the finger in each word with a probability.

    A letter becomes one of a key beside its own, is left out, comes twice, or changes
    places with the next. First letters stay, as they do in most typos, and so do words
    of one or two letters, words with a digit, placeholders and protected texts.

    Args:
      text: a sentence.
      rng: drawn from.
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
    """A hesitation before each word with a probability, as in speech.

    A filler such as "uh," or "i mean,", the word twice, or a restart: two words, a
    comma, and both again. Nothing is left out. No protected text is said twice.

    Args:
      text: a sentence.
      rng: drawn from.
      rate: probability of each word.
      protected: parts of the text that stay.

    Raises:
      UserError: the rate is not between 0 and 1.
    """
    return _noisy(disfluency_edits, text, rng, rate, protected)


def _noisy(
    noise: Noise,
    text: str,
    rng: np.random.Generator,
    rate: float,
    protected: Sequence[str],
) -> str:
    literals = (match.span() for match in descriptions.LITERAL.finditer(text))
    kept = [*edits.occurrences(text, protected), *literals]
    return edits.applied(text, noise(text, rng, rate, kept))


@bounded
def typo_edits(
    text: str, rng: np.random.Generator, rate: Rate, kept: Sequence[Span]
) -> list[Edit]:
    """The edits of `typos`.

    Args:
      text: a sentence.
      rng: drawn from.
      rate: probability of each word.
      kept: what stays; a word that touches it stays as a whole.

    Raises:
      UserError: the rate is not between 0 and 1.
    """
    closed = edits.union(kept)
    found = []
    for start, end in edits.words(text):
        # Drawn for every word, so that one more value changes no other word.
        chance, kind, where, which = rng.random(4)
        if chance >= rate or edits.touches((start, end), closed):
            continue
        # Of a word such as "3rd" or "a_b" we see the letters only.
        joined = text[start - 1 : start] + text[end : end + 1]
        if end - start < _SHORTEST or any(c.isalnum() or c == "_" for c in joined):
            continue
        place = start + 1 + int(where * (end - start - 1))
        found.append(_slip(text, place, end, int(kind * 4), which))
    return found


def _slip(text: str, place: int, end: int, kind: int, which: float) -> Edit:
    """A typo in the letter at that place of a word that ends at `end`."""
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
    """The edits of `disfluency`, all of them insertions.

    Args:
      text: a sentence.
      rng: drawn from.
      rate: probability of each word.
      kept: what stays whole and is said once.

    Raises:
      UserError: the rate is not between 0 and 1.
    """
    closed = edits.union(kept)
    spans = edits.words(text)
    found = []
    for number, (start, end) in enumerate(spans):
        chance, kind, which = rng.random(3)
        # Not in the middle of a value, nor of "3rd" or "well-known".
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
    """Whether two words may be said again: both are whole, and no part of them stays."""
    letters = all(c.isalpha() or c in " '\u2019" for c in text[start:end])
    whole = not text[end : end + 1].isalnum()
    return letters and whole and not edits.touches((start, end), closed)


NOISES: dict[str, Noise] = {"typos": typo_edits, "disfluency": disfluency_edits}
"""The methods that can say where they changed a text, by name."""
