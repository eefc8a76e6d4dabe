"""`jaxaug levels`: paraphrases of the lines of a file, by level of difficulty.

Algorithm 2 of Lu and Lam (2023): candidates from bottom-k sampling, which gives the
hard ones, and from top-k with top-p; the filter of equation 3; so many of each sampler
(appendix A); levels of equation 4.
"""

import argparse
import dataclasses
import functools
import json
import math
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from jaxaug.core import buckets, cache_folder, compiled, typed
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, write_text
from jaxaug.core.publishing import replacing
from jaxaug.core.shards import Shards, Stage
from jaxaug.curriculum import difficulty, levels, notes, quotas, told
from jaxaug.curriculum import scorers as measures
from jaxaug.curriculum.difficulty import BETAS, FLOORS, LEVELS, kept
from jaxaug.curriculum.quotas import Candidate
from jaxaug.data import tables
from jaxaug.models.named import catalogue
from jaxaug.models.text import prompts
from jaxaug.paraphrase import candidates, generation, version

Paraphrase = Callable[[int, generation.Setting, Sequence[str]], list[list[str]]]
"""(number of the round, setting, texts) -> outputs of each text."""

AUTO, NONE = "auto", "none"
BLEURTS, IMPLICATION = ("bleurt-base-128", "bleurt-20"), "roberta-mi"
"""BLEURTs from the one on whose scale the paper's scores are, and its implication."""
_FOLDER = "levels"


@dataclasses.dataclass(frozen=True)
class Options:
    """How levels are made; the defaults are the paper's where it gives a number.

    Attributes:
      model: that paraphrases; see `jaxaug.models.text.registry.load`.
      prompt: of a language model; None is its default.
      quota: sampler -> paraphrases of a text that are kept of it; see `quotas`.
      oversample: outputs of each sampler, as a multiple of its quota.
      rounds: how often a sampler is asked about a text while its quota is not full.
      bottom_k: tokens that bottom-k removes.
      bottom_steps: how many steps it does so.
      top_k: of bottom-k after its steps, and of top-k with top-p.
      top_p: likewise.
      max_length: tokens of an output at most, EOS included.
      precision: of the model's weights; see `jaxaug.models.text.precision`.
      similarity: encoder of sentences, or BLEURT, that says how similar two texts are;
        `auto` is the first of `BLEURTS` that is on this machine, else MiniLM.
      implication: model of entailment; `auto` is the paper's where it is on this
        machine, `none` is M = 0 in equation 3.
      beta: least similarity of what is not implied, on the scale of `similarity`. None:
        see `BETAS`; without a model of implication `FLOORS`.
      levels: C.
      seed: of everything that is random.
    """

    model: str
    prompt: str | None = None
    quota: Mapping[str, int] = dataclasses.field(
        default_factory=lambda: dict(quotas.PAPER)
    )
    oversample: int = 3
    rounds: int = 3
    bottom_k: int = 2
    bottom_steps: int = 1
    top_k: int = 120
    top_p: float = 0.95
    max_length: int = 48
    precision: str = "float32"
    similarity: str = AUTO
    implication: str = AUTO
    beta: float | None = None
    levels: int = LEVELS
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("oversample", "rounds", "levels"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} is {getattr(self, name)}: give at least 1.")
        quotas.check(self.quota)
        typed.check_seed(self.seed, "--seed")
        if self.beta is not None and not math.isfinite(self.beta):
            raise UserError(f"--beta is {self.beta}: give a finite number.")

    @property
    def settings(self) -> list[generation.Setting]:
        """The samplers that give any candidates, in the order of their quotas."""
        removed = {"k": self.bottom_k, "n_steps": self.bottom_steps}
        blocks = {
            "bottom_k": removed | {"then_k": self.top_k, "then_p": self.top_p},
            "top_k_top_p": {"k": self.top_k, "p": self.top_p},
            "sampling": {},
        }
        return generation.grid(
            {
                "model": self.model,
                "sampler": sampler,
                "num": number * self.oversample,
                "options": blocks[sampler],
                "prompt": self.prompt,
                "max_length": self.max_length,
                "precision": self.precision,
            }
            for sampler, number in self.quota.items()
            if number
        )


