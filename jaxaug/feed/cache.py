"""The record cache: a split that is formatted once, as sharded TSV files.

A cache is a folder whose name contains a hash of everything that determines its
content: the bytes of the schemas and dialogues, the options, and the version of the
format. It is written under a temporary name and renamed when complete. Readers
therefore never see an incomplete cache, and concurrent builders do no harm. It is
verified whenever it is opened (see `jaxaug.core.manifest`), and rebuilt if a byte has
changed. A shard has one example per line and no header; its columns are the fields of
`Example`.
"""

import dataclasses
import hashlib
import json
import operator
import random
from collections.abc import Iterator
from dataclasses import dataclass

from etils import epath

from jaxaug.core import cache_folder, manifest
from jaxaug.core.cached import publish
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.data import folders
from jaxaug.feed import parallel
from jaxaug.formats.records import Example, FromData

_LAYOUT = 3  # Part of the cache key: increase it when shards or meta.json change.
# Enough shards for every host of a large pod to read its own.
_MIN_SHARDS = 32


@dataclass(frozen=True, slots=True)
class Recipe:
    """Content of a cache.

    With `renderings` E the cache holds epochs 0 to E-1 of a shuffled order, so that
    training sees every example in E orders.
    """

    corpus: parallel.Corpus
    options: parallel.Options
    renderings: int = 1

    def __post_init__(self) -> None:
        if self.renderings < 1 or (
            self.renderings > 1 and self.options.order != "shuffled"
        ):
            raise UserError(
                f"renderings={self.renderings} with order={self.options.order!r}: use "
                "1 or more; more than 1 needs order='shuffled'."
            )


@dataclass(frozen=True, slots=True)
class RecordCache:
    """A complete cache on disk, verified when it was opened."""

    folder: epath.Path
    shards: tuple[str, ...]
    examples: int

    @property
    def paths(self) -> list[str]:
        """Paths of the shards, in the order in which they were written."""
        return [str(self.folder / shard) for shard in self.shards]

    def counts(self) -> list[int]:
        """Returns the number of examples of each shard."""
        return [_bytes_of(path).count(b"\n") for path in self.paths]

    def read(self) -> Iterator[Example]:
        """Yields the examples of all shards."""
        for path in self.paths:
            # splitlines would also split at exotic separators.
            for line in _bytes_of(path).decode().split("\n")[:-1]:
                inputs, targets, dialogue_id, turn, frame, service, key = line.split(
                    "\t"
                )
                yield Example(
                    inputs, targets, dialogue_id, int(turn), int(frame), service, key
                )


def _bytes_of(path: str) -> bytes:
    with cache_folder.reading(path):
        return epath.Path(path).read_bytes()


def build(
    recipe: Recipe, workers: int = 0, root: epath.Path | None = None
) -> RecordCache:
    """Returns the cache of a recipe; builds it if it is missing or damaged.

    Args:
        workers: processes, 0 for one per core; the bytes do not depend on it.
        root: parent of all caches; None means `cache_folder.cache_dir()`.

    Raises:
        UserError: data is missing or wrong, or the cache cannot be written; nothing is
            left behind.
    """
    parent = epath.Path(root or cache_folder.cache_dir()) / "records"
    folder = parent / cache_name(recipe)
    cache = _load(folder)
    if cache is None:
        count = parallel.worker_count(workers)
        publish(folder, lambda temporary: _write(recipe, temporary, count))
        cache = _load(folder)
    if cache is None:
        raise UserError(
            f"cache {folder} is not what was just written there. Check the disk, or "
            f"name another cache folder with ${cache_folder.CACHE_DIR_VARIABLE}."
        )
    return cache


