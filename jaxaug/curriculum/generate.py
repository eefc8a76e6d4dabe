"""`jaxaug levels`: paraphrases of the lines of a file, by level of difficulty.

It implements algorithm 2 of Lu and Lam (2023). Candidates come from bottom-k sampling,
which gives the hard ones, and from top-k with top-p. They pass the filter of equation
3, then the quotas of the samplers (appendix A), and get levels by equation 4.
"""

import dataclasses
import functools
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from jaxaug_base.files import replacing

from jaxaug.core import buckets, cache_folder, compiled
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, read_json, write_text
from jaxaug.core.shards import Shards, Stage
from jaxaug.curriculum import difficulty, levels
from jaxaug.curriculum import options as of_levels
from jaxaug.curriculum.arguments import Levelling, Levels
from jaxaug.curriculum.difficulty import kept
from jaxaug.curriculum.options import NONE, Candidate, Options, Setting, resolved
from jaxaug.data import tables
from jaxaug.models.endpoint.server import is_endpoint
from jaxaug.models.text import prompts
from jaxaug.paraphrase import (
    candidates,
    endpoint,
    endpoint_grid,
    endpoint_run,
    generation,
    version,
)

Paraphrase = Callable[[int, Setting, Sequence[Any]], list[list[str]]]
"""Maps (number of the round, setting, texts) to the outputs of each text.

A model behind an endpoint gets a text with a context if it has paraphrases already.
"""

_FOLDER = "levels"
# Options whose values are names; the note records the identity of the named thing.
_NAMES = ("model", "prompt", "similarity", "implication")
# Options for models of this machine.
_LOCAL = ("bottom_k", "bottom_steps", "top_k", "top_p", "max_length", "precision")


def run(given: Levels) -> int:
    """Runs the verb; see `jaxaug levels --help`."""
    compiled.keep_programs()
    quota, server = of_levels.PAPER, {}
    if endpoint_run.check(given, _LOCAL, (*endpoint_run.OWN, "option")):
        quota, server = of_levels.BEHIND, endpoint_run.server_of(given)
    if given.quota is not None:
        quota = of_levels.parse(given.quota)
    options = Options(quota=quota, server=server, **vars(given.as_base(Levelling)))
    if given.dry_run and options.asked:
        texts = tables.read_texts(given.input, given.column)
        writer = endpoint.Writer(options.asked, options.seed)
        print(endpoint_run.planned(writer, texts))
        return 0
    print(write(given.input, given.out, options, given.shard_size, given.column))
    return 0


def write(
    input_path: PathLike,
    out: PathLike,
    options: Options,
    shard_size: int = 16,
    column: str | None = None,
) -> str:
    """Writes paraphrases of the texts of a file by level; returns a summary.

    If `out` is complete, nothing is done. Candidates are kept in shards in the cache
    folder. An interrupted run loses at most one shard. A run that differs only in the
    selection of candidates reuses them. `<out>.json` records the origin and the digest
    of `out`.

    Args:
        input_path: see `jaxaug.data.tables.read`; blank and repeated texts are skipped.
        column: column of the texts; None means `text`, or the only column.

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
        _check_same(target, note, made_of)
        return f"{out}: is complete, nothing to do."
    if note.exists():
        _check_ours(target, note)
    check_writable(target)
    found, summary = make(
        texts,
        options,
        functools.partial(_paraphrases, options.seed),
        of_levels.load(
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
    if options.asked:
        summary += f"\n{endpoint.Writer(options.asked, options.seed).spent()}"
    return f"{out}: {summary}"


def _paraphrases(
    seed: int, number: int, setting: Setting, texts: Sequence[Any]
) -> list[list[str]]:
    """Returns the outputs of each text in a round; see `Paraphrase`."""
    draws = _seed(seed, number)
    if isinstance(setting, endpoint_grid.Setting):
        return endpoint.Writer(setting, draws)(texts)
    return generation.Paraphraser(draws)(setting, texts)


def _made_of(options: Options, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the options and all other dependencies; models are given by identity."""
    asked = options.asked
    first = next(iter(options.settings.values()))
    fields = dataclasses.asdict(options)
    # Limits and prices change no output; the key of a setting has the rest.
    del fields["server"]
    return fields | {
        "models": {
            "paraphrases": asked.key() if asked else first.key()["model"],
            "similarity": of_levels.identity(options.similarity),
            "implication": None
            if options.implication == NONE
            else of_levels.identity(options.implication),
        },
        "prompt_text": None
        if asked or options.prompt is None
        else list(prompts.find(options.prompt)),
        "code": code_digest(
            levels, difficulty, of_levels, candidates, sys.modules[__name__]
        )
        + version.of_outputs(),
        "texts": digest_of(texts),
    }


