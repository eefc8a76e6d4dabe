"""`jaxaug levels`: paraphrases of the lines of a file, by level of difficulty.

Algorithm 1 of Lu and Lam (2023): candidates from bottom-k sampling, which gives the
hard ones, and from top-k with top-p; the filter of equation 3; levels of equation 4.
"""

import argparse
import dataclasses
import functools
import json
import math
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from jaxtyping import Bool, Float

from jaxaug.core import cache_folder, typed
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text
from jaxaug.core.publishing import replacing
from jaxaug.core.shards import Shards, Stage
from jaxaug.curriculum import difficulty, levels
from jaxaug.curriculum.difficulty import BETA, LEVELS, kept
from jaxaug.models.named import identities
from jaxaug.models.text import prompts
from jaxaug.paraphrase import candidates, generation, version
from jaxaug.paraphrase.run import read_lines

Pairs = Sequence[tuple[str, str]]
Paraphrase = Callable[[generation.Setting, Sequence[str]], list[list[str]]]

_FOLDER = "levels"
# Options that name something which is noted by what it is.
_NAMES = ("model", "prompt", "similarity", "implication")


@dataclasses.dataclass(frozen=True)
class Options:
    """How levels are made; the defaults are the paper's where it gives a number.

    Attributes:
      model: that paraphrases; see `jaxaug.models.text.registry.load`.
      prompt: of a language model; None is its default.
      candidates: outputs of each text, equal ones included.
      bottom_share: share of them from bottom-k; the others are from top-k with top-p.
      bottom_k: tokens that bottom-k removes.
      bottom_steps: how many steps it does so.
      top_k: of both samplers, of bottom-k after its steps.
      top_p: likewise.
      max_length: tokens of an output at most, EOS included.
      similarity: encoder of sentences, or BLEURT, that says how similar two texts are.
      implication: model of entailment; None is M = 0 in equation 3.
      beta: least similarity of what is not implied.
      keep: paraphrases of a text at most.
      levels: C.
      seed: of everything that is random.
    """

    model: str
    prompt: str | None = None
    candidates: int = 60
    bottom_share: float = 0.5
    bottom_k: int = 2
    bottom_steps: int = 1
    top_k: int = 120
    top_p: float = 0.95
    max_length: int = 48
    similarity: str = "minilm"
    implication: str | None = None
    beta: float = BETA
    keep: int = 20
    levels: int = LEVELS
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("candidates", "keep", "levels"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} is {getattr(self, name)}: give at least 1.")
        typed.check_seed(self.seed, "--seed")
        if not math.isfinite(self.beta):
            raise UserError(f"--beta is {self.beta}: give a finite number.")
        if not 0 <= self.bottom_share <= 1:
            raise UserError(
                f"--bottom_share is {self.bottom_share}: it is the share of bottom-k "
                "among the candidates, 0 to 1."
            )

    @property
    def settings(self) -> list[generation.Setting]:
        """The samplers that give any candidates."""
        bottom = round(self.candidates * self.bottom_share)
        removed = {"k": self.bottom_k, "n_steps": self.bottom_steps}
        blocks = {
            "bottom_k": removed | {"then_k": self.top_k, "then_p": self.top_p},
            "top_k_top_p": {"k": self.top_k, "p": self.top_p},
        }
        numbers = {"bottom_k": bottom, "top_k_top_p": self.candidates - bottom}
        return generation.grid(
            {
                "model": self.model,
                "sampler": sampler,
                "num": numbers[sampler],
                "options": options,
                "prompt": self.prompt,
                "max_length": self.max_length,
            }
            for sampler, options in blocks.items()
            if numbers[sampler]
        )


