"""Paraphrases by a model in CTranslate2.

It has greedy decoding, sampling, and beam search without a length penalty. Greedy
outputs and the best of a beam equal JAX's. Draws have the same distribution, and other
numbers. All other samplers and options stay with JAX.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.core.buckets import Batch
from jaxaug.core.errors import UserError
from jaxaug.models.engine import runner
from jaxaug.models.text import in_engine
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.registry import TextModel
from jaxaug.paraphrase.decoder import Output

_SAMPLERS = ("greedy", "sampling", "top_k_top_p", "beam")
# Options that CTranslate2 lacks or defines differently -> values that do nothing.
_NEUTRAL: Mapping[str, Any] = {
    "repetition_penalty": 1.0,
    "no_repeat_ngrams": 0,
    "alpha": 0.0,
}
_OUT = "leave --engine out"


def search(
    sampler: str, options: Mapping[str, Any], *, num: int, max_length: int
) -> runner.Search:
    """Returns the options of CTranslate2 for a sampler; some need JAX.

    Raises:
        UserError: CTranslate2 has no such sampler, or an option needs JAX.
    """
    if sampler not in _SAMPLERS:
        raise UserError(
            f"--sampler {sampler} with --engine ctranslate2: CTranslate2 has "
            f"{', '.join(_SAMPLERS)}. Take one of them, or {_OUT}."
        )
    for name, neutral in _NEUTRAL.items():
        if options.get(name, neutral) != neutral:
            raise UserError(
                f"--option {name}={options[name]} with --engine ctranslate2: only JAX "
                f"has it. Give --option {name}={neutral:g}, or {_OUT}."
            )
    temperature = options.get("temperature", 1.0)
    common = runner.Search(num, max_length, options.get("min_length", 0))
    if sampler == "beam":
        if temperature != 1.0:
            raise UserError(
                f"--option temperature={temperature} with --engine ctranslate2: its "
                f"beam search has none. Leave the option out, or {_OUT}."
            )
        return dataclasses.replace(common, beam=True)
    if sampler == "greedy" or not temperature:
        return common
    return dataclasses.replace(
        common,
        top_k=options.get("k", 0),
        top_p=options.get("p", 1.0),
        temperature=temperature,
    )


def check_precision(precision: str) -> None:
    """Raises `UserError` if CTranslate2 does not store weights in a precision."""
    if precision not in runner.PRECISIONS:
        raise UserError(
            f"--precision {precision} with --engine ctranslate2: it has "
            f"{', '.join(runner.PRECISIONS)}. Take one of them, or {_OUT}."
        )


class EngineDecoder:
    """Decodes like `Decoder`, with CTranslate2; a resumed run draws other numbers."""

    def __init__(
        self,
        model: TextModel | LanguageModel,
        options: runner.Search,
        *,
        precision: str,
        seed: int,
        batch_size: int,
    ):
        """Takes a float32 model, a result of `search`, and a precision.

        Raises:
            UserError: CTranslate2 is not installed, or has no such model.
        """
        self._model, self._options = model, options
        self._skipped = 0
        if isinstance(model, LanguageModel):
            self._skipped = len(model.before)
        self._engine = runner.Engine(
            in_engine.kept(model, precision),
            in_engine.rules_of(model),
            seed=seed,
            batch_size=batch_size,
        )

    def batch(
        self, sequences: Mapping[int, Sequence[int]], batch: Batch
    ) -> dict[int, list[Output]]:
        """Returns the outputs of the inputs of a batch by their number."""
        found = self([sequences[place] for place in batch.indices])
        return dict(zip(batch.indices, found, strict=True))

    def __call__(self, sequences: Sequence[Sequence[int]]) -> list[list[Output]]:
        """Returns the outputs of inputs, the best first."""
        found = self._engine([one[self._skipped :] for one in sequences], self._options)
        return [
            [Output(self._model.decode(one.ids), one.log_probability) for one in own]
            for own in found
        ]
