"""Finds clumsy rewordings by the table `fluency.txt`."""

import functools
import re

from etils import epath

from jaxaug.augment.grammar import vocabulary
from jaxaug.augment.language.inflection import THIRD
from jaxaug.core.errors import UserError

_FILE = epath.Path(__file__).parent / "fluency.txt"
# "What accommodation there are."
_DISAGREES = re.compile(
    rf"\b(?:{'|'.join(sorted(vocabulary.UNCOUNTABLE))})(?: there)? are\b"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
# Words shorter than this may occur twice: "in".
_SHORT = 4


@functools.cache
def _table() -> tuple[
    dict[str, int],
    tuple[re.Pattern[str], ...],
    tuple[tuple[re.Pattern[str], re.Pattern[str]], ...],
]:
    """Returns (word -> number of its family, shapes, words to keep).

    Words to keep are (words of a source, words of which a rewording then has one).

    Raises:
        UserError: a line of the file is malformed.
    """
    families: dict[str, int] = {}
    shapes, kept = [], []
    for number, line in enumerate(_FILE.read_text(encoding="utf-8").splitlines(), 1):
        kind, _, value = line.partition(" # ")[0].partition(" ")
        if kind == "family":
            families.update(dict.fromkeys(value.split(), number))
        elif kind == "shape":
            shapes.append(re.compile(value))
        elif kind == "keep":
            asked, _, also = value.partition(" -> ")
            kept.append((_any_of(asked), _any_of(f"{asked} {also}")))
        elif line and not line.startswith("#"):
            raise UserError(
                f"{_FILE}, line {number}: {line!r} is no family, shape, or keep. Write "
                "`family` or `keep` and words, or `shape` and a regular expression."
            )
    return families, tuple(shapes), tuple(kept)


def _any_of(words: str) -> re.Pattern[str]:
    either = "|".join(word.replace("_", " ") for word in words.split())
    return re.compile(rf"\b(?:{either})\b")


@functools.lru_cache(4096)
def faults(text: str) -> frozenset[str]:
    """Returns the families and words that a text has twice, and the shapes it has."""
    families, shapes, _ = _table()
    seen: set[str] = set()
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if len(word) < _SHORT and word not in families:
            continue
        key = str(families.get(word, vocabulary.singular(word)))
        if key in seen and word not in vocabulary.OTHERS:
            found.add(key)
        seen.add(key)
    found |= {
        shape.pattern
        for shape in (*shapes, _DISAGREES, _unparallel())
        if shape.search(text.lower())
    }
    return frozenset(found)


@functools.cache
def _unparallel() -> re.Pattern[str]:
    """ "Assist in booking a room and pay for it": a gerund, then a base form."""
    bases = {verb.partition(" ")[0] for verb in vocabulary.verbs()}
    thirds = {vocabulary.inflected(base, THIRD) for base in bases}
    only = "|".join(sorted(thirds | bases - set(vocabulary.nouns())))
    return re.compile(
        r"(?:^|\b(?:in|for|of|by|with|at) )(?:\w+ly )?\w+ing\b[^,;]* "
        rf"(?:and|or) (?:{only})\b"
        r"(?= (?:the|a|an|your|my|their|them|it|one|up|for|out)\b)"
    )


def is_clumsy(text: str, source: str) -> bool:
    """Returns whether a rewording has a fault that its source does not have, or lacks a
    word of the source that changes its meaning."""
    lower, before = text.lower(), source.lower()
    kept = _table()[2]
    loses = any(one.search(before) and not any_.search(lower) for one, any_ in kept)
    return loses or not faults(text) <= faults(source)