def resolved(options: Options) -> Options:
    """The options with `auto` and no beta replaced by what they stand for here.

    Raises:
      UserError: beta is no value of the similarity, or that is not on this machine.
    """
    similarity, implication = options.similarity, options.implication
    if similarity == AUTO:
        here = [name for name in BLEURTS if catalogue.find(name).on_disk]
        similarity = here[0] if here else "minilm"
    if implication == AUTO:
        implication = IMPLICATION if catalogue.find(IMPLICATION).on_disk else NONE
    scale, beta = measures.scale(similarity), options.beta
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


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug levels --help`."""
    compiled.keep_programs()
    names = {field.name for field in dataclasses.fields(Options)} - {"quota"}
    given = {name: getattr(arguments, name) for name in names}
    options = Options(quota=quotas.parse(arguments.quota), **given)
    print(
        write(
            arguments.input,
            arguments.out,
            options,
            arguments.shard_size,
            arguments.column,
        )
    )
    return 0


def write(
    input_path: PathLike,
    out: PathLike,
    options: Options,
    shard_size: int = 16,
    column: str | None = None,
) -> str:
    """Writes the levels of the texts of a file, once.

    The candidates are kept in shards in the cache folder: a run that is stopped loses
    one shard at most, and another one that differs in what follows them uses them
    again. `<out>.json` notes what the file was made of, and its digest.

    Args:
      input_path: see `jaxaug.data.tables.read`; blank texts and repetitions are left
        out.
      out: see `levels.write`.
      options: see there.
      shard_size: texts of a shard.
      column: of the texts; None is `text`, or the only column.

    Returns:
      What was done, to be printed.

    Raises:
      UserError: an argument, the input or a model is wrong, or `out` was made of
        something else or changed since.
    """
    options = resolved(options)
    rows = tables.read_texts(input_path, column)
    texts = list(dict.fromkeys(text for text in rows if text.strip()))
    made_of = _made_of(options, texts)
    target = epath.Path(out).expanduser()
    note = epath.Path(f"{target}.json")
    if target.is_file():
        notes.check_same(target, note, made_of)
        return f"{out}: is complete, nothing to do."
    if note.exists():
        notes.check_ours(target, note)
    check_writable(target)
    found, summary = make(
        texts,
        options,
        lambda number, *asked: generation.Paraphraser(_seed(options, number))(*asked),
        measures.load(
            options.similarity,
            "" if options.implication == NONE else options.implication,
        ),
        Shards(cache_folder.cache_dir() / _FOLDER, shard_size),
    )
    # The note comes first: nobody could tell what a file without one was made of.
    with replacing(target) as written:
        levels.write(written, found)
        noted = made_of | {"digest": file_digest(written)}
        write_text(note, json.dumps(noted, indent=2) + "\n")
    return f"{out}: {summary}"


def _made_of(options: Options, texts: Sequence[str]) -> dict[str, Any]:
    """The options, and what levels depend on beside them: models by what they are."""
    return dataclasses.asdict(options) | {
        "models": {
            "paraphrases": options.settings[0].key()["model"],
            "similarity": measures.identity(options.similarity),
            "implication": None
            if options.implication == NONE
            else measures.identity(options.implication),
        },
        "prompt_text": options.prompt and list(prompts.find(options.prompt)),
        "code": code_digest(
            levels, difficulty, quotas, candidates, sys.modules[__name__]
        )
        + version.of_outputs(),
        "texts": digest_of(texts),
    }


def make(
    texts: Sequence[str],
    options: Options,
    paraphrase: Paraphrase,
    scorers: measures.Scorers,
    shards: Shards,
) -> tuple[list[levels.Levelled], str]:
    """The levels of each text, and a summary to be printed.

    Of the outputs, copies of the text and what differs from another one in case alone
    are left out, and equation 3 is applied to the others. A sampler that has not filled
    its quota of a text is asked again, up to `rounds` times. Then each quota is drawn
    from what passed.
    """
    found: list[list[Candidate]] = [[] for _ in texts]
    asked: Counter[str] = Counter()
    for number in range(options.rounds):
        wanted = [_wanted(number, options, own) for own in found]
        if not any(wanted):
            break
        for own_wanted in wanted:
            asked.update(own_wanted)
        outputs = _outputs(
            number,
            texts,
            wanted,
            options,
            functools.partial(paraphrase, number),
            shards,
        )
        new = [
            quotas.distinct(text, given, (one.text for one in own))
            for text, given, own in zip(texts, outputs, found, strict=True)
        ]
        judged = iter(_judged(texts, new, options, scorers))
        for own, group in zip(found, new, strict=True):
            own += [next(judged) for _ in group]
    items = []
    for text, candidates_of in zip(texts, found, strict=True):
        drawn = quotas.chosen(text, options.quota, candidates_of, options.seed)
        items.append(
            levels.levelled(
                text,
                [one.text for one in drawn],
                [one.similarity for one in drawn],
                options.levels,
            )
        )
    return items, told.summary(items, found, options, asked)


def _seed(options: Options, number: int) -> int:
    """Of a round: other draws from the second one on."""
    return zlib.crc32(f"{options.seed} {number}".encode()) if number else options.seed


def _wanted(
    number: int, options: Options, found: Sequence[Candidate]
) -> dict[str, int]:
    """Sampler -> outputs that a round asks of it, of those that lack paraphrases.

    After the first round a few more than are missing, of few numbers: each is a program.
    """
    missing = quotas.lacking(options.quota, found)
    first = {name: options.quota[name] * options.oversample for name in missing}
    if not number:
        return first
    again = {
        n: buckets.power_of_two(m * options.oversample, 4) for n, m in missing.items()
    }
    return {name: min(again[name], first[name]) for name in missing}


def _outputs(
    number: int,
    texts: Sequence[str],
    wanted: Sequence[Mapping[str, int]],
    options: Options,
    paraphrase: Callable[[generation.Setting, Sequence[str]], list[list[str]]],
    shards: Shards,
) -> list[dict[str, list[str]]]:
    """Of each text, sampler -> the outputs that are wanted of it in a round."""
    found: list[dict[str, list[str]]] = [{} for _ in texts]
    shards.plan(
        ("candidates", sum(s.sampler in own for own in wanted))
        for s in options.settings
    )
    for setting in options.settings:
        sampler = setting.sampler
        for num in sorted({own[sampler] for own in wanted if sampler in own}):
            places = [i for i, own in enumerate(wanted) if own.get(sampler) == num]
            asked = dataclasses.replace(setting, num=num)
            # By itself, so that runs with other quotas of other samplers use it again.
            stage = Stage(
                "candidates",
                [_seed(options, number), asked.key()],
                functools.partial(paraphrase, asked),
                f"paraphrases ({sampler})",
            )
            outputs = shards.run(stage, [texts[place] for place in places])
            for place, given in zip(places, outputs, strict=True):
                found[place][sampler] = given
    return found


def _judged(
    texts: Sequence[str],
    new: Sequence[Sequence[tuple[str, str]]],
    options: Options,
    scorers: measures.Scorers,
) -> list[Candidate]:
    """The (paraphrase, sampler) of all texts, in a row, with what equation 3 says."""
    flat = [(t, *one) for t, own in zip(texts, new, strict=True) for one in own]
    if not flat:
        return []
    both = [(text, paraphrase) for text, paraphrase, _ in flat]
    similarity = np.asarray(scorers.similarity(both))
    implied = np.zeros(len(both), np.bool_)
    if scorers.implied is not None:
        implied = np.asarray(scorers.implied(both))
    passed = np.ones(len(both), np.bool_)
    if options.beta is not None:
        passed = kept(implied, similarity, options.beta)
    return [
        Candidate(text, sampler, *judgement)
        for (_, text, sampler), *judgement in zip(
            flat, similarity.tolist(), implied.tolist(), passed.tolist(), strict=True
        )
    ]
