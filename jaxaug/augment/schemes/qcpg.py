"""Quality-controlled paraphrase generation (Bandel et al., 2022)."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

from jaxaug.core.buckets import plan
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import one_of
from jaxaug.models.named import catalogue
from jaxaug.models.text import registry
from jaxaug.models.text.registry import TextModel
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.decoder import Decoder

KINDS = ("sentences", "questions", "captions")

GRID: tuple[Mapping[str, int], ...] = tuple(
    {"semantic": semantic, "lexical": lexical, "syntactic": syntactic}
    for semantic, lexical, syntactic in itertools.product(
        (80, 95), (30, 50, 70), (20, 50)
    )
)
"""Settings of the controls, in hundredths: how similar the meaning, how different the
words and the syntax are to be. Coca et al. (2023) do not say theirs."""


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
    """Paraphrases of each text for each setting of the controls, without repetitions.

    Args:
      texts: in English.
      kind: of `KINDS`, what the model was trained on.
      grid: settings, each with values for "semantic", "lexical" and "syntactic";
        those left out have the default of `jaxaug.models.named.catalogue`.
      num: outputs for each setting, the best of the beam.
      beams: width of the beam.
      seed: of everything that is random (beam search is not).
      batch_size: texts that are decoded together.
      max_length: tokens of an output at most, EOS included.

    Returns:
      For each text up to `num` times the number of settings, in their order.

    Raises:
      UserError: no such kind or control, a value that the model was not trained on,
        more outputs than beams, or the model is not on this machine.
    """
    named = _named(kind)
    if not grid:
        raise UserError(
            "QCPG: the grid of controls is empty. Give one setting or more."
        )
    if not 1 <= num <= beams:
        raise UserError(
            f"num={num} outputs of beams={beams}: give 1 to as many as there are beams."
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
    )
    found: list[dict[str, None]] = [{} for _ in texts]
    for prefix in prefixes:
        before = control_tokens(model, prefix)
        # `encode` puts the default controls first.
        own = [model.encode(text)[len(model.first) :] for text in texts]
        sequences = [[*before, *tokens] for tokens in own]
        for batch in plan([len(s) for s in sequences], batch_size):
            rows = decoder([sequences[i] for i in batch.indices], batch)
            for index, outputs in zip(batch.indices, rows, strict=True):
                kept = [output.text for output in outputs[:num] if output.text]
                found[index] |= dict.fromkeys(kept)
    return [list(outputs) for outputs in found]


NAMES = ()
"""Options that name models and nothing else."""


def models(options: Mapping[str, Any]) -> list[str]:
    """The models that `candidates` uses with these options, all of them."""
    return [_named(options["kind"]).name]


def most(options: Mapping[str, Any]) -> int:
    """Outputs of a text that `candidates` gives with these options, at most."""
    return options["num"] * len(options["grid"])


def _named(kind: str) -> catalogue.Named:
    if kind not in KINDS:
        raise UserError(f"QCPG has no kind {kind!r}: {one_of(kind, KINDS)}")
    return catalogue.find(f"qcpg-{kind}")


def control_tokens(model: TextModel, prefix: str) -> list[int]:
    """Ids of control fields, such as `COND_SEMANTIC_SIM_80 COND_LEXICAL_DIV_30`.

    Raises:
      UserError: the tokenizer of the model lacks one.
    """
    words = model.input_vocabulary
    # Not the tokenizer of texts, which reads no special tokens.
    own = tokenizers.Tokenizer.from_str(words.backend.to_str())
    known = own.get_vocab()
    for field in prefix.split():
        if field not in known:
            raise UserError(
                f"{model.label}: its tokenizer does not know the control field "
                f"{field}. Fetch the model again."
            )
    ids = own.encode(prefix, add_special_tokens=False).ids
    return [number + words.id_offset for number in ids]


@functools.cache
def _model(name: str) -> TextModel:
    model = registry.load(name)
    assert isinstance(model, TextModel)
    return model
