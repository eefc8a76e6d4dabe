"""The tokenized cache: a record cache as flat arrays of token ids, without TensorFlow.

`get_dataset` trains from it through `jaxaug.feed.batches`.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from etils import epath

from jaxaug.core import cache_folder, cached, digests, manifest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.suggestion import nearest
from jaxaug.feed import (
    arrays,
    cache,
    lengths,
    offline_tokens,
    parallel,
    recipes,
    vocabulary,
)
from jaxaug.feed.arrays import TokenCache
from jaxaug.feed.batches import TokenBatches
from jaxaug.feed.examples import Examples

Encode = Callable[[list[str]], list[list[int]]]

_LAYOUT = 2  # Part of the folder name: increase it when the arrays or meta.json change.
_CHUNK = 4096


def build(
    records: cache.RecordCache,
    vocabulary_file: PathLike,
    root: PathLike | None = None,
    encode: Encode | None = None,
) -> TokenCache:
    """Returns the token ids of a record cache; builds them if missing or damaged.

    They are written under a temporary name, renamed, and verified like a record cache.

    Args:
        records: the examples.
        vocabulary_file: file of the vocabulary, local or gs://; determines the ids.
        root: parent of all caches; None means `cache_folder.cache_dir()`.
        encode: returns the token ids of several texts; None for a SentencePiece model.
    """
    # Published tokenizers may read a SentencePiece file but assign other ids.
    kind = "" if encode is None else "encode"
    folder = _folder(records, vocabulary_file, root, kind)
    if manifest.opened(folder) is None:
        ids = encode or functools.partial(_encode, vocabulary.load(vocabulary_file))
        cached.publish(folder, lambda temporary: _write(records, ids, temporary))
    return arrays.open_cache(folder)


def _folder(
    records: cache.RecordCache, model: PathLike, root: PathLike | None, kind: str
) -> epath.Path:
    digest = hashlib.blake2b(f"{_LAYOUT}{kind}".encode(), digest_size=6)
    digest.update(digests.file_digest(model).encode())
    parent = epath.Path(root or cache_folder.cache_dir()) / "tokens"
    return parent / f"{records.folder.name}-{digest.hexdigest()}"


def _write(records: cache.RecordCache, encode: Encode, folder: epath.Path) -> None:
    def encoded() -> Iterator[tuple[list[int], ...]]:
        for chunk in _chunks(records):
            columns = [
                encode([getattr(example, field) for example in chunk])
                for field in arrays.FIELDS
            ]
            yield from zip(*columns, strict=True)

    arrays.write(encoded(), folder)


def _encode(processor: Any, texts: list[str]) -> list[list[int]]:
    return processor.encode(texts, num_threads=parallel.worker_count(0))


def _chunks(records: cache.RecordCache) -> Iterator[list[Any]]:
    chunk = []
    for example in records.read():
        chunk.append(example)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def get_dataset(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Any,
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
    data_dir: PathLike | None = None,
    sentencepiece_model: PathLike | None = None,
    cache_dirs: Sequence[PathLike] = (),
    accept_truncation: bool = False,
    layout: str = "enc_dec",
) -> TokenBatches:
    """Returns training batches without TensorFlow: a `train.get_dataset_fn` of T5X.

    Builds the record cache and its tokenized form on first use.

    Args:
        cfg: a `t5x.utils.DatasetConfig`; the name is one of `jaxaug.feed.recipes`.
        shard_id: index of this host.
        num_shards: number of hosts that share the data; must divide the batch size.
        feature_converter_cls: unused; see `layout`.
        num_epochs: see `TokenBatches`.
        continue_from_last_checkpoint: unused; the checkpoint restores the iterator.
        data_dir: as for `folders.resolve_data_dir`.
        sentencepiece_model: model file; None means the result of
            `vocabulary.model_file`.
        cache_dirs: with `cfg.use_cached`, folders of the offline caches of the tasks; a
            single task then needs no data folder.
        accept_truncation: whether to accept lengths that cut more than 1% of the inputs
            of a task or any target.
        layout: "enc_dec", or "prefix_lm" for decoder-only models.

    Raises:
        UserError: the mixture does not exist, a task is not cached, the batch size is
            not divisible, or the lengths cut examples.
    """
    del feature_converter_cls, continue_from_last_checkpoint
    if not cfg.use_cached:
        sentencepiece_model = sentencepiece_model or vocabulary.model_file(data_dir)
    found = _offline if cfg.use_cached else _formatted
    tasks = [
        Examples(task, cache)
        for task, cache in found(cfg, data_dir, sentencepiece_model, cache_dirs)
    ]
    if not tasks:
        raise UserError(
            f"{cfg.mixture_or_task_name!r} has no split {cfg.split!r}. Splits are "
            f"{', '.join(recipes.SPLITS)}, where the data folder has them."
            f"{nearest(cfg.split, recipes.SPLITS)}"
        )
    _check(tasks, cfg, sentencepiece_model, accept_truncation)
    made = TokenBatches(
        tasks,
        cfg.task_feature_lengths,
        cfg.batch_size,
        seed=cfg.seed or 0,
        shuffle=cfg.shuffle,
        pack=cfg.pack,
        layout=layout,
        shard=(shard_id, num_shards),
        num_epochs=num_epochs,
    )
    return made


def _check(
    tasks: Sequence[Examples],
    cfg: Any,
    model: PathLike | None,
    accept_truncation: bool,
) -> None:
    """Runs `lengths.check` for the tasks of a training set, and reports each task."""
    unk_id = None if model is None else vocabulary.load(model).unk_id()
    needs = []
    for task in tasks:
        name = f"{task.name} {cfg.split}"
        counts = lengths.of_examples(name, task, unk_id, str(model), lengths.LEFT)
        needs.append((counts, cfg.task_feature_lengths))
        lengths.report(*needs[-1])
    lengths.check(
        needs,
        accept_truncation,
        advice="DatasetConfig.task_feature_lengths = {} (or accept the cut with "
        "tokens.get_dataset.accept_truncation = True)",
    )


_Found = Iterator[tuple[str, TokenCache]]


def _formatted(
    cfg: Any, data_dir: PathLike | None, model: PathLike | None, unused: object
) -> _Found:
    """Yields the tasks that have the split, formatted and tokenized here."""
    table = recipes.table(data_dir)
    for task in table.tasks_of(str(cfg.mixture_or_task_name)):
        recipe = table.recipes[task].get(cfg.split)
        if recipe is not None:
            assert model is not None
            yield task, build(cache.build(recipe), model)


def _offline(
    cfg: Any,
    data_dir: PathLike | None,
    model: PathLike | None,
    cache_dirs: Sequence[PathLike],
) -> _Found:
    """Yields the tasks that have the split, from the offline caches of SeqIO."""
    name = str(cfg.mixture_or_task_name)
    tasks: Sequence[str] = (name,)
    if offline_tokens.find(name, cache_dirs) is None:
        tasks = recipes.table(data_dir).tasks_of(name)
    for task in tasks:
        folder = offline_tokens.find(task, cache_dirs)
        if folder is None:
            raise UserError(
                f"use_cached = True: task {task!r} is in no folder of cache_dirs "
                f"({', '.join(map(str, cache_dirs)) or 'none is named'}). Make it with "
                f"`jaxaug data cache --task {task} --out DIR`."
            )
        found = offline_tokens.build(folder, cfg.split, model)
        if found is not None:
            yield task, found
