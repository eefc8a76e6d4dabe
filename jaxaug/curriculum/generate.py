"""`jaxaug levels`: paraphrases of the lines of a file, by level of difficulty.

It implements algorithm 2 of Lu and Lam (2023). Candidates come from bottom-k sampling,
which gives the hard ones, and from top-k with top-p. They pass the filter of equation
3, then the quotas of the samplers (appendix A), and get levels by equation 4.
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
"""Maps (number of the round, setting, texts) to the outputs of each text."""

AUTO, NONE = "auto", "none"
BLEURTS, IMPLICATION = ("bleurt-base-128", "bleurt-20"), "roberta-mi"
"""BLEURT models in order of preference, and the implication model of the paper.

The first BLEURT has the scale of the paper's scores.
"""
_FOLDER = "levels"


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of levels; the defaults follow the paper if it gives a number.

    Attributes:
        model: paraphrasing model; see `jaxaug.models.text.registry.load`.
        prompt: prompt of a language model; None means its default.
        quota: sampler -> number of its paraphrases to keep per text; see `quotas`.
        oversample: outputs of each sampler, as a multiple of its quota.
        rounds: maximum number of rounds to fill the quotas of a text.
        bottom_k: number of tokens that bottom-k removes.
        bottom_steps: number of steps in which bottom-k applies.
        top_k: top-k of bottom-k after its steps, and of top-k with top-p.
        top_p: top-p of both.
        max_length: maximum number of tokens per output, EOS included.
        precision: precision of the model's weights; see `jaxaug.models.text.precision`.
        similarity: sentence encoder or BLEURT that measures the similarity of two
            texts. `auto` is the first of `BLEURTS` on this machine, else MiniLM.
        implication: entailment model. `auto` is the paper's model if it is on this
            machine; `none` sets M = 0 in equation 3.
        beta: minimum similarity of paraphrases that are not implied, on the scale of
            `similarity`. None uses `BETAS`, or `FLOORS` without an implication model.
        levels: C.
        seed: seed of all random draws.
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
        """Settings of the samplers with a positive quota, in quota order."""
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
    """Runs the verb; see `jaxaug levels --help`."""
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

    Candidates are kept in shards in the cache folder. An interrupted run loses at most
    one shard, and a run with the same candidates but other later options reuses them.
    `<out>.json` records the origin of the file and its digest.

    Args:
        input_path: see `jaxaug.data.tables.read`; blank and repeated texts are skipped.
        out: see `levels.write`.
        options: options of the run.
        shard_size: texts per shard.
        column: column of the texts; None means `text`, or the only column.

    Returns:
        A summary for printing.

    Raises:
        UserError: an argument, the input, or a model is wrong, or `out` has another
            origin or has changed.
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
    # The note comes first, because the origin of a file without a note is unknown.
    with replacing(target) as written:
        levels.write(written, found)
        noted = made_of | {"digest": file_digest(written)}
        write_text(note, json.dumps(noted, indent=2) + "\n")
    return f"{out}: {summary}"


def _made_of(options: Options, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the options and all other dependencies; models are given by identity."""
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
    """Returns the levels of each text, and a summary for printing.

    Copies of the text, and outputs that differ from others only in case, are dropped.
    Equation 3 is applied to the rest. A sampler whose quota of a text is not full is
    asked again, for up to `rounds` rounds. Then each quota is drawn from the outputs
    that passed.
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
    """Returns the seed of a round; rounds after the first draw differently."""
    return zlib.crc32(f"{options.seed} {number}".encode()) if number else options.seed


def _wanted(
    number: int, options: Options, found: Sequence[Candidate]
) -> dict[str, int]:
    """Returns sampler -> number of outputs to request for a text in this round.

    Later rounds request more than the missing number, rounded to a few sizes, because
    each size is a compiled program.
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
    """Returns, for each text, sampler -> the outputs requested in a round."""
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
            # Separate stages let runs with other quotas reuse the outputs of a sampler.
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
    """Returns all candidates as one list, judged by equation 3."""
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
