"""Back-translation: into another language and back, by Marian models."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.generation import Paraphraser, Setting

PIVOTS: Mapping[int, tuple[str, ...]] = {
    3: ("zh", "ko", "ja"),
    5: ("zh", "ko", "ja", "fr", "ru"),
}
"""The languages of Coca et al. (2023), by number; each has two named models."""


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
    """Texts that came back from each pivot language, without repetitions.

    Args:
      texts: in English.
      pivots: a key of `PIVOTS`, or languages.
      num: texts that come back from each language, the best of the beam.
      beams: width of the beam, there and back.
      models: language -> (model into it, model from it), see
        `jaxaug.models.text.registry.load`; others are `marian-en-XX` and `marian-XX-en`.
      seed: of everything that is random (beam search is not).
      batch_size: outputs that are decoded together.
      max_length: tokens of an output at most, EOS included.

    Returns:
      For each text up to `num` times the number of languages, in the order of the
      languages, copies of the text itself included; fewer where languages agree or a
      model gave nothing.

    Raises:
      UserError: no such number of pivots, more outputs than beams, or a model is not
        on this machine.
    """
    languages = _languages(pivots)
    if not 1 <= num <= beams:
        raise UserError(
            f"num={num} outputs of beams={beams}: give 1 to as many as there are beams."
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
"""Options that name models and nothing else."""


def models(options: Mapping[str, Any]) -> list[str]:
    """The models that `candidates` uses with these options, all of them."""
    languages = _languages(options["pivots"])
    pairs = [_pair(language, options["models"]) for language in languages]
    return [name for pair in pairs for name in pair]


def most(options: Mapping[str, Any]) -> int:
    """Outputs of a text that `candidates` gives with these options, at most."""
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