class Scorers(NamedTuple):
    """What equations 3 and 4 ask of the pairs (text, paraphrase).

    Attributes:
      similarity: G.
      implied: M; None is no model of implication.
    """

    similarity: Callable[[Pairs], Float[np.ndarray, " pairs"]]
    implied: Callable[[Pairs], Bool[np.ndarray, " pairs"]] | None = None


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug levels --help`."""
    names = [field.name for field in dataclasses.fields(Options)]
    options = Options(**{name: getattr(arguments, name) for name in names})
    print(write(arguments.input, arguments.out, options, arguments.shard_size))
    return 0


def write(
    input_path: PathLike, out: PathLike, options: Options, shard_size: int = 16
) -> str:
    """Writes the levels of the lines of a file, once.

    The candidates are kept in shards in the cache folder: a run that is stopped loses
    one shard at most, and another one that differs in what follows them uses them
    again. `<out>.json` notes what the file was made of, and its digest.

    Args:
      input_path: text file with one text a line; a text that comes again is left out.
      out: see `levels.write`.
      options: see there.
      shard_size: texts of a shard.

    Returns:
      What was done, to be printed.

    Raises:
      UserError: an argument, the input or a model is wrong, or `out` was made of
        something else or changed since.
    """
    texts = list(dict.fromkeys(read_lines(input_path)))
    made_of = _made_of(options, texts)
    note = epath.Path(f"{epath.Path(out)}.json")
    if epath.Path(out).exists():
        _check_same(out, note, made_of)
        return f"{out}: is complete, nothing to do."
    if note.exists():
        _check_note(out, note)
    found, summary = make(
        texts,
        options,
        generation.Paraphraser(options.seed),
        load_scorers(options),
        Shards(cache_folder.cache_dir() / _FOLDER, shard_size),
    )
    # The note comes first: nobody could tell what a file without one was made of.
    with replacing(out) as written:
        levels.write(written, found)
        noted = made_of | {"digest": file_digest(written)}
        write_text(note, json.dumps(noted, indent=2) + "\n")
    return f"{out}: {summary}"


def _made_of(options: Options, texts: Sequence[str]) -> dict[str, Any]:
    """The options, and what levels depend on beside them: models by what they are."""
    return dataclasses.asdict(options) | {
        "models": {
            "paraphrases": options.settings[0].key()["model"],
            "similarity": scorer_identity(options.similarity),
            "implication": options.implication and scorer_identity(options.implication),
        },
        "prompt_text": options.prompt and list(prompts.find(options.prompt)),
        "code": code_digest(levels, difficulty, candidates, sys.modules[__name__])
        + version.of_outputs(),
        "texts": digest_of(texts),
    }


def scorer_identity(name: str) -> str:
    """What stands for an encoder; raises `UserError` if it is not on this machine."""
    from jaxaug.models.scorers import encoder

    return identities.of_folder(encoder.folder_of(name))


def _check_same(out: PathLike, note: epath.Path, made_of: dict[str, Any]) -> None:
    fix = f"Remove {out}, or name another --out."
    found = read_json(note, fix)
    noted = found if isinstance(found, dict) else {}
    for name, value in made_of.items():
        if name not in _NAMES and noted.get(name) != value:
            raise UserError(
                f"{out}: was made with {name} {json.dumps(noted.get(name))}, this run "
                f"has {json.dumps(value)}. {fix}"
            )
    if noted.get("digest") != file_digest(out):
        raise UserError(f"{out}: has changed since it was written. {fix}")


def _check_note(out: PathLike, note: epath.Path) -> None:
    """A run that stopped between its two files may have left a note, nobody else."""
    fix = f"Name another --out: beside {out} its note would be written there."
    found = read_json(note, fix)
    if not isinstance(found, dict) or not {"texts", "models"} <= found.keys():
        raise UserError(f"{note}: is no note of `jaxaug levels`. {fix}")


def make(
    texts: Sequence[str],
    options: Options,
    paraphrase: Paraphrase,
    scorers: Scorers,
    shards: Shards,
) -> tuple[list[levels.Levelled], str]:
    """The levels of each text, and a summary to be printed.

    Of the candidates, the text itself and what differs from another one in case alone
    are left out; then equation 3 is applied; then `keep` of them are drawn, so that
    hard ones stay as frequent as they are.
    """
    stage = Stage(
        "candidates",
        [options.seed, *(setting.key() for setting in options.settings)],
        lambda block: _outputs(block, options, paraphrase),
        "paraphrases",
    )
    found = []
    for text, outputs in zip(texts, shards.run(stage, list(texts)), strict=True):
        distinct = [c.text for c in candidates.merged(text, [("", outputs)])]
        found.append([t for t in distinct if t and t.casefold() != text.casefold()])
    pairs = [(t, c) for t, group in zip(texts, found, strict=True) for c in group]
    similarity = np.asarray(scorers.similarity(pairs)) if pairs else np.zeros(0)
    implied = np.zeros(len(pairs), np.bool_)
    if scorers.implied is not None and pairs:
        implied = scorers.implied(pairs)
    good = kept(implied, similarity, options.beta)
    items, start = [], 0
    for text, group in zip(texts, found, strict=True):
        places = start + np.flatnonzero(good[start : start + len(group)])
        start += len(group)
        rng = np.random.default_rng((options.seed, zlib.crc32(text.encode())))
        places = rng.permutation(places)[: options.keep]
        items.append(
            levels.levelled(
                text,
                [pairs[place][1] for place in places],
                similarity[places].tolist(),
                options.levels,
            )
        )
    return items, _summary(items, options, len(pairs), int(good.sum()))


def _outputs(
    texts: Sequence[str], options: Options, paraphrase: Paraphrase
) -> list[list[str]]:
    by_setting = [paraphrase(setting, texts) for setting in options.settings]
    return [
        [output for outputs in of_text for output in outputs]
        for of_text in zip(*by_setting, strict=True)
    ]


def _summary(
    items: Sequence[levels.Levelled], options: Options, distinct: int, good: int
) -> str:
    sizes = [sum(map(len, item.levels[1:])) for item in items]
    empty = sum(not all(item.levels) for item in items)
    return (
        f"{sum(sizes):,} paraphrases of {len(items):,} texts in {options.levels} levels, "
        f"of {len(items) * options.candidates:,} candidates, {distinct:,} distinct ones "
        f"and {good:,} that passed the filter. {sum(s < options.keep for s in sizes):,} "
        f"texts have fewer than {options.keep}; {empty:,} have an empty level, which "
        f"falls back to the next easier one; {sum(not s for s in sizes):,} have none and "
        "stand for themselves."
    )


def load_scorers(options: Options) -> Scorers:
    """The scorers that the options name; their scores are kept in the cache folder.

    Raises:
      UserError: no such model on this machine, or it is made for something else.
    """
    from jaxaug.models.scorers import encoder, pairs
    from jaxaug.models.scorers.store import Store

    store = Store()
    loaded = encoder.load(options.similarity)
    one_output = len(getattr(loaded.config, "labels", ())) == 1
    similarity = (pairs.Bleurt if one_output else pairs.Similarity)(loaded, store)
    if options.implication is None:
        return Scorers(similarity)
    judge = pairs.MutualImplication(encoder.load(options.implication), store)
    return Scorers(similarity, functools.partial(judge.holds))
