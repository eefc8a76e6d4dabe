"""`jaxaug augment`: from a schema to variants of it."""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, descriptions, given, pipeline, plan
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decisions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import measures, verdicts
from jaxaug.augment.language import nlp
from jaxaug.augment.output import comparison, records, report, variants
from jaxaug.augment.result import Result
from jaxaug.augment.schemes import registry
from jaxaug.core import cache_folder, parts
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.figures import new_figure
from jaxaug.core.files import PathLike, write_bytes
from jaxaug.core.parts import Part
from jaxaug.core.paths import is_same
from jaxaug.core.shards import Shards
from jaxaug.data import folders
from jaxaug.data.schema import Schema, read_schema

_DEFAULT = "configs/augment/schema_tree.py"


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug augment --help`."""
    if not arguments.out:
        raise UserError(
            "--out is missing: `jaxaug augment --data_dir DIR --out DIR/variants/tree`, "
            "with --config FILE.py for another way than configs/augment/schema_tree.py."
        )
    config = configs.load(arguments.config or _DEFAULT)
    if arguments.splits is not None:
        config = _with_splits(config, arguments.splits)
    data_dir = folders.resolve_data_dir(arguments.data_dir)
    if not arguments.allow_seen:
        plan.check_unseen(config, data_dir)
    if arguments.dry_run:
        print(dry_run(config, data_dir, arguments.out))
        return 0
    if arguments.shard is not None:
        part = parts.parse(arguments.shard)
        if arguments.merge is not None:
            raise UserError(
                "--shard and --merge: first all shards, then --merge alone."
            )
        print(augment_part(config, data_dir, arguments.out, part))
        return 0
    folder = None
    if arguments.merge is not None:
        folder = _merged(config, data_dir, arguments.out, arguments.merge)
    print(augment(config, data_dir, arguments.out, folder))
    return 0


def _with_splits(config: Config, names: str) -> Config:
    """The config for other splits, given as `train,test`."""
    splits = tuple(name.strip() for name in names.split(","))
    try:
        return dataclasses.replace(config, splits=splits)
    except UserError as error:
        raise UserError(f"--splits {names}: {error}") from None


def augment_part(config: Config, data_dir: PathLike, out: PathLike, part: Part) -> str:
    """Computes one of N parts of `augment`, into `<out>.parts`.

    The folder may be shared by all machines, or be one of this machine alone.

    Returns:
      What was done, to be printed.

    Raises:
      UserError: input, config or a metric is wrong, a file cannot be written, or the
        config takes given variants, of which nothing is long work.
    """
    if config.is_given:
        raise UserError(
            f"--shard {part.number}/{part.count}: a config that measures given variants "
            "is not split. Leave --shard out."
        )
    started = time.monotonic()
    folder = parts.folder_of(out)
    registry.jobs(config)
    shards = Shards(folder, config.shard_size)
    for split in config.splits:
        schema = read_schema(folders.schema_path(data_dir, split))
        items = descriptions.descriptions(schema, split, config.names)
        pipeline.run_part(config, items, shards, part)
    parts.finish(folder, part, _work(config, data_dir), sorted(shards.names))
    seconds = time.monotonic() - started
    return (
        f"part {part.number} of {part.count} is complete in {folder}: {shards.computed} "
        f"shards computed, {shards.read} read in {seconds:.0f} s"
    )


def _work(config: Config, data_dir: PathLike) -> dict[str, str]:
    return {"augment": _digest(config, data_dir)}


def _merged(
    config: Config, data_dir: PathLike, out: PathLike, sources: Sequence[str]
) -> epath.Path:
    """The folder with the shards of all parts, copied there from other folders."""
    target = parts.folder_of(out)
    for folder, _, names in parts.complete(
        sources or [target], _work(config, data_dir)
    ):
        for name in names:
            if not (folder / name).exists():
                raise UserError(
                    f"{folder / name}: a shard of a finished part is missing. Copy the "
                    "folder whole, or run the part again."
                )
            if folder != target and not (target / name).exists():
                write_bytes(target / name, (folder / name).read_bytes())
    return target


def augment(
    config: Config,
    data_dir: PathLike,
    out: PathLike,
    shards_folder: PathLike | None = None,
) -> str:
    """Writes the variants of the schemas of a data folder, and what led to them.

    A second run does nothing unless `decisions.jsonl` in `out` has changed; a run that
    was stopped goes on, and has lost one shard at most, as the shards lie in the cache folder (see `jaxaug.core.shards`).

    Args:
      config: what to do.
      data_dir: with `<split>/schema.json`.
      out: variants folder to write.
      shards_folder: of finished shards; None is the cache folder's.

    Returns:
      What was done, to be printed.

    Raises:
      UserError: input, config or a metric is wrong, or a file cannot be written.
    """
    started = time.monotonic()
    folder = epath.Path(out)
    schemas = _schemas(config, data_dir)
    items = _items(config, schemas)
    decided = _decisions(config, folder, items)
    digest = _digest(config, data_dir)
    if decided.decisions:
        digest = digest_of([digest, decided.key()])
    if records.is_complete(folder, digest):
        return f"{folder} is complete: nothing to do"
    _check_target(config, data_dir, folder)
    _check_extras(config, folder)
    kept = shards_folder or cache_folder.cache_dir() / "augment"
    shards = Shards(kept, config.shard_size)
    of_each = decided.of(itertools.chain(*items.values()))
    results: list[Result] = []
    files: list[epath.Path] = []
    if not config.is_given:
        for split in schemas:
            shards.plan(pipeline.stages(config, items[split]))
    for split, schema in schemas.items():
        if config.is_given:
            found = given.texts(config, data_dir, schema, split)
            part = pipeline.run_given(config, items[split], found, shards)
        else:
            part = pipeline.run(config, items[split], shards, of_each)
        chosen = _by_variant(config, part)
        if not files:
            records.claim(folder, config, _planned(config))
        written = variants.write(folder, data_dir, split, schema, chosen, config.names)
        files += written.paths
        results += part
    files.append(records.write_candidates(folder, results))
    numbers = records.counts(results, config.variants)
    lines = [str(numbers)]
    lines += [str(decided)] if decided.decisions else []
    if config.report:
        lines = [_report(config, data_dir, folder, "\n".join(lines))]
        files += [folder / name for name in report.FILES]
    records.write_manifest(folder, digest, config, numbers, files, of_each)
    seconds = time.monotonic() - started
    lines.append(
        f"wrote {folder}/v1..v{config.variants} in {seconds:.0f} s "
        f"({shards.computed} shards computed, {shards.read} read)"
    )
    fix = (
        f"Add some to the variants in {config.options['folder']}"
        if config.is_given
        else f"Type some on the page of `jaxaug augment review {folder}`"
    )
    lines += [job.endpoint.spent() for job in registry.jobs(config) if job.endpoint]
    lines += records.without(results, f"{fix}, then repeat this command.")
    return "\n".join(lines)


def dry_run(config: Config, data_dir: PathLike, out: PathLike) -> str:
    """What `augment` would do, found out without any model: the texts, the grid, ...

    Args:
      config: what to do.
      data_dir: with `<split>/schema.json`.
      out: variants folder that would be written.

    Returns:
      Lines, to be printed; among them which models are not on this machine.

    Raises:
      UserError: input or config is wrong, no model of that name is known, or `out`
        could not be written into.
    """
    folder = epath.Path(out)
    schemas = _schemas(config, data_dir)
    items = _items(config, schemas)
    decided = _decisions(config, folder, items)
    _check_target(config, data_dir, folder)
    beside: dict[str, str] = {}
    runs: list[Config] = []
    for name, value in config.beside.items():
        if isinstance(value, str):
            other = given.folder(data_dir, value)
            beside[name] = f"{other}{'' if other.exists() else ' (not there)'}"
        else:
            runs.append(_beside(config, name, value))
            beside[name] = f"a run of its own, {plan.outputs(runs[-1])}"
    if config.is_given:
        for split, schema in schemas.items():
            given.texts(config, data_dir, schema, split)
        found = given.folder(data_dir, config.options["folder"])
        beside["variants"] = str(found)
    lines = plan.lines(config, items, beside, runs)
    lines += [str(decided)] if decided.decisions else []
    before = "a folder that is there" if folder.exists() else "a new folder"
    lines.append(f"would write to {folder}, {before}:")
    lines += [f"  {name}" for name in (*_planned(config), records.MANIFEST)]
    return "\n".join(lines)


def _beside(config: Config, name: str, fields: Mapping[str, Any]) -> Config:
    """Of a run that the report stands beside."""
    own = {k: getattr(config, k) for k in ("splits", "variants", "seed")}
    return configs.of(own | dict(fields), f"beside {name!r}")


def _schemas(config: Config, data_dir: PathLike) -> dict[str, Schema]:
    return {s: read_schema(folders.schema_path(data_dir, s)) for s in config.splits}


def _items(
    config: Config, schemas: Mapping[str, Schema]
) -> dict[str, list[Description]]:
    return {
        split: descriptions.descriptions(schema, split, config.names)
        for split, schema in schemas.items()
    }


def _decisions(
    config: Config, out: epath.Path, items: Mapping[str, Sequence[Description]]
) -> Decisions:
    """Those that lie in the folder of a run."""
    found = decisions.read(out, [*itertools.chain(*items.values())], config.variants)
    if found.decisions and config.is_given:
        raise UserError(
            f"{out / decisions.FILE}: a config that takes given variants makes no "
            "choice to decide about. Edit the variants themselves, or remove the file."
        )
    return found


def _check_target(config: Config, data_dir: PathLike, out: epath.Path) -> None:
    """Nothing is overwritten that is not a run's own, and nothing that it reads."""
    values = [value for value in config.beside.values() if isinstance(value, str)]
    values += [config.options["folder"]] if config.is_given else []
    for read in (
        epath.Path(data_dir),
        folders.sgdx_folder(data_dir),
        *(given.folder(data_dir, value) for value in values),
    ):
        if read.expanduser().resolve() == out.expanduser().resolve():
            raise UserError(
                f"--out {out}: is a folder of the data that the run reads. Choose "
                f"another one, such as {epath.Path(data_dir) / 'variants' / 'mine'}."
            )
    if is_same(out.parent, epath.Path(data_dir) / "variants"):
        folders.check_variants_name(out)
    records.check_target(out)


def _planned(config: Config) -> list[str]:
    """Paths below the folder of a run of all that it writes."""
    names = [
        f"v{number}/{split}/schema.json"
        for number in range(1, config.variants + 1)
        for split in config.splits
    ]
    return [*names, records.CANDIDATES, *(report.FILES if config.report else ())]


def _check_extras(config: Config, out: epath.Path) -> None:
    """Fails before the long work where something is not installed."""
    registry.jobs(config)
    if config.needs_nlp:
        nlp.identity()
    if config.report:
        new_figure(out / report.FILES[2], 1, 1)
    pipeline.found_metrics({**config.metrics, **config.report})


def _report(config: Config, data_dir: PathLike, out: epath.Path, notes: str) -> str:
    """The table of this run and what stands beside it."""
    rows: dict[str, PathLike] = {config.name: out}
    lines = notes.splitlines()
    for name, value in config.beside.items():
        folder = given.folder(data_dir, value) if isinstance(value, str) else None
        if folder is None:
            assert not isinstance(value, str)
            folder = out / records.BESIDE / name
            augment(_beside(config, name, value), data_dir, folder)
        elif any(
            split not in folders.variant_splits(folder, variant)
            for split in config.splits
            for variant in folders.variant_names(folder) or ("v1",)
        ):
            lines.append(f"{name}: {folder} has no variants of {config.splits}.")
            continue
        rows[name] = folder
    found = pipeline.found_metrics(config.report)
    # A ConfigDict forgets the order.
    known = [*comparison.METRICS, *found]
    found = {name: found[name] for name in sorted(found, key=known.index)}
    return report.write(
        out, rows, data_dir, config.splits, found, seed=config.seed, notes=lines
    )


def _by_variant(config: Config, results: list[Result]) -> list[dict[str, str]]:
    """Texts of v1..vK; an original text that stays for want of another is left out."""
    return [
        {
            result.description.id: result.selected[number]
            for result in results
            if result.selected[number] != result.description.text
        }
        for number in range(config.variants)
    ]


def _digest(config: Config, data_dir: PathLike) -> str:
    """Of everything that decides what a run writes."""
    jobs = [job.key for job in registry.jobs(config)]
    models = measures.identities({**config.metrics, **config.report})
    files = [folders.schema_path(data_dir, split) for split in config.splits]
    if config.is_given:
        files += [
            given.path(config, data_dir, split, number)
            for split in config.splits
            for number in range(1, config.variants + 1)
        ]
    beside = [
        [
            name,
            [file_digest(p) for p in given.schemas_in(given.folder(data_dir, value))],
        ]
        for name, value in config.beside.items()
        if isinstance(value, str)
    ]
    contents = [file_digest(file) for file in files]
    judge = verdicts.identity(**config.judge) if config.judge else ""
    return digest_of(
        [
            config.key(),
            jobs,
            [models, judge],
            contents,
            beside,
            code_digest("jaxaug.augment", "jaxaug.paraphrase"),
        ]
    )
