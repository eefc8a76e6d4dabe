"""Noise on words: pervasive dropout and SwitchOut."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from jaxaug.augment.language import lexicon
from jaxaug.augment.language.words import Word, edited
from jaxaug.core.typed import Range, bounded

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
        text: a sentence.
        rng: source of the draws.
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
    drawn = vocabulary or lexicon.built_in().words

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
        rng: source of the draws.
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
