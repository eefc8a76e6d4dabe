"""Diversity of several texts: distinct-n and self-BLEU.

Words are separated by white space; case matters.
"""

import collections
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

import numpy as np

from jaxaug.core.installed import install_advice, missing_extra

_ORDER = 4  # Maximum n-gram order of BLEU.


def without_bleu() -> str:
    """Returns a note that BLEU is left out; empty if sacrebleu is installed."""
    if importlib.util.find_spec("sacrebleu") is not None:
        return ""
    return (
        "BLEU is left out: sacrebleu is not installed. It comes with the extra 'nlp': "
        f"{install_advice('nlp')}."
    )


def load_sacrebleu() -> ModuleType:
    """Returns the library that computes BLEU; raises `UserError` without it."""
    try:
        import sacrebleu
    except ImportError:
        raise missing_extra(
            "cannot compute BLEU: sacrebleu is not installed", "sacrebleu"
        ) from None
    return sacrebleu


def ngrams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Returns the n-grams of a text, in order."""
    return zip(*(words[start:] for start in range(n)), strict=False)


def distinct(texts: Sequence[str], n: int) -> float | None:
    """Returns distinct-n: distinct n-grams over all n-grams of the texts, in (0, 1].

    Li et al. (2016), "A Diversity-Promoting Objective Function", divide by the number
    of words instead; that ratio cannot reach 1 for n > 1.
    """
    found = [gram for text in texts for gram in ngrams(text.split(), n)]
    return len(set(found)) / len(found) if found else None


def self_bleu(texts: Sequence[str]) -> float | None:
    """Returns the mean BLEU of each text against all others as references, 0 to 100.

    Zhu et al. (2018), "Texygen". Low values mean diverse texts; equal texts give 100.
    The BLEU is sacrebleu's sentence BLEU: 13a tokens, exponential smoothing, and
    n-grams up to the length of the text ("effective order"). Otherwise short texts
    would all score near 0.
    """
    if len(texts) < 2:
        return None
    return float(np.mean(bleu_against_the_others(texts)))


def bleu_against_the_others(texts: Sequence[str]) -> list[float]:
    """Returns sacrebleu's sentence BLEU of each text against all others, 0 to 100.

    A single text gives 0. The n-grams of each text are counted once, so n texts take n
    steps instead of sacrebleu's n * n.
    """
    scorer = load_sacrebleu().BLEU(effective_order=True)
    if len(texts) < 2:
        return [0.0] * len(texts)
    words = [scorer.tokenizer(text).split() for text in texts]
    counts = [_ngrams(one) for one in words]
    # For each n-gram: its maximum count, the number of texts with that count, and the
    # next smaller count.
    most: dict[tuple[str, ...], list[int]] = {}
    for one in counts:
        for gram, count in one.items():
            best = most.setdefault(gram, [0, 0, 0])
            if count > best[0]:
                best[:] = [count, 1, best[0]]
            elif count == best[0]:
                best[1] += 1
            else:
                best[2] = max(best[2], count)
    lengths = collections.Counter(map(len, words))
    scores = []
    for own, one in zip(words, counts, strict=True):
        correct, total = [0] * _ORDER, [0] * _ORDER
        for gram, count in one.items():
            top, holders, second = most[gram]
            others = second if count == top and holders == 1 else top
            correct[len(gram) - 1] += min(count, others)
            total[len(gram) - 1] += count
        near = _nearest(len(own), lengths)
        score = scorer.compute_bleu(
            correct, total, len(own), near, "exp", effective_order=True
        ).score
        scores.append(min(score, 100.0))  # Rounding lifts equal texts above 100.
    return scores


def _ngrams(words: Sequence[str]) -> collections.Counter[tuple[str, ...]]:
    return collections.Counter(
        gram for n in range(1, _ORDER + 1) for gram in ngrams(words, n)
    )


def _nearest(length: int, lengths: Mapping[int, int]) -> int:
    """Returns the length nearest to a text's own; the shorter on ties."""
    others = (other for other, n in lengths.items() if n > (other == length))
    return min(others, key=lambda other: (abs(other - length), other))


def sentence_bleu(text: str, references: Sequence[str]) -> float:
    """Returns sacrebleu's sentence BLEU of a text against its references, 0 to 100."""
    score = load_sacrebleu().sentence_bleu(text, list(references)).score
    return min(score, 100.0)  # Rounding lifts equal texts above 100.
