"""The metric `sound`: the probability that a candidate of the grammar is sound."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge import verdicts
from jaxaug.augment.judge.features import SLOT, Pair


class Sound:
    """Metric of soundness, 0 to 1; see `verdicts.Judge.sound`.

    Attributes:
        by_kind: marks a metric that takes the kinds of the texts.
    """

    by_kind = True

    def __init__(self, model: str):
        """
        Args:
            model: model of sentences, such as minilm; empty for the rules alone.

        Raises:
            UserError: see `verdicts.judge`.
        """
        self._judge = verdicts.judge(model, source=verdicts.GRAMMAR)

    def __call__(
        self,
        sources: Sequence[str],
        candidates: Sequence[str],
        kinds: Sequence[str] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Returns the probability of each pair.

        Args:
            sources: originals.
            candidates: their rewordings.
            kinds: kinds of the originals, see `Pair`; None if all are slots.
        """
        kinds = [SLOT] * len(sources) if kinds is None else kinds
        rows = zip(kinds, sources, candidates, strict=True)
        return self._judge.sound([Pair(*row) for row in rows])
