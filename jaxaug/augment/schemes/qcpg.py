"""Quality-controlled paraphrase generation (Bandel et al., 2022)."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import one_of
from jaxaug.models.named import catalogue
from jaxaug.models.text import registry
from jaxaug.models.text.registry import TextModel
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.decoder import Decoder
from jaxaug.paraphrase.literals import keeping

KINDS = ("sentences", "questions", "captions")

GRID: tuple[Mapping[str, int], ...] = tuple(
    {"semantic": semantic, "lexical": lexical, "syntactic": syntactic}
    for semantic, lexical, syntactic in itertools.product(
        (80, 95), (30, 50, 70), (20, 50)
    )
)
"""Settings of the controls, in hundredths.

They are the similarity of the meaning and the difference of the words and the syntax.
Coca et al. (2023) do not give their settings.
"""


@keeping
def candidates(
    texts: Sequence[str],
    *,
    kind: str = "sentences",
    grid: Sequence[Mapping[str, int]] = GRID,
    num: int = 1,
    beams: int = 4,
    seed: int = 0,
    batch_size: int = 32,
    max_length: int = 64,
) -> list[list[str]]:
    """Returns paraphrases of each text for each setting, without repetitions.

    Args:
        texts: texts in English.
        kind: training data of the model, one of `KINDS`.
        grid: settings, each with values for "semantic", "lexical", and "syntactic";
            missing ones have the default of `jaxaug.models.named.catalogue`.
        num: outputs for each setting, the best of the beam.
        beams: width of the beam.
        seed: seed of all random draws (beam search has none).
        batch_size: texts that are decoded together.
        max_length: maximum tokens per output, including EOS.

    Returns:
        For each text, up to `num` times the number of settings, in their order.

    Raises:
        UserError: a kind or control is unknown, the model was not trained on a value,
            there are more outputs than beams, or the model is not on this machine.
    """
    named = _named(kind)
    if not grid:
        raise UserError(
            "QCPG: the grid of controls is empty. Give one setting or more."
        )
    if not 1 <= num <= beams:
        raise UserError(
            f"num={num} outputs of beams={beams}: give a number from 1 to beams."
        )
    prefixes = [named.input("", **controls) for controls in grid]
    model = _model(named.name)
    sampler = samplers.find("beam")
    decoder = Decoder(
        model,
        sampler.build(beams, sampler.complete({})),
        num=beams,
        max_length=max_length,
        seed=seed,
        batch_size=batch_size,
    )
    found: list[dict[str, None]] = [{} for _ in texts]
    for prefix in prefixes:
        before = registry.control_tokens(model.input_vocabulary, prefix, model.label)
        # `encode` puts the default controls first.
        own = [model.encode(text)[len(model.first) :] for text in texts]
        rows = decoder([[*before, *tokens] for tokens in own])
        for known, outputs in zip(found, rows, strict=True):
            known |= dict.fromkeys(one.text for one in outputs[:num] if one.text)
    return [list(outputs) for outputs in found]


NAMES = ()


def models(options: Mapping[str, Any]) -> list[str]:
    return [_named(options["kind"]).name]


def most(options: Mapping[str, Any]) -> int:
    return options["num"] * len(options["grid"])


def _named(kind: str) -> catalogue.Named:
    if kind not in KINDS:
        raise UserError(f"QCPG has no kind {kind!r}: {one_of(kind, KINDS)}")
    return catalogue.find(f"qcpg-{kind}")


@functools.cache
def _model(name: str) -> TextModel:
    model = registry.load(name)
    assert isinstance(model, TextModel)
    return model
