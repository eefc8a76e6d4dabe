"""The judge: the probability that a rewording is well formed and faithful.

A logistic regression combines the log odds of a network (see `network`), the similarity
of both texts, and features of their words. With the model of rewordings it also has log
probabilities (see `likelihood`). `benchmarks/train_judge.py` fits it to
labels of texts that the network has not seen, so its output is a probability.
"""

import functools
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from etils import epath
from jaxtyping import Float

from jaxaug.augment.judge import features, filters, likelihood, network
from jaxaug.augment.judge.features import SLOT, Pair
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError

COEFFICIENTS = epath.Path(__file__).parent / "coefficients.json"
NAMES = {
    "": features.WORDS,
    network.BASE: (*features.WORDS, "unlike", "network"),
    likelihood.MODEL: (*features.WORDS, "unlike", "network", "forward", "back"),
}
"""Model -> inputs of the regression: features of words, 1 - similarity, log odds, and
log-likelihoods. Without a model, which needs no download, there are only the first."""
LEAST = 0.5
"""Least probability at which a candidate is kept."""
TRIVIAL, UNFAITHFUL = "trivial", "unfaithful"

_DIGITS = 4


class Verdict(NamedTuple):
    """The verdict on a rewording.

    Attributes:
        keep: whether it is kept.
        reasons: codes of `filters.CHECKS`, or else `trivial`; and `unfaithful` for a
            probability below the threshold. Empty if it is kept.
        faithful: the probability.
    """

    keep: bool
    reasons: tuple[str, ...]
    faithful: float


class Regression(NamedTuple):
    """A logistic regression on columns of `NAMES`."""

    bias: float
    weights: Float[np.ndarray, " features"]

    def probabilities(
        self, columns: Float[np.ndarray, "pairs features"]
    ) -> Float[np.ndarray, " pairs"]:
        """Returns the probability of each row."""
        return 1.0 / (1.0 + np.exp(-(columns @ self.weights + self.bias)))


def columns(
    pairs: Sequence[Pair], model: str = network.BASE
) -> Float[np.ndarray, "pairs features"]:
    """Returns the columns of a model, a key of `NAMES`.

    Raises:
        UserError: a model is not on this machine and cannot be fetched.
    """
    if not model:
        return features.words(pairs)
    found = network.load()
    both = [1.0 - found.similarity(pairs), found.log_odds(pairs)]
    parts = [features.words(pairs), np.stack(both, axis=1)]
    if model == likelihood.MODEL:
        parts.append(likelihood.both(pairs))
    return np.concatenate(parts, axis=1)


def faithful(
    pairs: Sequence[Pair], model: str = network.BASE
) -> Float[np.ndarray, " pairs"]:
    """Returns the probability that each rewording is well formed and faithful.

    A trivial rewording is faithful. `model` is a key of `NAMES`.

    Raises:
        UserError: see `columns`.
    """
    if not pairs:
        return np.zeros(0)
    # Further digits differ between machines.
    return np.round(regression(model).probabilities(columns(pairs, model)), _DIGITS)


def verdicts(
    pairs: Sequence[Pair], least: float = LEAST, model: str = network.BASE
) -> list[Verdict]:
    """Returns the verdict on each rewording.

    Args:
        pairs: texts and rewordings.
        least: least probability of a rewording that is kept.
        model: a key of `NAMES`.

    Raises:
        UserError: see `columns`.
    """
    found = []
    for pair, probability in zip(pairs, faithful(pairs, model).tolist(), strict=True):
        (codes,) = filters.reasons(pair.original, [pair.candidate], names=())
        if not codes and features.is_trivial(pair):
            codes = (TRIVIAL,)
        if probability < least:
            codes = (*codes, UNFAITHFUL)
        found.append(Verdict(not codes, codes, probability))
    return found


class Metric:
    """The metric `faithful`.

    Attributes:
        by_kind: marks a metric that takes the kinds of the texts.
    """

    by_kind = True

    def __init__(self, model: str = network.BASE):
        """
        Args:
            model: a key of `NAMES`.

        Raises:
            UserError: there is no such key.
        """
        if model not in NAMES:
            raise UserError(
                f"metric 'faithful': model {model!r}: give {network.BASE!r}, "
                f"{likelihood.MODEL!r}, or '' for the words alone."
            )
        self._model = model

    def __call__(
        self,
        sources: Sequence[str],
        candidates: Sequence[str],
        kinds: Sequence[str] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Returns the probability of each pair; without kinds, all are slots."""
        kinds = [SLOT] * len(sources) if kinds is None else kinds
        rows = zip(kinds, sources, candidates, strict=True)
        return faithful([Pair(*row) for row in rows], self._model)


@functools.cache
def regression(model: str) -> Regression:
    """Returns the numbers of `coefficients.json` for a key of `NAMES`."""
    known = json.loads(COEFFICIENTS.read_text())[model or "words"]
    weights = np.array([known["weights"][name] for name in NAMES[model]])
    return Regression(known["bias"], weights)


def identity(model: str = network.BASE) -> str:
    """Returns the identity of the judge in keys: its code, numbers, and weights.

    Raises:
        UserError: see `columns`.
    """
    code = code_digest("jaxaug.augment.judge", "jaxaug.augment.language")
    paths = [COEFFICIENTS, *(network.files() if model else ())]
    more = [likelihood.identity()] if model == likelihood.MODEL else []
    return digest_of([code, *map(file_digest, paths), *more])
