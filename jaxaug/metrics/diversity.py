"""How different several texts are from one another: distinct-n and self-BLEU.

Words are what white space separates; case counts.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy as np

from jaxaug.core.errors import UserError


def load_sacrebleu() -> ModuleType:
    """The library that computes BLEU; call it before long work that ends in BLEU.

    Raises:
      UserError: it is not installed.
    """
    try:
        import sacrebleu
    except ImportError:
        raise UserError(
            "cannot compute BLEU: sacrebleu is not installed. Install the extra with "
            "`pip install 'jaxaug[nlp]'`."
        ) from None
    return sacrebleu


def ngrams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """The runs of `n` words of a text, in order."""
    return zip(*(words[start:] for start in range(n)), strict=False)


def distinct(texts: Sequence[str], n: int) -> float | None:
    """distinct-n: different n-grams over all n-grams of the texts, 0 < value <= 1.

    After Li et al. (2016), "A Diversity-Promoting Objective Function", who divide by
    the number of words instead: that ratio cannot reach 1 for n > 1.

    Returns:
      The ratio; None where no text has n words.
    """
    found = [gram for text in texts for gram in ngrams(text.split(), n)]
    return len(set(found)) / len(found) if found else None


def self_bleu(texts: Sequence[str]) -> float | None:
    """Mean BLEU of each text against all others as references, 0 to 100.

    Zhu et al. (2018), "Texygen". Low is diverse; equal texts give 100. The BLEU is
    sacrebleu's sentence BLEU: 13a tokens, exponential smoothing, n-grams up to the
    length of the text ("effective order"), so that short texts are not all near 0.

    Returns:
      The mean; None for fewer than two texts.
    """
    if len(texts) < 2:
        return None
    scores = [
        sentence_bleu(text, [*texts[:index], *texts[index + 1 :]])
        for index, text in enumerate(texts)
    ]
    return float(np.mean(scores))


def sentence_bleu(text: str, references: Sequence[str]) -> float:
    """sacrebleu's sentence BLEU of a text against its references, 0 to 100."""
    score = load_sacrebleu().sentence_bleu(text, list(references)).score
    return min(score, 100.0)  # Rounding takes that of equal texts above 100.
