"""Similarity of a text and its source, without a model."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from jaxaug.metrics.diversity import sentence_bleu

BINS = 10


def jaccard(first: str, second: str) -> float:
    """Returns shared words over all words of two texts, as sets: 0 to 1.

    Words are separated by white space and lower-cased. Two empty texts are equal: 1.
    """
    left, right = set(first.lower().split()), set(second.lower().split())
    union = left | right
    return len(left & right) / len(union) if union else 1.0


def bleu(output: str, source: str) -> float:
    """Returns lower-cased sentence BLEU of output against source, 0 to 1."""
    return sentence_bleu(output.lower(), [source.lower()]) / 100.0


def histogram(values: Sequence[float]) -> Int[np.ndarray, " bins"]:
    """Counts values in ten equal bins of [0, 1]; 1 is in the last bin."""
    counts, _ = np.histogram(values, bins=BINS, range=(0.0, 1.0))
    return counts