def cache_name(recipe: Recipe) -> str:
    """Returns the name of a cache's folder: format, split, and content hash."""
    corpus = recipe.corpus
    digest = hashlib.blake2b(digest_size=12)
    header = {
        "layout": _LAYOUT,
        "columns": parallel.COLUMNS,
        "version": recipe.options.version,
        "options": dataclasses.asdict(recipe.options),
        "renderings": recipe.renderings,
    }
    if corpus.selection is not None:
        header["selection"] = dataclasses.astuple(corpus.selection)
    digest.update(json.dumps(header, sort_keys=True).encode())
    schemas = [folders.schema_path(corpus.data_dir, corpus.split)]
    if corpus.variant is not None:
        variants = corpus.variants_dir or folders.sgdx_folder(corpus.data_dir)
        schemas.append(
            folders.variant_schema_path(variants, corpus.variant, corpus.split)
        )
    files = [*schemas, *map(epath.Path, corpus.files())]
    if isinstance(recipe.options, FromData):
        files += recipe.options.sources(corpus.data_dir, corpus.split)
    for path in files:
        digest.update(f"\n{path.name} {file_digest(path)}".encode())
    variant = f"-{corpus.variant}" if corpus.variant else ""
    return f"{recipe.options.family}-{corpus.split}{variant}-{digest.hexdigest()}"


def _load(folder: epath.Path) -> RecordCache | None:
    """Returns the cache in a folder, or None if it is missing or has changed."""
    meta = manifest.opened(folder)
    if meta is None:
        return None
    shards = tuple(name for name, _, _ in meta["files"])
    return RecordCache(folder, shards, meta["examples"])


def _write(recipe: Recipe, temporary: epath.Path, workers: int) -> None:
    files = recipe.corpus.files()
    epochs = tuple(range(recipe.renderings))
    parts = -(-_MIN_SHARDS // (len(files) * len(epochs)))
    options = parallel.bound(recipe.options, recipe.corpus)
    jobs = [
        _ShardJob(
            parallel.FormatJob(recipe.corpus, path, options, epochs),
            str(temporary),
            index,
            parts,
        )
        for index, path in enumerate(files)
    ]
    parallel.forget_schemas()
    label = _label(recipe)
    examples = sum(parallel.in_order(_write_shards, jobs, workers, label))
    # Sorted by name, so by epoch and then by file: the order of `read` and of
    # unshuffled streams.
    manifest.write(temporary, examples=examples)


def _label(recipe: Recipe) -> str:
    """Returns the label of a bar: `cache d3st train original max_items=(1, 2)`."""
    corpus, options = recipe.corpus, recipe.options
    changed = (
        f"{field.name}={getattr(options, field.name)}"
        for field in dataclasses.fields(options)
        if field.name not in ("order", "seed")
        and getattr(options, field.name) != field.default
    )
    words = ["cache", options.family, corpus.split, corpus.variant or "original"]
    if corpus.selection is not None:
        words.append(f"{corpus.selection.kept}={corpus.selection.domain}")
    return " ".join([*words, *changed])


# Returns all fields after inputs and targets.
_rest = operator.attrgetter(*parallel.COLUMNS[2:])


@dataclass(frozen=True, slots=True)
class _ShardJob:
    job: parallel.FormatJob
    folder: str
    file: int
    parts: int


def _row(example: Example) -> bytes:
    return parallel.example_row(example, *_rest(example))


def _write_shards(work: _ShardJob) -> int:
    """Formats one dialogue file into shards; returns the number of its examples."""
    count = 0
    for epoch, rows in zip(
        work.job.epochs, parallel.format_file(work.job, _row), strict=True
    ):
        if work.job.options.order == "shuffled":
            # Frames of one dialogue are similar. They are separated here, because the
            # shuffle buffer is smaller than a file.
            key = f"{work.job.options.seed}|{epoch}|{work.file}"
            random.Random(key).shuffle(rows)
        size = -(-len(rows) // work.parts)
        for part in range(work.parts):
            chunk = rows[part * size : (part + 1) * size]
            name = f"{epoch:03}-{work.file:05}-{part:03}.tsv"
            (epath.Path(work.folder) / name).write_bytes(b"".join(chunk))
        count += len(rows)
    return count
