"""The methods that change one sentence at random, by name.

They are pervasive dropout, SwitchOut, easy data augmentation (Wei and Zou, 2019), its
synonym replacement alone, and noise of typing and speech: typos and disfluencies. The
last two record their edits, so that annotated spans can be moved along.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy as np

from jaxaug.augment.language import lexicon as lexicons
from jaxaug.augment.language.lexicon import STOP_WORDS, Lexicon
from jaxaug.augment.language.words import (
    Edit,
    Span,
    Word,
    applied,
    edited,
    occurrences,
    touches,
    union,
    word_spans,
)
from jaxaug.core import extensions
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.typed import Range, bounded
from jaxaug.paraphrase.literals import framed

Rate = Annotated[float, Range(0, 1)]
"""A probability, or a share of the words."""


@bounded
def pervasive_dropout(
    text: str,
    rng: np.random.Generator,
    *,
    rate: Rate = 0.1,
    protected: Sequence[str] = (),
) -> str:
    """Deletes each word with a probability (Sennrich et al., 2016), but never all.

    The paper drops whole word embeddings during training. Wei et al. (2021) drop the
    words of the text, as here. Numbers, placeholders, and protected texts stay.

    Args:
        text: a sentence.
        rng: source of the draws.
        rate: the probability.
        protected: parts of the text that stay.

    Raises:
        UserError: the rate is not between 0 and 1.
    """
    return edited(text, lambda words: dropped(words, rate, rng), protected)


@bounded
def switch_out(
    text: str,
    rng: np.random.Generator,
    *,
    temperature: Annotated[float, Range(0, above=True)] = 1.0,
    rate: Rate | None = None,
    vocabulary: Sequence[str] = (),
    protected: Sequence[str] = (),
) -> str:
    """Replaces words by random words: SwitchOut.

    Wang et al. (2018), equation 5 and their program, draw a number n with a probability
    proportional to exp(-n / temperature), 0 <= n <= all. Then each word changes
    independently with probability n / all. The replacements are equally likely.

    Args:
        temperature: above 0; 1 changes 0.6 words of a long text on average, 2 changes
            1.5 and 5 changes 4.5.
        rate: the probability of each word instead of n / all, as in Wei et al. (2021);
            the temperature is then ignored.
        vocabulary: words to draw from, ideally the words of the training texts; empty
            means the words of the built-in lexicon.
        protected: parts of the text that stay.

    Raises:
        UserError: the temperature is not above 0, or the rate not between 0 and 1.
    """
    drawn = vocabulary or lexicons.built_in().words

    def edit(words: list[Word]) -> list[Word]:
        free = [place for place, word in enumerate(words) if not word.fixed]
        each = rate
        if each is None:
            weights = np.exp(-np.arange(len(free) + 1) / temperature)
            count = rng.choice(len(weights), p=weights / weights.sum())
            each = count / max(len(free), 1)
        result = list(words)
        for place in free:
            if rng.random() < each:
                new = drawn[int(rng.integers(len(drawn)))]
                # Marks alone, such as a dash, are not a word to replace.
                result[place] = words[place].put(new if words[place].core else "")
        return result

    return edited(text, edit, protected)


def dropped(
    words: list[Word], rate: float, rng: np.random.Generator, least: int = 0
) -> list[Word]:
    """Returns the words without the dropped ones; one random word always stays.

    Args:
        words: words of a text; fixed ones stay.
        rate: probability of each word.
        least: minimum number of dropped words, if there are more words.
    """
    drawn = rng.random(len(words))
    free = [place for place, word in enumerate(words) if not word.fixed]
    out = {place for place in free if drawn[place] < rate}
    if len(out) < least:
        out |= set(sorted(free, key=lambda place: drawn[place])[:least])
    if len(out) == len(words):
        out.discard(int(rng.integers(len(words))))
    return [word for place, word in enumerate(words) if place not in out]


@bounded
def eda(
    text: str,
    rng: np.random.Generator,
    *,
    replace: Rate = 0.25,
    insert: Rate = 0.05,
    swap: Rate = 0.05,
    delete: Rate = 0.05,
    wordnet_dir: PathLike | None = None,
    protected: Sequence[str] = (),
) -> str:
    """Applies one of the four operations of EDA, drawn from those with a rate above 0.

    The rates are from Coca et al. (2023). Let n = max(1, rate * words), rounded down.
    The operation replaces n words by synonyms, inserts synonyms of n words anywhere,
    swaps two words n times, or deletes each word with a probability.

    Unlike the published program, this one keeps case, marks, and white space, inflects
    synonyms, and fits articles. It keeps numbers, placeholders, and protected texts
    whole. A deletion removes at least one word.

    Args:
        text: a sentence.
        rng: source of the draws.
        replace: rate of replacement.
        insert: rate of insertion.
        swap: rate of swaps.
        delete: probability of deletion, of each word.
        wordnet_dir: see `jaxaug.augment.language.lexicon.load`.
        protected: parts of the text that stay whole.

    Returns:
        The changed text, or the text itself if it has no word to work on.

    Raises:
        UserError: a rate is not between 0 and 1, or all are 0.
    """
    rates = {"replace": replace, "insert": insert, "swap": swap, "delete": delete}
    chosen = [name for name, rate in rates.items() if rate]
    if not chosen:
        raise UserError("eda: all four rates are 0. Set one above 0.")
    source = lexicons.load(wordnet_dir)
    name = chosen[int(rng.integers(len(chosen)))]

    def edit(words: list[Word]) -> list[Word]:
        count = max(1, int(rates[name] * len(words)))
        if name == "replace":
            return replaced(words, count, rng, source)
        if name == "insert":
            return inserted(words, count, rng, source)
        if name == "swap":
            return swapped(words, count, rng)
        return dropped(words, delete, rng, least=1)

    return edited(text, edit, protected)


@bounded
def token_substitution(
    text: str,
    rng: np.random.Generator,
    *,
    rate: Rate = 0.1,
    wordnet_dir: PathLike | None = None,
    protected: Sequence[str] = (),
) -> str:
    """Replaces max(1, rate * words) words by synonyms (Zhang et al., 2015).

    The experiments of Wei et al. (2021) are followed: the number is fixed and all
    synonyms of a word are equally likely. Zhang et al. draw both from a geometric
    distribution. See `eda` for the arguments.
    """
    source = lexicons.load(wordnet_dir)

    def edit(words: list[Word]) -> list[Word]:
        return replaced(words, max(1, int(rate * len(words))), rng, source)

    return edited(text, edit, protected) if rate else text


def replaced(
    words: list[Word], count: int, rng: np.random.Generator, lexicon: Lexicon
) -> list[Word]:
    """Replaces up to `count` different words that have synonyms."""
    result = list(words)
    alike: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        if not word.fixed:
            alike.setdefault(word.core.lower(), []).append(place)
    for place in rng.permutation(len(words)).tolist():
        core = words[place].core.lower()
        found = synonyms_at(words, place, lexicon) if core in alike else ()
        if not found:
            continue
        if not count:
            break
        count -= 1
        synonym = found[int(rng.integers(len(found)))]
        # All occurrences change, so that a text keeps one name for one thing.
        for other in alike.pop(core):
            result[other] = words[other].put(_cased(synonym, words[other].core))
    return result


def inserted(
    words: list[Word], count: int, rng: np.random.Generator, lexicon: Lexicon
) -> list[Word]:
    """Inserts `count` synonyms of random words, each at a random place."""
    result = list(words)
    options = [synonyms_at(words, place, lexicon) for place in range(len(words))]
    has_synonyms = np.array([bool(found) for found in options])
    for _ in range(count if has_synonyms.any() else 0):
        places = rng.permutation(len(words))
        found = options[places[np.argmax(has_synonyms[places])]]
        synonym = found[int(rng.integers(len(found)))]
        place = int(rng.integers(len(result) + 1))
        result.insert(place, Word("", synonym, "", False))
    return result


def swapped(words: list[Word], count: int, rng: np.random.Generator) -> list[Word]:
    """Swaps two random words `count` times; marks move along, white space stays."""
    result = list(words)
    for _ in range(count if len(words) > 1 else 0):
        first, second = rng.choice(len(result), 2, replace=False).tolist()
        one, other = result[first], result[second]
        result[first] = other._replace(space=one.space)
        result[second] = one._replace(space=other.space)
    return result


def synonyms_at(words: Sequence[Word], place: int, lexicon: Lexicon) -> tuple[str, ...]:
    """Returns the synonyms of the word at `place`; stop and fixed words have none."""
    word = words[place]
    if word.fixed or word.core.lower() in STOP_WORDS:
        return ()
    before = words[place - 1] if place else None
    return lexicons.synonyms(
        word.core, lexicon, before.core if before and not before.after else None
    )


def _cased(synonym: str, word: str) -> str:
    if len(word) > 1 and word.isupper():
        return synonym.upper()
    return synonym[0].upper() + synonym[1:] if word[:1].isupper() else synonym


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
    kept = occurrences(text, protected)
    return applied(text, noise(text, rng, rate, kept))


@bounded
def typo_edits(
    text: str, rng: np.random.Generator, rate: Rate, kept: Sequence[Span]
) -> list[Edit]:
    """Returns the edits of `typos`.

    Args:
        rate: probability of each word.
        kept: spans that stay, in addition to the literals; a word that touches one
            stays as a whole.

    Raises:
        UserError: the rate is not between 0 and 1.
    """
    closed = union([*kept, *framed(text).fixed()])
    found = []
    for start, end in word_spans(text):
        # Draw for every word, so that an additional value changes no other word.
        chance, kind, where, which = rng.random(4)
        if chance >= rate or touches((start, end), closed):
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
    closed = union([*kept, *framed(text).fixed()])
    spans = word_spans(text)
    found = []
    for number, (start, end) in enumerate(spans):
        chance, kind, which = rng.random(3)
        # No insertion inside a value, "3rd", or "well-known".
        if chance >= rate or touches((start, start), closed):
            continue
        if start and not text[start - 1].isspace():
            continue
        again = spans[number + 1][1] if number + 1 < len(spans) else end
        pair = text[start:again]
        free = not touches((start, end), closed)
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
    return letters and whole and not touches((start, end), closed)


NOISES: dict[str, Noise] = {"typos": typo_edits, "disfluency": disfluency_edits}
"""The methods that record where they change a text, by name."""


Method = Callable[..., str]

_OWN: Mapping[str, Method] = {
    "eda": eda,
    "token_substitution": token_substitution,
    "pervasive_dropout": pervasive_dropout,
    "switch_out": switch_out,
    "typos": typos,
    "disfluency": disfluency,
}

MODEL_SCHEMES = ("contextual", "paraphrase", "backtranslate", "apertium", "qcpg")
"""Schemes with models or programs that work on texts too; see `registry`."""

METHODS: Mapping[str, Method] = extensions.Table(_OWN, "schemes", taken=MODEL_SCHEMES)
"""Name -> method(text, rng, **options) -> text; see each for its options."""
