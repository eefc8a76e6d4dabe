"""Options of `jaxaug levels`, the settings of generators, and quotas of samplers.

A quota is the number of paraphrases of a text to keep. In Lu and Lam (2023), appendix
A, 4 of the 20 paraphrases per text come from bottom-k (2 for COVID-Q), and the others
from top-k with top-p.
"""

import dataclasses
import functools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import spaced
from jaxaug.curriculum import difficulty
from jaxaug.curriculum.arguments import Levelling
from jaxaug.curriculum.difficulty import BETAS, FLOORS
from jaxaug.models.endpoint.server import is_endpoint
from jaxaug.models.named import catalogue, identities
from jaxaug.paraphrase import candidates, endpoint_grid, generation

Pairs = Sequence[tuple[str, str]]


class Scorers(NamedTuple):
    """Functions of (text, paraphrase) pairs for equations 3 and 4.

    Attributes:
        similarity: G.
        implied: M; None without an implication model.
    """

    similarity: Callable[[Pairs], Float[np.ndarray, " pairs"]]
    implied: Callable[[Pairs], Bool[np.ndarray, " pairs"]] | None = None


def scale_named(similarity: str) -> difficulty.Scale:
    """Returns the scale of a measure, given by name or folder."""
    from jaxaug.models.scorers import encoder
    from jaxaug.models.weights import hf_folder

    if similarity in difficulty.NAMED:
        return difficulty.NAMED[similarity]
    return difficulty.scale_of(hf_folder.read_config(encoder.folder_of(similarity))[2])


def identity(name: str) -> str:
    """Returns the identity of an encoder.

    Raises:
        UserError: the encoder is not on this machine.
    """
    from jaxaug.models.scorers import encoder

    return identities.of_folder(encoder.folder_of(name))


def load(similarity: str, implication: str) -> Scorers:
    """Loads the scorers with these names; their scores are kept in the cache folder.

    Raises:
        UserError: a model is not on this machine, or has another purpose.
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


SAMPLERS = ("bottom_k", "top_k_top_p", "sampling")
PAPER = {"bottom_k": 4, "top_k_top_p": 16}
BEHIND = {"sampling": 20}
"""Default for a model behind an endpoint, which gives texts and no probabilities."""
_EXAMPLE = "bottom_k=4 top_k_top_p=16"


class Candidate(NamedTuple):
    """A candidate paraphrase.

    Attributes:
        text: the paraphrase.
        sampler: sampler that produced it; of two, the one whose quota comes first.
        similarity: similarity to its text.
        implied: whether it and its text imply each other; False without an implication
            model.
        passed: whether it passed the filter.
    """

    text: str
    sampler: str
    similarity: float
    implied: bool
    passed: bool


def parse(texts: Iterable[str]) -> dict[str, int]:
    """Parses quotas such as `bottom_k=4`, in their order.

    Raises:
        UserError: a number is missing, or a sampler is unknown or repeated.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name in found or not re.fullmatch("[0-9]{1,6}", number):
            raise UserError(
                f"--quota {text!r}: write each sampler once, with how many of its "
                f"paraphrases are kept, at most 999999: {_EXAMPLE}."
            )
        found[name] = int(number)
    check(found)
    return found


def check(quota: Mapping[str, int]) -> None:
    """Raises `UserError` for unknown samplers, negative numbers, or all zeros."""
    for name, number in quota.items():
        if name not in SAMPLERS:
            raise UserError(
                f"--quota: {name!r} gives no levels; {suggestion(name, SAMPLERS)}"
            )
        if number < 0:
            raise UserError(f"--quota {name}={number}: give 0 or more.")
    if not any(quota.values()):
        raise UserError(f"--quota: keeps nothing. Give numbers, such as {_EXAMPLE}.")


