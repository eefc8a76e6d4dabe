"""What measures the pairs of `jaxaug levels`; models are imported when they are used."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.curriculum import difficulty
from jaxaug.models.named import identities

Pairs = Sequence[tuple[str, str]]


class Scorers(NamedTuple):
    """What equations 3 and 4 ask of the pairs (text, paraphrase).

    Attributes:
      similarity: G.
      implied: M; None is no model of implication.
    """

    similarity: Callable[[Pairs], Float[np.ndarray, " pairs"]]
    implied: Callable[[Pairs], Bool[np.ndarray, " pairs"]] | None = None


def scale(similarity: str) -> difficulty.Scale:
    """The scale of a measure by its name or folder."""
    from jaxaug.models.scorers import encoder
    from jaxaug.models.weights import hf_folder

    if similarity in difficulty.NAMED:
        return difficulty.NAMED[similarity]
    return difficulty.scale_of(hf_folder.read_config(encoder.folder_of(similarity))[2])


def identity(name: str) -> str:
    """What stands for an encoder; raises `UserError` if it is not on this machine."""
    from jaxaug.models.scorers import encoder

    return identities.of_folder(encoder.folder_of(name))


def load(similarity: str, implication: str) -> Scorers:
    """The scorers of these names; their scores are kept in the cache folder.

    Raises:
      UserError: no such model on this machine, or it is made for something else.
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
