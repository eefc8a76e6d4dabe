"""Easy data augmentation (Wei and Zou, 2019), and its synonym replacement alone."""

from collections.abc import Sequence

import numpy as np

from jaxaug.augment.language import lexicon as lexicons
from jaxaug.augment.language.lexicon import STOP_WORDS, Lexicon
from jaxaug.augment.language.words import Word, edited
from jaxaug.augment.schemes.noise import Rate, dropped
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.typed import bounded


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
