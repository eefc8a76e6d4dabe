"""Which paraphrases are kept, and how hard each of them is.

Lu and Lam (2023), "PCC: Paraphrasing with Bottom-k Sampling and Cyclic Learning for
Curriculum Data Augmentation", equations 3 and 4.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxaug.core.errors import UserError

LEVELS = 5
# What the files that PCC's authors released imply, whose scores come from an original
# BLEURT; the paper gives none.
BETA = 0.5


class Scale(NamedTuple):
    """The values of a similarity.

    Attributes:
      name: for messages.
      least: that scores of texts have; BLEURT has no bound but is trained on such.
      most: likewise.
      beta: default of the least similarity of what is not implied, in equation 3 of Lu
        and Lam (2023).
    """

    name: str
    least: float
    most: float
    beta: float


COSINE = Scale("a cosine", -1.0, 1.0, BETA)
BLEURT_1 = Scale("an original BLEURT", -2.0, 1.1, BETA)
"""The checkpoints of 2020, bleurt-base-128 among them, trained on standardized ratings.

Equal texts have about 1.03. PCC's authors released scores from -1.70 to 0.95, and with
them only what is implied or has 0.5 or more.
"""
BLEURT_20 = Scale("BLEURT-20", 0.0, 1.0, 0.7)
"""BLEURT-20 and its distilled forms, whose scores are shifted to about 0 to 1.

The threshold is an estimate: nobody has scored the released paraphrases with it here.
"""


def scale_of(config: Any) -> Scale:
    """The scale of the similarity that an encoder of that configuration gives.

    Args:
      config: of the network. BLEURT has one output; BLEURT-20 is a RemBERT, whose
        embeddings are narrower than its blocks, and the original is a BERT.
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
"""Scales of models that need not be on this machine."""

BETAS: Mapping[str, float] = {"minilm": 0.8}
"""Beta by similarity, next to a model of implication; of others see `Scale`.

Of what PCC's authors released for HuffPost, seed 0, and is not implied (an original
BLEURT of at least 0.5), 98 % have a MiniLM cosine of at least 0.8.
"""
FLOORS: Mapping[str, float] = {"minilm": 0.2}
"""Least similarity where no model of implication is at hand; others have none.

Equation 3 with M = 0 and beta = 0.5 would drop the hard paraphrases, and with them what
they are for: of the same file it would leave 1 % of level 5 by BLEURT, 65 % by MiniLM.
Less than 0.2 means another subject: 93 % of level 5 are above, 97 % of bottom-k.
"""


def kept(
    implied: Bool[np.ndarray, " n"], similarity: Float[np.ndarray, " n"], beta: float
) -> Bool[np.ndarray, " n"]:
    """Equation 3, `M + (1 - M) [G >= beta]`: which paraphrases are faithful enough.

    Args:
      implied: M, whether text and paraphrase imply each other; all False where no
        model of implication is at hand.
      similarity: G, of the paraphrase to its text; an original BLEURT in the paper.
      beta: least similarity of what is not implied. The paper gives no number; in the
        files that its authors released nothing below 0.5 is there that is not implied.

    Raises:
      UserError: a similarity is no number.
    """
    return np.asarray(implied, np.bool_) | (_finite(similarity) >= beta)


def difficulty(
    similarity: Float[np.ndarray, " n"], levels: int = LEVELS
) -> Int[np.ndarray, " n"]:
    """Equation 4, `d_i = ceil(C rank_i / |X|)`: the level of each paraphrase, 1..C.

    Rank 1 is the most similar, so level 1 is the easiest; equals are ranked in the
    order in which they come. All levels are of the same size where C divides |X|;
    with fewer than C paraphrases some levels are empty (see `levels.Levelled.at`).

    Args:
      similarity: of the paraphrases of one text.
      levels: C.

    Raises:
      UserError: a similarity is no number, or there is no level.
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
