"""English word forms: the base of a word, and another base in the same form.

The forms are our own: lemminflect 0.2.3 makes "availabler" and "beautifulest" of 189 of
the lexicon's 307 adjectives.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from etils import epath

BASE, PLURAL = "base", "plural"
THIRD, PAST, PARTICIPLE, GERUND = "third", "past", "participle", "gerund"
COMPARATIVE, SUPERLATIVE = "comparative", "superlative"
_FORMS = {
    "n": (PLURAL,),
    "v": (THIRD, PAST, PARTICIPLE, GERUND),
    "a": (COMPARATIVE, SUPERLATIVE),
}
_VOWELS = "aeiou"
_FILE = epath.Path(__file__).parent / "irregular.txt"


class Form(NamedTuple):
    """A reading of a word: `base` in the form `form`.

    Attributes:
        base: base form, as in a lexicon.
        pos: n, v, a, r, or o; empty for a base of any part of speech.
        form: one of the constants of this module.
    """

    base: str
    pos: str
    form: str


def readings(word: str) -> Iterator[Form]:
    """Yields the possible readings of a lower-case word; many bases are not words."""
    yield Form(word, "", BASE)
    irregular = _readings().get(word, ())
    yield from irregular
    regular = {
        "s": (("n", PLURAL), ("v", THIRD)),
        "ed": (("v", PAST), ("v", PARTICIPLE)),
        "ing": (("v", GERUND),),
        "er": (("a", COMPARATIVE),),
        "est": (("a", SUPERLATIVE),),
    }
    for ending, forms in regular.items():
        if word.endswith(ending) and len(word) > len(ending) + 1:
            for base in _bases(word, ending):
                for pos, form in forms:
                    # `taked` is not a form of take; "cancelled" is British.
                    written = inflect(base, pos, form)
                    british = base.endswith(("al", "el")) and base + "l" + ending
                    if word in (written, british):
                        yield Form(base, pos, form)


def inflect(base: str, pos: str, form: str) -> str:
    """Returns a base, of one word or several, in a form.

    A verb of several words changes its first word (`looks up`). Other phrases change
    their last word.
    """
    if form == BASE or pos not in _FORMS:
        return base
    first, *rest = base.split(" ")
    if rest and pos != "v":
        *rest, last = base.split(" ")
        return " ".join([*rest, inflect(last, pos, form)])
    written = _irregular().get((first, pos), {}).get(form)
    return " ".join([written or _regular(first, form), *rest])


def _regular(base: str, form: str) -> str:
    if form in (PLURAL, THIRD):
        if base.endswith(("s", "x", "z", "ch", "sh")):
            return base + "es"
        if form == THIRD and base.endswith("o"):
            return base + "es"
        return base[:-1] + "ies" if _ends_in_y(base) else base + "s"
    ending = {GERUND: "ing", COMPARATIVE: "er", SUPERLATIVE: "est"}.get(form, "ed")
    if form in (COMPARATIVE, SUPERLATIVE) and _syllables(base) > 1 + _ends_in_y(base):
        return {"er": "more ", "est": "most "}[ending] + base
    if ending != "ing" and _ends_in_y(base):
        return base[:-1] + "i" + ending
    if base.endswith("ie") and ending == "ing":
        return base[:-2] + "ying"
    if base.endswith("e") and not (ending == "ing" and base.endswith(("ee", "ye"))):
        return base[:-1] + ending
    return (base + base[-1] if _doubles(base) else base) + ending


def _bases(word: str, ending: str) -> Iterator[str]:
    """Yields the bases that may have taken an ending."""
    stem = word.removesuffix(ending)
    yield stem
    if ending != "s":
        yield stem + "e"
        if stem[-1] == stem[-2:-1]:
            yield stem[:-1]
    if stem.endswith("e") and ending == "s":
        yield stem[:-1]
    if stem.endswith("i"):
        yield stem[:-1] + "y"
    if stem.endswith("ie") and ending == "s":
        yield stem[:-2] + "y"
    if stem.endswith("y") and ending == "ing":
        yield stem[:-1] + "ie"


def _ends_in_y(base: str) -> bool:
    return len(base) > 1 and base.endswith("y") and base[-2] not in _VOWELS


def _syllables(base: str) -> int:
    """Returns the number of runs of vowels; a silent e at the end does not count."""
    letters = base.removesuffix("e") if not base.endswith("le") else base
    pairs = zip(" " + letters, letters, strict=False)
    return sum(b in _VOWELS + "y" and a not in _VOWELS + "y" for a, b in pairs)


# Words of two syllables that double their last letter: with a stressed last syllable,
# or irregular.
_DOUBLING = re.compile(
    "(ad|com|e|o|per|sub)mit|(com|ex|pro)pel|(con|de|in|pre|re|trans)fer|(re|up)set|"
    "un(plug|wrap|zip)|begin|control|deter|equip|forget|format|kidnap|occur|patrol|"
    "program|regret"
)


def _doubles(base: str) -> bool:
    """Returns whether the last letter is doubled before a vowel: stop, stopping."""
    if len(base) < 3 or base[-1] in _VOWELS + "wxy" or base[-2] not in _VOWELS:
        return False
    is_short = base[-3] not in _VOWELS or base[-3:-1] == "ui"
    return is_short and (_syllables(base) == 1 or bool(_DOUBLING.fullmatch(base)))


@functools.cache
def _irregular() -> dict[tuple[str, str], dict[str, str]]:
    """Returns (base, part of speech) -> form -> spelling."""
    return {key: {f: w[0] for f, w in forms.items()} for key, forms in _table().items()}


@functools.cache
def _readings() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for (base, pos), forms in _table().items():
        for form, words in forms.items():
            for word in words:
                found.setdefault(word, []).append(Form(base, pos, form))
    return found


@functools.cache
def _table() -> dict[tuple[str, str], dict[str, list[str]]]:
    table = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            pos, base, *words = line.split()
            names = (PAST, PARTICIPLE) if pos == "v" else _FORMS[pos]
            words += words[-1:] * (len(names) - len(words))
            forms = zip(names, words, strict=True)
            table[base, pos] = {name: word.split("/") for name, word in forms}
    return table