def make(
    texts: Sequence[str],
    options: Options,
    paraphrase: Paraphrase,
    scorers: of_levels.Scorers,
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
        items: Sequence[Any] = texts
        if number and is_endpoint(options.model):
            items = [
                (text, {"known": [one.text for one in own]})
                for text, own in zip(texts, found, strict=True)
            ]
        outputs = _outputs(
            number,
            items,
            wanted,
            options,
            functools.partial(paraphrase, number),
            shards,
        )
        new = [
            of_levels.distinct(text, given, (one.text for one in own))
            for text, given, own in zip(texts, outputs, found, strict=True)
        ]
        judged = iter(_judged(texts, new, options, scorers))
        for own, group in zip(found, new, strict=True):
            own += [next(judged) for _ in group]
    items = []
    for text, candidates_of in zip(texts, found, strict=True):
        drawn = of_levels.chosen(text, options.quota, candidates_of, options.seed)
        items.append(
            levels.levelled(
                text,
                [one.text for one in drawn],
                [one.similarity for one in drawn],
                options.levels,
            )
        )
    return items, _summary(items, found, options, asked)


def _seed(seed: int, number: int) -> int:
    """Returns the seed of a round; rounds after the first draw differently."""
    return zlib.crc32(f"{seed} {number}".encode()) if number else seed


def _wanted(
    number: int, options: Options, found: Sequence[Candidate]
) -> dict[str, int]:
    """Returns sampler -> number of outputs to request for a text in this round.

    Later rounds request more than the missing number, rounded to a few sizes, because
    each size is a compiled program.
    """
    missing = of_levels.lacking(options.quota, found)
    first = {name: options.quota[name] * options.oversample for name in missing}
    if not number:
        return first
    again = {
        n: buckets.power_of_two(m * options.oversample, 4) for n, m in missing.items()
    }
    return {name: min(again[name], first[name]) for name in missing}


def _outputs(
    number: int,
    texts: Sequence[Any],
    wanted: Sequence[Mapping[str, int]],
    options: Options,
    paraphrase: Callable[[Setting, Sequence[Any]], list[list[str]]],
    shards: Shards,
) -> list[dict[str, list[str]]]:
    """Returns, for each text, sampler -> the outputs requested in a round."""
    found: list[dict[str, list[str]]] = [{} for _ in texts]
    settings = options.settings
    shards.plan(("candidates", sum(s in own for own in wanted)) for s in settings)
    for sampler, setting in settings.items():
        for num in sorted({own[sampler] for own in wanted if sampler in own}):
            places = [i for i, own in enumerate(wanted) if own.get(sampler) == num]
            asked = dataclasses.replace(setting, num=num)
            # Separate stages let runs with other quotas reuse the outputs of a sampler.
            stage = Stage(
                "candidates",
                [_seed(options.seed, number), asked.key()],
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
    scorers: of_levels.Scorers,
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


def _check_same(out: epath.Path, note: epath.Path, made_of: Mapping[str, Any]) -> None:
    """Compares a finished file with the output of this run.

    Args:
        made_of: origin of this run, in the form of the note.

    Raises:
        UserError: `out` is not a file of levels, has another origin, or has changed.
    """
    if not note.exists():
        raise UserError(
            f"{out}: is no file of `jaxaug levels`, because {note} is missing. Name "
            "another --out."
        )
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


def _check_ours(out: epath.Path, note: epath.Path) -> None:
    """Checks that a note without a file comes from an interrupted `jaxaug levels`.

    Raises:
        UserError: the note was not written by `jaxaug levels`.
    """
    fix = f"Name another --out: the note of {out} would replace it."
    found = read_json(note, fix)
    if not isinstance(found, dict) or not {"texts", "models"} <= found.keys():
        raise UserError(f"{note}: is no note of `jaxaug levels`. {fix}")


def _summary(
    items: Sequence[levels.Levelled],
    found: Sequence[Sequence[Candidate]],
    options: Options,
    asked: Mapping[str, int],
) -> str:
    """Returns the summary as lines of text.

    Args:
        found: all distinct candidates of each text.
        asked: sampler -> number of requested outputs.
    """
    sizes = [sum(map(len, item.levels[1:])) for item in items]
    empty = sum(not all(item.levels) for item in items)
    wanted = sum(options.quota.values())
    fallen = (
        f"{sum(size < wanted for size in sizes):,} texts have fewer than {wanted} "
        f"(more --rounds or --oversample give more); {empty:,} have an empty level, "
        f"which falls back to the next easier one; {sum(not s for s in sizes):,} have "
        "none and stand for themselves."
    )
    lines = [
        (
            f"{sum(sizes):,} paraphrases of {len(items):,} texts in {options.levels} "
            f"levels."
        ),
        *(_of_sampler(name, found, options, asked[name]) for name in options.quota),
        _filter(options, [one for own in found for one in own]),
        fallen,
    ]
    return "\n".join(lines)


def _of_sampler(
    name: str, found: Sequence[Sequence[Candidate]], options: Options, asked: int
) -> str:
    quota = options.quota[name]
    own = [[one for one in group if one.sampler == name] for group in found]
    passed = [sum(one.passed for one in group) for group in own]
    number = sum(map(len, own))
    return (
        f"{name}: of {asked:,} outputs {number:,} are new, "
        f"{_part(sum(passed), number)} of which passed the filter; "
        f"{sum(min(n, quota) for n in passed):,} are kept, {quota * len(found):,} are "
        f"the quota."
    )


def _filter(options: Options, every: Sequence[Candidate]) -> str:
    least = "whatever it is" if options.beta is None else f"{options.beta} or more"
    implied = sum(one.implied for one in every)
    rescued = sum(one.passed and not one.implied for one in every)
    if options.implication != "none":
        return (
            f"Filter: {options.implication} says implied both ways of "
            f"{_part(implied, len(every))}; similarity ({options.similarity}) {least} "
            f"let {_part(rescued, len(every))} more pass."
        )
    return (
        f"Filter: no model of implication (`jaxaug models fetch roberta-mi` gets the "
        f"paper's), so similarity ({options.similarity}) alone, {least}: "
        f"{_part(rescued, len(every))} passed."
    )


def _part(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.0f} %)" if whole else f"{part:,}"
