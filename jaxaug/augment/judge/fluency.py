"""The metric `fluency`: how likely a candidate is compared with its source."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge.measures import Metric
from jaxaug.core.errors import UserError
from jaxaug.models.named import identities
from jaxaug.models.scorers import encoder, perplexity, store
from jaxaug.models.text import language

_MARKS = (".", "?", "!")


def fluency(model: str) -> Metric:
    """Returns the metric of a candidate's fluency compared with its source.

    It is the log-likelihood per token of the candidate minus the one of the source,
    both as sentences with a capital and a final mark. 0 is as fluent as the source.

    Args:
        model: a decoder-only language model.

    Raises:
        UserError: the model is of another kind, or is not on this machine.
    """
    folder = encoder.folder_of(model)
    if not language.is_language_model(folder):
        raise UserError(
            f"metric 'fluency': {model} is not a decoder-only language model. Name "
            "one, such as smollm2."
        )
    measure = perplexity.CausalPerplexity(
        language.load(folder, model), identities.of_folder(folder), store.Store()
    )

    def metric(
        sources: Sequence[str], candidates: Sequence[str]
    ) -> Float[np.ndarray, " n"]:
        if not candidates:
            return np.zeros(0)
        texts = [_sentence(text) for text in (*sources, *candidates)]
        of_sources, of_candidates = np.split(-np.log(measure(texts)), 2)
        return of_candidates - of_sources

    return metric


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text[-1:] in _MARKS else ".")
