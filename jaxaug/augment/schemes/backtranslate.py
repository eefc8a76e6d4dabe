"""Back-translation: into another language and back, by Marian models."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.generation import Paraphraser, Setting
from jaxaug.paraphrase.literals import keeping

PIVOTS: Mapping[int, tuple[str, ...]] = {
    3: ("zh", "ko", "ja"),
    5: ("zh", "ko", "ja", "fr", "ru"),
}
"""The languages of Coca et al. (2023), by number; each has two named models."""


@keeping
def candidates(
    texts: Sequence[str],
    *,
    pivots: int | Sequence[str] = 3,
    num: int = 1,
    beams: int = 4,
    models: Mapping[str, tuple[str, str]] | None = None,
    seed: int = 0,
    batch_size: int = 32,
    max_length: int = 64,
) -> list[list[str]]:
    """Returns texts translated back from each pivot language, without repetitions.

    Args:
        texts: texts in English.
        pivots: a key of `PIVOTS`, or languages.
        num: outputs per language, the best of the beam.
        beams: width of the beam, in both directions.
        models: language -> (model into it, model from it), see
            `jaxaug.models.text.registry.load`; the default is `marian-en-XX` and
            `marian-XX-en`.
        seed: seed of all random draws (beam search has none).
        batch_size: outputs that are decoded together.
        max_length: maximum tokens per output, including EOS.

    Returns:
        For each text, up to `num` times the number of languages, in the order of the
        languages, including copies of the text itself. There are fewer if languages
        agree or a model gives nothing.

    Raises:
        UserError: the number of pivots is unknown, there are more outputs than beams,
            or a model is not on this machine.
    """
    languages = _languages(pivots)
    if not 1 <= num <= beams:
        raise UserError(
            f"num={num} outputs of beams={beams}: give a number from 1 to beams."
        )
    paraphraser = Paraphraser(seed, batch_size)
    options = samplers.find("beam").complete({})
    found: list[dict[str, None]] = [{} for _ in texts]
    for language in languages:
        there, back = _pair(language, models)
        setting = Setting(there, "beam", beams, options, None, max_length)
        pivot = [outputs[0] for outputs in paraphraser(setting, texts)]
        setting = Setting(back, "beam", beams, options, None, max_length)
        for own, outputs in zip(found, paraphraser(setting, pivot), strict=True):
            own |= dict.fromkeys(filter(None, outputs[:num]))
    return [list(own) for own in found]


NAMES = ("models",)


def models(options: Mapping[str, Any]) -> list[str]:
    languages = _languages(options["pivots"])
    pairs = [_pair(language, options["models"]) for language in languages]
    return [name for pair in pairs for name in pair]


def most(options: Mapping[str, Any]) -> int:
    return options["num"] * len(_languages(options["pivots"]))


def _pair(
    language: str, models: Mapping[str, tuple[str, str]] | None
) -> tuple[str, str]:
    default = (f"marian-en-{language}", f"marian-{language}-en")
    return (models or {}).get(language, default)


def _languages(pivots: int | Sequence[str]) -> Sequence[str]:
    if isinstance(pivots, str):
        return (pivots,)
    if not isinstance(pivots, int):
        return pivots
    if pivots not in PIVOTS:
        raise UserError(
            f"pivots={pivots}: there are sets of {' and '.join(map(str, PIVOTS))} "
            "languages. Or name the languages."
        )
    return PIVOTS[pivots]
