"""Which paraphrases are kept, and how hard each of them is.

Lu and Lam (2023), "PCC: Paraphrasing with Bottom-k Sampling and Cyclic Learning for
Curriculum Data Augmentation", equations 3 and 4.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxaug.core.errors import UserError

LEVELS = 5
BETA = 0.5  # What the files that PCC's authors released imply; the paper gives none.


def kept(
    implied: Bool[np.ndarray, " n"], similarity: Float[np.ndarray, " n"], beta: float
) -> Bool[np.ndarray, " n"]:
    """Equation 3, `M + (1 - M) [G >= beta]`: which paraphrases are faithful enough.

    Args:
      implied: M, whether text and paraphrase imply each other; all False where no
        model of implication is at hand.
      similarity: G, of the paraphrase to its text; BLEURT in the paper.
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
