"""`jaxaug augment`: from a schema to variants of it; `jaxaug augment explain`."""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, descriptions, pipeline, selection
from jaxaug.augment.config import Config
from jaxaug.augment.decisions import Decisions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import measures
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
from jaxaug.core.shards import Shards
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import Schema, read_schema


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug augment --help`."""
    for name in ("config", "out"):
        if not getattr(arguments, name):
            raise UserError(
                f"--{name} is missing: `jaxaug augment --config FILE.py --out OUT`, "
                "with a file such as configs/augment/smollm2_tree.py."
            )
    config = configs.load(arguments.config)
    if arguments.splits is not None:
        config = _with_splits(config, arguments.splits)
    data_dir = folders.resolve_data_dir(arguments.data_dir)
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


def run_explain(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug augment explain --help`."""
    print(explain(arguments.out, arguments.id, arguments.image))
    return 0


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
    config: Config, data_dir: PathLike, out: PathLike, given: Sequence[str]
) -> epath.Path:
    """The folder with the shards of all parts, copied there from other folders."""
    target = parts.folder_of(out)
    for folder, _, names in parts.complete(given or [target], _work(config, data_dir)):
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

    A second run does nothing unless `decisions.jsonl` in `out` has changed; a run that was stopped goes on, and has lost one shard at
    most, as the shards lie in the cache folder (see `jaxaug.core.shards`).

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
    schemas = {s: read_schema(folders.schema_path(data_dir, s)) for s in config.splits}
    items = {
        split: descriptions.descriptions(schema, split, config.names)
        for split, schema in schemas.items()
    }
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
    for split, schema in schemas.items():
        if config.is_given:
            given = _given(config, data_dir, schema, split)
            part = pipeline.run_given(config, items[split], given, shards)
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
    return "\n".join(lines)


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
        *(_folder(data_dir, value) for value in values),
    ):
        if read.expanduser().resolve() == out.expanduser().resolve():
            raise UserError(
                f"--out {out}: is a folder of the data that the run reads. Choose "
                f"another one, such as {epath.Path(data_dir) / 'variants' / 'mine'}."
            )
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
    if pipeline.needs_nlp(config):
        nlp.identity()
    if config.report:
        new_figure(out / report.FILES[2], 1, 1)
    pipeline.found_metrics({**config.metrics, **config.report})


def _report(config: Config, data_dir: PathLike, out: epath.Path, notes: str) -> str:
    """The table of this run and what stands beside it."""
    rows: dict[str, PathLike] = {config.name: out}
    lines = notes.splitlines()
    for name, value in config.beside.items():
        folder = _folder(data_dir, value) if isinstance(value, str) else None
        if folder is None:
            assert not isinstance(value, str)
            folder = out / records.BESIDE / name
            own = {k: getattr(config, k) for k in ("splits", "variants", "seed")}
            augment(configs.of(own | dict(value), f"beside {name!r}"), data_dir, folder)
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


def _folder(data_dir: PathLike, name: str) -> epath.Path:
    """`sgdx`, or a folder."""
    if name == "sgdx":
        return folders.sgdx_folder(data_dir)
    return epath.Path(name).expanduser()


def explain(out: PathLike, key: str, image: PathLike | None = None) -> str:
    """The tree of one description as text, and as a drawing where a file is named.

    Args:
      out: folder of a run.
      key: id of a description, such as `train/3/slot/5`.
      image: `.svg` or `.png` to write.

    Raises:
      UserError: no such run or id, the run has no trees, or matplotlib is missing.
    """
    from jaxaug.augment.output import explain as trees

    manifest = records.read_manifest(out)
    config = configs.of(manifest["config"], f"{out}")
    if config.select != "tree":
        raise UserError(
            f"{out}: was made with select={config.select!r} and has no trees. Name the "
            "folder of a run that ranks by a tree."
        )
    description, judged = records.read_candidates(out, key)
    # What the selection itself adds, it adds again.
    again = selection.REASONS
    own = [
        dataclasses.replace(
            one, dropped=tuple(r for r in one.dropped if not r.startswith(again))
        )
        for one in judged
    ]
    decided = records.decided(manifest).get(key, decisions.NOTHING)
    result = selection.select(config, description, own, decided)
    ranking = result.ranking
    assert ranking is not None
    title = f"{description.id}: {description.text}"
    lines = [trees.as_text(ranking, title)]
    lines += [
        f"dropped ({', '.join(one.dropped)}): {one.candidate.text} x{one.candidate.count}"
        for one in result.judged
        if any(not r.startswith(selection.CONSTRAINT) for r in one.dropped)
    ]
    if image:
        trees.draw(image, ranking, title)
        lines.append(f"wrote {image}")
    return "\n".join(lines)


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
            _given_path(config, data_dir, split, number)
            for split in config.splits
            for number in range(1, config.variants + 1)
        ]
    beside = [
        [name, [file_digest(p) for p in _schemas(_folder(data_dir, value))]]
        for name, value in config.beside.items()
        if isinstance(value, str)
    ]
    contents = [file_digest(file) for file in files]
    return digest_of(
        [
            config.key(),
            jobs,
            models,
            contents,
            beside,
            code_digest("jaxaug.augment", "jaxaug.paraphrase"),
        ]
    )


def _schemas(folder: epath.Path) -> list[epath.Path]:
    """Of all variants in a folder."""
    return [
        folders.variant_schema_path(folder, variant, split)
        for variant in folders.variant_names(folder)
        for split in folders.variant_splits(folder, variant)
    ]


def _given(
    config: Config, data_dir: PathLike, schema: Schema, split: str
) -> list[Mapping[str, str]]:
    """Texts of the variants of a folder, matched by position."""
    found: list[Mapping[str, str]] = []
    for number in range(1, config.variants + 1):
        path = _given_path(config, data_dir, split, number)
        variant = read_schema(path)
        renaming(schema, variant, str(path))
        items = descriptions.descriptions(variant, split, config.names)
        found.append({item.id: item.text for item in items})
    return found


def _given_path(
    config: Config, data_dir: PathLike, split: str, number: int
) -> epath.Path:
    """`v1/<split>/schema.json`, or `v1/schema.json` where there is one split only."""
    folder = _folder(data_dir, config.options["folder"])
    flat = folder / f"v{number}" / "schema.json"
    if len(config.splits) == 1 and flat.exists():
        return flat
    return folders.variant_schema_path(folder, f"v{number}", split)
