"""The tokenised cache: a record cache as flat arrays of token ids, without TensorFlow.

`get_dataset` trains from it through `jaxaug.feed.batches`.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from etils import epath
from jaxtyping import Int

from jaxaug.core import cache_folder, cached, digests, manifest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.suggestion import nearest
from jaxaug.feed import arrays, cache, offline_tokens, parallel, recipes, vocabulary
from jaxaug.feed.batches import TokenBatches, TokenCache, known_to_clu

Encode = Callable[[list[str]], list[list[int]]]

_LAYOUT = 2  # Part of the folder name: raise it when the arrays or meta.json change.
_CHUNK = 4096


def build(
    records: cache.RecordCache,
    sentencepiece_model: PathLike,
    root: PathLike | None = None,
) -> TokenCache:
    """The tokenised form of a record cache, made if it does not exist or is damaged.

    Written under a temporary name and renamed, and verified, as the record cache is.

    Args:
      records: the examples.
      sentencepiece_model: file of the vocabulary, local or gs://.
      root: parent of all caches; None is `folders.cache_dir()`.
    """
    folder = _folder(records, sentencepiece_model, root)
    if manifest.opened(folder) is None:
        processor = vocabulary.load(sentencepiece_model)
        cached.publish(folder, lambda temporary: _write(records, processor, temporary))
    return arrays.open_cache(folder)


def input_lengths(
    records: cache.RecordCache,
    vocabulary_file: PathLike,
    root: PathLike | None = None,
    encode: Encode | None = None,
) -> Int[np.ndarray, " examples"]:
    """Tokens of every input, without end of sequence; computed once and kept.

    Args:
      records: the examples.
      vocabulary_file: decides what `encode` does.
      root: parent of all caches; None is `folders.cache_dir()`.
      encode: None for a SentencePiece model; what `build` made of it serves too.
    """
    folder = _folder(records, vocabulary_file, root)
    if manifest.is_whole(folder):
        return np.diff(arrays.open_array(folder / "inputs_offsets.npy"))
    folder = folder.parent / f"{folder.name}-lengths"
    if manifest.opened(folder) is None:
        encode = encode or functools.partial(_encode, vocabulary.load(vocabulary_file))
        cached.publish(
            folder, lambda temporary: _write_lengths(records, encode, temporary)
        )
    return np.asarray(arrays.open_array(folder / "lengths.npy"))


def report_truncation(
    name: str,
    lengths: Int[np.ndarray, " examples"],
    limit: int,
    feature: str = "inputs",
) -> int:
    """Logs and returns how many inputs lose their left end, or targets their right one.

    Args:
      name: what the examples are, for the message.
      lengths: tokens of every one, without end of sequence.
      limit: length of the feature, end of sequence included.
      feature: `inputs` or `targets`.
    """
    count = int(np.sum(lengths > limit - 1))
    longest = int(lengths.max(initial=0)) + 1
    end = {"inputs": "left", "targets": "right"}[feature]
    message = (
        f"%s: %d of %d {feature} truncated on the {end} to %d tokens (longest: %d)"
    )
    level = logging.WARNING if count else logging.INFO
    logging.log(level, message, name, count, len(lengths), limit, longest)
    return count


def report_truncations(name: str, found: TokenCache, limits: Mapping[str, int]) -> None:
    """`report_truncation` for both features of a cache of examples to train on."""
    for feature, limit in limits.items():
        lengths = np.diff(found.offsets[feature])
        report_truncation(name, lengths, limit, feature)


def _folder(
    records: cache.RecordCache, model: PathLike, root: PathLike | None
) -> epath.Path:
    digest = hashlib.blake2b(f"{_LAYOUT}".encode(), digest_size=6)
    digest.update(digests.file_digest(model).encode())
    parent = epath.Path(root or cache_folder.cache_dir()) / "tokens"
    return parent / f"{records.folder.name}-{digest.hexdigest()}"


def _write(records: cache.RecordCache, processor: Any, folder: epath.Path) -> None:
    def encoded() -> Iterator[tuple[list[int], ...]]:
        for chunk in _chunks(records):
            columns = [
                _encode(processor, [getattr(example, field) for example in chunk])
                for field in arrays.FIELDS
            ]
            yield from zip(*columns, strict=True)

    arrays.write(encoded(), folder)


def _write_lengths(
    records: cache.RecordCache, encode: Encode, folder: epath.Path
) -> None:
    lengths = [
        len(ids)
        for chunk in _chunks(records)
        for ids in encode([example.inputs for example in chunk])
    ]
    arrays.save(folder / "lengths.npy", np.asarray(lengths, np.int64))
    manifest.write(folder, examples=len(lengths))


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
) -> TokenBatches:
    """Training batches without TensorFlow: a value for `train.get_dataset_fn` of T5X.

    Builds the record cache and its tokenised form at the first use, and logs how many
    inputs are truncated.

    Args:
      cfg: a `t5x.utils.DatasetConfig`; the name is one of `jaxaug.feed.recipes`.
      shard_id: index of this host.
      num_shards: hosts that share the data; must divide the batch size.
      feature_converter_cls: of the model; only encoder-decoder features are made.
      num_epochs: see `TokenBatches`.
      continue_from_last_checkpoint: no meaning here; the iterator is restored by the
        checkpoint.
      data_dir: as for `folders.resolve_data_dir`.
      sentencepiece_model: None is what `vocabulary.model_file` finds.
      cache_dirs: with `cfg.use_cached`, where the offline caches of the tasks lie; for
        a single task no data folder is needed.

    Raises:
      UserError: the configuration asks for packing, a mixture that does not exist, a
        task that is not cached or a batch that does not divide.
    """
    del feature_converter_cls, continue_from_last_checkpoint
    if cfg.pack:
        raise UserError(
            "DatasetConfig.pack = True: batches from the tokenised cache are not "
            "packed. Set pack = False, or train through SeqIO."
        )
    if cfg.batch_size % num_shards:
        raise UserError(
            f"DatasetConfig.batch_size = {cfg.batch_size} does not divide by "
            f"{num_shards} hosts. Choose a multiple."
        )
    found = _offline if cfg.use_cached else _formatted
    caches = []
    for task, tokens in found(cfg, data_dir, sentencepiece_model, cache_dirs):
        report_truncations(f"{task} {cfg.split}", tokens, cfg.task_feature_lengths)
        caches.append(tokens)
    if not caches:
        raise UserError(
            f"{cfg.mixture_or_task_name!r} has no split {cfg.split!r}. Splits are "
            f"{', '.join(recipes.SPLITS)}, where the data folder has them."
            f"{nearest(cfg.split, recipes.SPLITS)}"
        )
    made = TokenBatches(
        caches,
        cfg.task_feature_lengths,
        cfg.batch_size // num_shards,
        seed=cfg.seed or 0,
        shuffle=cfg.shuffle,
        shard=(shard_id, num_shards),
        num_epochs=num_epochs,
    )
    return known_to_clu(made)


_Found = Iterator[tuple[str, TokenCache]]


def _formatted(
    cfg: Any, data_dir: PathLike | None, model: PathLike | None, unused: object
) -> _Found:
    """The tasks that have the split, formatted and tokenised here."""
    table = recipes.table(data_dir)
    model = model or vocabulary.model_file(data_dir)
    for task in table.tasks_of(str(cfg.mixture_or_task_name)):
        recipe = table.recipes[task].get(cfg.split)
        if recipe is not None:
            yield task, build(cache.build(recipe), model)


def _offline(
    cfg: Any,
    data_dir: PathLike | None,
    model: PathLike | None,
    cache_dirs: Sequence[PathLike],
) -> _Found:
    """The tasks that have the split, from the offline caches of SeqIO."""
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
