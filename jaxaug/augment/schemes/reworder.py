"""Samples by a model that was trained on the corpus of rewordings, one grade a prompt.

The prompts come from `jaxaug.data.rewordings`. CTranslate2 decodes if it is
installed, else JAX.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.augment.descriptions import words_of
from jaxaug.augment.judge import likelihood
from jaxaug.core.errors import UserError
from jaxaug.data.rewordings import GRADES, Source
from jaxaug.paraphrase import engine, literals, samplers
from jaxaug.paraphrase.decoder import Decoder, Output
from jaxaug.paraphrase.engine import EngineDecoder
from jaxaug.paraphrase.literals import Piece

_SAMPLER = "top_k_top_p"

Item = str | tuple[str, Mapping[str, Any]] | list[Any]
"""A text, or a text and its context; see `descriptions.with_contexts`."""


def candidates(
    items: Sequence[Item],
    *,
    model: str = "rewording-paraphraser",
    num: int = 8,
    best: int = 4,
    grades: Sequence[int] = GRADES,
    temperature: float = 0.5,
    p: float = 0.95,
    k: int = 40,
    seed: int = 0,
    batch_size: int = 64,
    max_length: int = 64,
) -> list[list[str]]:
    """Returns rewordings of each text.

    Of the outputs of a grade, the most probable ones are more often faithful.

    Args:
        items: texts of a schema with their contexts, or sentences without.
        model: name of the model.
        num: outputs that are drawn for each grade.
        best: outputs of each grade that are returned, the most probable
            ones.
        grades: grades, from 1 (near the text) to 5 (far from it).
        temperature: divisor of the logits.
        p: probability mass of the tokens to draw from.
        k: number of the tokens to draw from.
        seed: seed of all random draws.
        batch_size: outputs that are decoded together.
        max_length: maximum tokens per output, including the end.

    Returns:
        Distinct outputs that keep the literals of their text, by grade.

    Raises:
        UserError: the model is no language model or not on this machine, or a number is
            out of range.
    """
    unknown = [grade for grade in grades if grade not in GRADES]
    if unknown or not grades:
        raise UserError(f"grades={[*grades]}: give grades from 1 to {GRADES[-1]}.")
    pairs = [(item, {}) if isinstance(item, str) else item for item in items]
    frames = [literals.framed(text) for text, _ in pairs]
    asked = [
        _source(piece.source, context).prompt(grade)
        for frame, (_, context) in zip(frames, pairs, strict=True)
        for piece in frame.pieces
        for grade in grades
    ]
    options = {"k": k, "p": p, "temperature": temperature}
    drawn = iter(_drawn(model, asked, options, num, max_length, batch_size, seed))
    found = []
    for frame, (_, context) in zip(frames, pairs, strict=True):
        outputs = [
            [text for _ in grades for text in _best(piece, next(drawn), best)]
            for piece in frame.pieces
        ]
        texts = [new.text for new in frame.written(outputs)]
        is_name = str(context.get("kind", "")).endswith("name")
        found.append([words_of(text) for text in texts] if is_name else texts)
    return found


def _best(piece: Piece, drawn: Sequence[Output], best: int) -> list[str]:
    """Returns the most probable distinct outputs, with masks for the literals."""
    order = sorted(drawn, key=lambda one: -one.log_probability)
    texts = dict.fromkeys(piece.hide(one.text) for one in order if one.text)
    return [text for text in texts if piece.restored(text) is not None][:best]


def _source(text: str, context: Mapping[str, Any]) -> Source:
    """Returns the source of a piece of a text."""
    if not context:
        return Source("sentence", text)
    kind, _, name = str(context["kind"]).partition(" ")
    if name:
        return Source("name", context["name"], siblings=context["names"])
    if kind == "service":
        return Source(kind, text)
    siblings = context["names"] if kind == "slot" else ()
    return Source(kind, text, context["name"], context["description"], siblings)


def _drawn(
    name: str,
    asked: Sequence[str],
    options: Mapping[str, Any],
    num: int,
    max_length: int,
    batch_size: int,
    seed: int,
) -> list[list[Output]]:
    """Returns `num` outputs of each prompt."""
    model = likelihood.load(name)
    sequences = [model.vocabulary.encode(text) for text in asked]
    sampler = samplers.find(_SAMPLER)
    options = sampler.complete(options)
    decode_fn = sampler.build(num, options)  # Refuses options out of range.
    shared: Any = {"seed": seed, "batch_size": max(1, batch_size // num)}
    decoder: Decoder | EngineDecoder
    if importlib.util.find_spec("ctranslate2") is None:
        decoder = Decoder(model, decode_fn, num=num, max_length=max_length, **shared)
    else:
        # A new decoder draws from the seed on, so the outputs depend on these prompts
        # alone.
        search = engine.search(_SAMPLER, options, num=num, max_length=max_length)
        decoder = EngineDecoder(model, search, precision=likelihood.PRECISION, **shared)
    return decoder(sequences) if sequences else []


IN_SCHEMA = True
"""`candidates` takes texts with their context."""

NAMES = ("batch_size",)


def models(options: Mapping[str, Any]) -> list[str]:
    return [options["model"]]


def most(options: Mapping[str, Any]) -> int:
    return options["best"] * len(options["grades"])