def distinct(
    text: str, outputs: Mapping[str, Sequence[str]], known: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """Returns the distinct (paraphrase, sampler) pairs of a text.

    It drops copies of the text and of known paraphrases; case and white space are
    ignored.

    Args:
        outputs: sampler -> outputs.
        known: paraphrases that already exist.
    """
    seen = {spaced(one).casefold() for one in (text, "", *known)}
    kept = []
    for found in candidates.merged(text, outputs.items()):
        key = spaced(found.text).casefold()
        if key not in seen:
            kept.append((found.text, found.settings[0]))
            seen.add(key)
    return kept


def lacking(quota: Mapping[str, int], found: Sequence[Candidate]) -> dict[str, int]:
    """Returns the number of missing paraphrases per sampler below its quota."""
    passed = Counter(one.sampler for one in found if one.passed)
    return {n: number - passed[n] for n, number in quota.items() if number > passed[n]}


def chosen(
    text: str, quota: Mapping[str, int], found: Sequence[Candidate], seed: int
) -> list[Candidate]:
    """Returns a random draw of each sampler's quota from the candidates that passed.

    The draw is random, so that hard paraphrases stay as frequent as the sampler makes
    them. It depends on text and seed only.
    """
    rng = np.random.default_rng((seed, zlib.crc32(text.encode())))
    kept = []
    for name, number in quota.items():
        own = [one for one in found if one.passed and one.sampler == name]
        kept += [own[place] for place in rng.permutation(len(own))[:number]]
    return kept


Setting = generation.Setting | endpoint_grid.Setting
AUTO, NONE = "auto", "none"
BLEURTS, IMPLICATION = ("bleurt-base-128", "bleurt-20"), "roberta-mi"
"""BLEURT models in order of preference, and the implication model of the paper.

The first BLEURT has the scale of the paper's scores.
"""


class Options(Levelling):
    """Options of levels, with the quotas and the server.

    Attributes:
        quota: sampler -> number of its paraphrases to keep per text.
        server: of a model behind an endpoint: fields of
            `jaxaug.paraphrase.endpoint_grid.Block`. Such a model has the one sampler
            `sampling`, and none of the options of samplers.
    """

    quota: Mapping[str, int] = dataclasses.field(default_factory=lambda: dict(PAPER))
    server: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.quota)
        others = [n for n, number in self.quota.items() if number and n != "sampling"]
        if is_endpoint(self.model) and others:
            raise UserError(
                f"--quota {others[0]}={self.quota[others[0]]}: {self.model} samples on "
                "its server, which gives no probabilities of tokens. Write --quota "
                f"sampling={sum(self.quota.values())}."
            )

    @property
    def settings(self) -> dict[str, Setting]:
        """Sampler with a positive quota -> its setting, in quota order.

        Raises:
            UserError: an option of a sampler or of the requests is wrong.
        """
        numbers = {n: q * self.oversample for n, q in self.quota.items() if q}
        if is_endpoint(self.model):
            common = {"model": self.model, "prompt": self.prompt, **self.server}
            return {
                sampler: endpoint_grid.Setting.of(common | {"num": number}, "levels")
                for sampler, number in numbers.items()
            }
        removed = {"k": self.bottom_k, "n_steps": self.bottom_steps}
        blocks = {
            "bottom_k": removed | {"then_k": self.top_k, "then_p": self.top_p},
            "top_k_top_p": {"k": self.top_k, "p": self.top_p},
            "sampling": {},
        }
        found = generation.grid(
            {
                "model": self.model,
                "sampler": sampler,
                "num": number,
                "options": blocks[sampler],
                "prompt": self.prompt,
                "max_length": self.max_length,
                "precision": self.precision,
            }
            for sampler, number in numbers.items()
        )
        return {setting.sampler: setting for setting in found}

    @property
    def asked(self) -> endpoint_grid.Setting | None:
        """The setting of a model behind an endpoint, which has only one."""
        for setting in self.settings.values():
            if isinstance(setting, endpoint_grid.Setting):
                return setting
        return None


def resolved(options: Options) -> Options:
    """Replaces `auto` and a missing beta with their values on this machine.

    Raises:
        UserError: beta is outside the range of the similarity, or a model is not on
            this machine.
    """
    similarity, implication = options.similarity, options.implication
    if similarity == AUTO:
        here = [name for name in BLEURTS if catalogue.find(name).on_disk]
        similarity = here[0] if here else "minilm"
    if implication == AUTO:
        implication = IMPLICATION if catalogue.find(IMPLICATION).on_disk else NONE
    scale, beta = scale_named(similarity), options.beta
    if beta is None:
        betas, other = (FLOORS, None) if implication == NONE else (BETAS, scale.beta)
        beta = betas.get(similarity, other)
    elif not scale.least <= beta <= scale.most:
        raise UserError(
            f"--beta is {beta}, but the similarity {similarity} is {scale.name}, from "
            f"{scale.least} to {scale.most}. Give a number in between, or none for the "
            f"default, {BETAS.get(similarity, scale.beta)} with a model of implication."
        )
    return dataclasses.replace(
        options, similarity=similarity, implication=implication, beta=beta
    )
