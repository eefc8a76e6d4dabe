"""Filter of paraphrases, and the difficulty of each.

Lu and Lam (2023), "PCC: Paraphrasing with Bottom-k Sampling and Cyclic Learning for
Curriculum Data Augmentation", equations 3 and 4.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxaug.core.errors import UserError

LEVELS = 5
# The value implied by the files that PCC's authors released, scored with an original
# BLEURT; the paper gives no number.
BETA = 0.5


class Scale(NamedTuple):
    """Range and default threshold of a similarity measure.

    Attributes:
        name: name for messages.
        least: minimum score of texts. BLEURT is unbounded, but is trained on such
            scores.
        most: maximum score of texts.
        beta: default minimum similarity of paraphrases that are not implied, in
            equation 3 of Lu and Lam (2023).
    """

    name: str
    least: float
    most: float
    beta: float


COSINE = Scale("a cosine", -1.0, 1.0, BETA)
BLEURT_1 = Scale("an original BLEURT", -2.0, 1.1, BETA)
"""Scale of the checkpoints of 2020 (such as bleurt-base-128), trained on standardized
ratings.

Equal texts score about 1.03. The scores that PCC's authors released range from -1.70 to
0.95. Their files contain only paraphrases that are implied or score at least 0.5.
"""
BLEURT_20 = Scale("BLEURT-20", 0.0, 1.0, 0.7)
"""Scale of BLEURT-20 and its distilled forms, whose scores are shifted to about 0 to 1.

The threshold is an estimate: the released paraphrases were not scored with it here.
"""


def scale_of(config: Any) -> Scale:
    """Returns the similarity scale of an encoder with this configuration.

    Args:
        config: configuration of the network. BLEURT has one output. BLEURT-20 is a
            RemBERT, whose embeddings are narrower than its blocks; the original BLEURT
            is a BERT.
    """
    if len(getattr(config, "labels", ())) != 1:
        return COSINE
    narrow = getattr(config, "embedding_dim", None) or config.emb_dim
    return BLEURT_1 if narrow == config.emb_dim else BLEURT_20


NAMED: Mapping[str, Scale] = {
    "minilm": COSINE,
    "bleurt-base-128": BLEURT_1,
    "bleurt-tiny": BLEURT_1,
    "bleurt-20": BLEURT_20,
}
"""Scales of models that may be missing on this machine."""

BETAS: Mapping[str, float] = {"minilm": 0.8}
"""Beta by similarity, used with an implication model; see `Scale` for other names.

It is based on the paraphrases that PCC's authors released for HuffPost with seed 0. Of
those that are not implied (original BLEURT of at least 0.5), 98 % have a MiniLM cosine
of at least 0.8.
"""
FLOORS: Mapping[str, float] = {"minilm": 0.2}
"""Minimum similarity without an implication model; other names have none.

Equation 3 with M = 0 and beta = 0.5 would drop the hard paraphrases, which are the
purpose of the curriculum. Of level 5 in the same file it would keep 1 % by BLEURT and
65 % by MiniLM. A cosine below 0.2 indicates another subject: 93 % of level 5 and 97 %
of bottom-k are above it.
"""


def kept(
    implied: Bool[np.ndarray, " n"], similarity: Float[np.ndarray, " n"], beta: float
) -> Bool[np.ndarray, " n"]:
    """Marks faithful paraphrases by equation 3, `M + (1 - M) [G >= beta]`.

    Args:
        implied: M, whether text and paraphrase imply each other; all False without an
            implication model.
        similarity: G, similarity of the paraphrase to its text; an original BLEURT in
            the paper.
        beta: minimum similarity of paraphrases that are not implied. The paper gives no
            number; the released files contain no such paraphrase below 0.5.

    Raises:
        UserError: a similarity is not a finite number.
    """
    return np.asarray(implied, np.bool_) | (_finite(similarity) >= beta)


def difficulty(
    similarity: Float[np.ndarray, " n"], levels: int = LEVELS
) -> Int[np.ndarray, " n"]:
    """Returns the level of each paraphrase, 1..C, by `d_i = ceil(C rank_i / |X|)`.

    This is equation 4. Rank 1 is the most similar, so level 1 is the easiest; ties are
    ranked in input order. All levels have the same size if C divides |X|. With fewer
    than C paraphrases some levels are empty (see `levels.Levelled.at`).

    Args:
        similarity: similarities of the paraphrases of one text.
        levels: C.

    Raises:
        UserError: a similarity is not a finite number, or `levels` is below 1.
    """
    if levels < 1:
        raise UserError(f"curriculum: {levels} levels; give at least 1.")
    order = np.argsort(-_finite(similarity), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    return -(-levels * rank // max(len(order), 1))


def _finite(similarity: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    values = np.asarray(similarity, np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise UserError(
            f"curriculum: similarity {wrong[0]} of {len(values)} is "
            f"{values[wrong[0]]}; every paraphrase needs a number. Leave it out, or "
            "use another scorer."
        )
    return values
