"""Scorers of the pairs of `jaxaug levels`; models are imported on first use."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.curriculum import difficulty
from jaxaug.models.named import identities

Pairs = Sequence[tuple[str, str]]


class Scorers(NamedTuple):
    """Functions of (text, paraphrase) pairs for equations 3 and 4.

    Attributes:
        similarity: G.
        implied: M; None without an implication model.
    """

    similarity: Callable[[Pairs], Float[np.ndarray, " pairs"]]
    implied: Callable[[Pairs], Bool[np.ndarray, " pairs"]] | None = None


def scale(similarity: str) -> difficulty.Scale:
    """Returns the scale of a measure, given by name or folder."""
    from jaxaug.models.scorers import encoder
    from jaxaug.models.weights import hf_folder

    if similarity in difficulty.NAMED:
        return difficulty.NAMED[similarity]
    return difficulty.scale_of(hf_folder.read_config(encoder.folder_of(similarity))[2])


def identity(name: str) -> str:
    """Returns the identity of an encoder.

    Raises:
        UserError: the encoder is not on this machine.
    """
    from jaxaug.models.scorers import encoder

    return identities.of_folder(encoder.folder_of(name))


def load(similarity: str, implication: str) -> Scorers:
    """Loads the scorers with these names; their scores are kept in the cache folder.

    Raises:
        UserError: a model is not on this machine, or has another purpose.
    """
    from jaxaug.models.scorers import encoder, pairs
    from jaxaug.models.scorers.store import Store

    store = Store()
    loaded = encoder.load(similarity)
    is_cosine = difficulty.scale_of(loaded.config) == difficulty.COSINE
    measure = (pairs.Similarity if is_cosine else pairs.Bleurt)(loaded, store)
    if not implication:
        return Scorers(measure)
    judge = pairs.MutualImplication(encoder.load(implication), store)
    return Scorers(measure, functools.partial(judge.holds))
