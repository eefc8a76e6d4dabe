"""Log-likelihoods of a text and its rewording under the model of rewordings.

The model was trained on the corpus of docs/rewordings.md in both directions. An output
that adds something is improbable as a rewording of its text, and an output that loses
something makes its text improbable. CTranslate2 computes both if it is installed, else
JAX.
"""

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge.features import Pair
from jaxaug.core.errors import UserError
from jaxaug.data.rewordings import END, Source

MODEL = "rewording-paraphraser"
PRECISION = "int8"
"""Precision of the weights in CTranslate2."""
_GRADE = 3  # of all prompts
_ROWS = 64  # of a batch


@functools.cache
def load(name: str) -> Any:
    """Returns a `LanguageModel` whose inputs are whole prompts.

    It has no parameters if the folder of CTranslate2, which has them, is in the cache.

    Raises:
        UserError: the model is no language model, or is not on this machine and cannot
            be fetched.
    """
    from jaxaug.models.text import in_engine, prompts, registry
    from jaxaug.models.text.language import LanguageModel

    model: Any = registry.described(name) if _has_engine() else None
    if model is None or not in_engine.is_kept(model, PRECISION):
        model = registry.load(name)
    if not isinstance(model, LanguageModel):
        raise UserError(
            f"{name} is no language model. Name one that was trained on "
            "the corpus of rewordings."
        )
    return model.with_prompt(prompts.Prompt("", "", ""))


def identity() -> str:
    """Returns the identity of the model without loading it."""
    from jaxaug.models.text import registry

    return registry.published_identity(MODEL)


def both(pairs: Sequence[Pair]) -> Float[np.ndarray, "pairs 2"]:
    """Returns log P(candidate | original) and log P(original | candidate), in nats.

    The prompts have the kinds of the texts and no service.

    Raises:
        UserError: see `load`; or neither JAX nor CTranslate2 is installed.
    """
    rows = [
        (one.kind, *texts)
        for one in pairs
        for texts in (
            (one.original, one.candidate),
            (one.candidate, one.original),
        )
    ]
    distinct = list(dict.fromkeys(rows))
    model = load(MODEL)
    inputs = [
        model.vocabulary.encode(_prompt(kind, text)) for kind, text, _ in distinct
    ]
    whole = [
        model.vocabulary.encode(f"{_prompt(kind, text)} {other}{END}")
        for kind, text, other in distinct
    ]
    outputs = [all_[len(one) :] for all_, one in zip(whole, inputs, strict=True)]
    values = dict(zip(distinct, _scored(model, inputs, outputs), strict=True))
    return np.array([values[row] for row in rows]).reshape(-1, 2)


def _prompt(kind: str, text: str) -> str:
    return Source(kind, text).prompt(_GRADE)


def _scored(
    model: Any, inputs: Sequence[list[int]], outputs: Sequence[list[int]]
) -> list[float]:
    if _has_engine():
        return _engine(model).log_likelihoods(inputs, outputs)
    from jaxaug.models.scorers.pairs import CausalPerplexity

    return CausalPerplexity(model, _ROWS).continued(inputs, outputs)


def _has_engine() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None


@functools.cache
def _engine(model: Any) -> Any:
    from jaxaug.models.engine.runner import Engine
    from jaxaug.models.text import in_engine

    folder = in_engine.kept(model, PRECISION)
    return Engine(folder, in_engine.rules_of(model), batch_size=_ROWS)
