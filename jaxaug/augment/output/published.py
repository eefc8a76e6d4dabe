"""The figures of table 1 of Coca et al. (2023), as they were computed.

The paper does not define them. These definitions reproduce its figures for the public
SGD-X on SGD's train split (see papers/jaxaug_papers/tree/README.md):

- Jaccard distance, only of slot descriptions: lemmas as spaCy writes them, with case
  and punctuation, without stop words;
- BLEU of slot and intent descriptions: sacrebleu's defaults for a corpus of one
  sentence. Case counts, n-grams go up to 4 (no effective order), and the original is
  the reference;
- self-BLEU of vk: mean of this BLEU over all ordered pairs of v1..vk.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge import measures
from jaxaug.augment.language import nlp
from jaxaug.metrics import diversity

PREFIX = "table1_"
"""Prefix of these figures; the rest of the name is our metric."""


def figures(
    kinds: Sequence[str],
    originals: Sequence[str],
    variants: Sequence[Sequence[str]],
    metrics: Sequence[str],
) -> dict[str, list[float]]:
    """Returns the figures of table 1 of Coca et al. (2023) for each variant, 0 to 1.

    Args:
        kinds: kinds of the descriptions: "slot", "intent", ...
        variants: v1, v2, ...: texts for `originals`.
        metrics: names of our metrics. Only "jaccard", "bleu", and "self_bleu" are in
            the table; other names are ignored.

    Returns:
        `PREFIX` + name -> a figure for each variant; NaN if undefined. A figure is
        undefined without descriptions of its kind, and self-BLEU also for v1. Without a
        spaCy model, "jaccard" is left out.

    Raises:
        UserError: sacrebleu is not installed, and a BLEU is requested.
    """
    known: Mapping = {"jaccard": _jaccard, "bleu": _bleu, "self_bleu": _self_bleu}
    wanted = {"jaccard": ("slot",)}
    found = {}
    for name in known:
        if name in metrics and (name != "jaccard" or nlp.installed()):
            places = [
                place
                for place, kind in enumerate(kinds)
                if kind in wanted.get(name, ("slot", "intent"))
            ]
            texts = [[t[place] for place in places] for t in (originals, *variants)]
            found[PREFIX + name] = (
                known[name](texts) if places else [math.nan] * len(variants)
            )
    return found


def _jaccard(texts: Sequence[Sequence[str]]) -> list[float]:
    original, *variants = (
        [
            frozenset(token.lemma for token in one.tokens if not token.is_stop)
            for one in nlp.analyse(part)
        ]
        for part in texts
    )
    return [
        float(np.mean([*map(measures.jaccard_distance, original, variant)]))
        for variant in variants
    ]


def _bleu(texts: Sequence[Sequence[str]]) -> list[float]:
    original, *variants = texts
    return [float(np.mean(_scores(variant, original))) for variant in variants]


def _self_bleu(texts: Sequence[Sequence[str]]) -> list[float]:
    variants = texts[1:]
    of_pair = {
        pair: np.mean(_scores(variants[pair[0]], variants[pair[1]]))
        for pair in itertools.permutations(range(len(variants)), 2)
    }
    return [
        float(np.mean([value for pair, value in of_pair.items() if max(pair) <= last]))
        if last
        else math.nan
        for last in range(len(variants))
    ]


def _scores(
    hypotheses: Sequence[str], references: Sequence[str]
) -> Float[np.ndarray, " texts"]:
    bleu = diversity.load_sacrebleu().BLEU()
    return np.array(
        [
            bleu.corpus_score([hypothesis], [[reference]]).score / 100
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]
    )
