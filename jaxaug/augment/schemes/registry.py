"""Where candidates come from: one scheme each, as jobs that give outputs of texts."""

import functools
import importlib
import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxaug.augment.config import Config
from jaxaug.augment.schemes import sentences
from jaxaug.core.digests import code_digest, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.shards import Json
from jaxaug.core.suggestion import suggestion


@dataclass(frozen=True)
class Job:
    """A part of the candidates.

    Attributes:
      label: provenance of its outputs.
      key: JSON; everything that the outputs of a text depend on.
      run: texts -> outputs of each.
    """

    label: str
    key: Json
    run: Callable[[Sequence[str]], list[list[str]]]


def paraphrase(
    seed: int, *, grid: Sequence[Mapping[str, Any]], batch_size: int = 64
) -> list[Job]:
    """A model of the registry through a grid of settings.

    Args:
      seed: of everything that is random.
      grid: see `jaxaug.paraphrase.generation.grid`.
      batch_size: outputs that are decoded together.
    """
    # Models bring JAX with them.
    from jaxaug.paraphrase import generation

    paraphraser = generation.Paraphraser(seed, batch_size)
    return [
        Job(
            setting.label,
            {"paraphrase": setting.key(), "seed": seed},
            functools.partial(paraphraser, setting),
        )
        for setting in generation.grid(grid)
    ]


def sentence(seed: int, *, method: str, num: int, **options: Any) -> list[Job]:
    """A method on sentences, such as EDA, several times on each text.

    Args:
      seed: of everything that is random.
      method: a name of `sentences.METHODS`.
      num: outputs of each text.
      **options: of the method.
    """
    if method not in sentences.METHODS:
        raise UserError(
            f"method {method!r} is no method on sentences; "
            f"{suggestion(method, sentences.METHODS)}"
        )
    chosen = sentences.METHODS[method]

    def run(texts: Sequence[str]) -> list[list[str]]:
        return [
            [
                chosen(text, np.random.default_rng([seed, _number(text), i]), **options)
                for i in range(num)
            ]
            for text in texts
        ]

    key = {"sentence": method, "num": num, "options": options, "seed": seed}
    # Quick to compute, so that changed code need not spare what was computed before.
    key["code"] = code_digest("jaxaug.augment", "jaxaug.paraphrase")
    return [Job(method, key, run)]


def from_module(module: str, seed: int, **options: Any) -> list[Job]:
    """A module of `jaxaug.augment` with `candidates(texts, *, seed, ...)`.

    Args:
      module: its name.
      seed: of everything that is random.
      **options: of `candidates`.
    """
    found = importlib.import_module(f"jaxaug.augment.schemes.{module}")
    inspect.signature(found.candidates).bind((), seed=seed, **options)
    assert found.__file__ is not None
    key = {module: options, "seed": seed, "code": file_digest(found.__file__)}
    run = functools.partial(found.candidates, seed=seed, **options)
    return [Job(module, key, run)]


def given(seed: int, *, folder: str) -> list[Job]:
    """No candidates: the variants of a folder, which the run reads by itself.

    Args:
      seed: changes nothing.
      folder: with `v1..vK/<split>/schema.json`, or `sgdx`.
    """
    del seed, folder
    return []


SCHEMES: Mapping[str, Callable[..., list[Job]]] = {
    "paraphrase": paraphrase,
    "sentence": sentence,
    "backtranslate": functools.partial(from_module, "backtranslate"),
    "qcpg": functools.partial(from_module, "qcpg"),
    "contextual": functools.partial(from_module, "contextual"),
    "given": given,
}
"""Name -> (seed, options by keyword) -> jobs."""


def jobs(config: Config) -> list[Job]:
    """The jobs of a run.

    Raises:
      UserError: no such scheme, or its options are wrong.
    """
    if config.scheme not in SCHEMES:
        raise UserError(
            f"{config.scheme!r} is no scheme; {suggestion(config.scheme, SCHEMES)}"
        )
    try:
        return SCHEMES[config.scheme](config.seed, **config.options)
    except TypeError as error:
        raise UserError(
            f"scheme {config.scheme!r} cannot be made with {dict(config.options)}: "
            f"{error}. Correct the options."
        ) from error


def _number(text: str) -> int:
    return zlib.crc32(text.encode())
