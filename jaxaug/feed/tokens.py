"""The tokenised cache: a record cache as flat arrays of token ids, without TensorFlow.

`get_dataset` trains from it through `jaxaug.feed.batches`.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import logging
from etils import epath
from jaxtyping import Int

from jaxaug.core import cache_folder, cached, digests, manifest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.feed import cache, parallel, recipes, vocabulary
from jaxaug.feed.batches import TokenBatches, TokenCache

Encode = Callable[[list[str]], list[list[int]]]

_LAYOUT = 2  # Part of the folder name: raise it when the arrays or meta.json change.
_FIELDS = ("inputs", "targets")
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
    return TokenCache(
        folder.name,
        {field: _open(folder / f"{field}.npy") for field in _FIELDS},
        {field: _open(folder / f"{field}_offsets.npy") for field in _FIELDS},
    )


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
        return np.diff(_open(folder / "inputs_offsets.npy"))
    folder = folder.parent / f"{folder.name}-lengths"
    if manifest.opened(folder) is None:
        encode = encode or functools.partial(_encode, vocabulary.load(vocabulary_file))
        cached.publish(
            folder, lambda temporary: _write_lengths(records, encode, temporary)
        )
    return np.asarray(_open(folder / "lengths.npy"))


def report_truncation(
    name: str, lengths: Int[np.ndarray, " examples"], limit: int
) -> int:
    """Logs and returns how many inputs lose their left end.

    Args:
      name: what the inputs are, for the message.
      lengths: tokens of every input, without end of sequence.
      limit: length of the `inputs` feature, end of sequence included.
    """
    count = int(np.sum(lengths > limit - 1))
    longest = int(lengths.max(initial=0)) + 1
    message = "%s: %d of %d inputs truncated on the left to %d tokens (longest: %d)"
    level = logging.WARNING if count else logging.INFO
    logging.log(level, message, name, count, len(lengths), limit, longest)
    return count


def _folder(
    records: cache.RecordCache, model: PathLike, root: PathLike | None
) -> epath.Path:
    digest = hashlib.blake2b(f"{_LAYOUT}".encode(), digest_size=6)
    digest.update(digests.file_digest(model).encode())
    parent = epath.Path(root or cache_folder.cache_dir()) / "tokens"
    return parent / f"{records.folder.name}-{digest.hexdigest()}"


def _write(records: cache.RecordCache, processor: Any, folder: epath.Path) -> None:
    parts: dict[str, list[np.ndarray]] = {field: [] for field in _FIELDS}
    lengths: dict[str, list[int]] = {field: [] for field in _FIELDS}
    for chunk in _chunks(records):
        for field in _FIELDS:
            texts = [getattr(example, field) for example in chunk]
            encoded = _encode(processor, texts)
            lengths[field].extend(map(len, encoded))
            parts[field].append(np.concatenate(encoded).astype(np.int32))
    for field in _FIELDS:
        empty = np.zeros(0, np.int32)
        _save(folder / f"{field}.npy", np.concatenate([empty, *parts[field]]))
        offsets = np.concatenate([[0], np.cumsum(lengths[field], dtype=np.int64)])
        _save(folder / f"{field}_offsets.npy", offsets.astype(np.int64))
    manifest.write(folder, examples=len(lengths["inputs"]))


def _write_lengths(
    records: cache.RecordCache, encode: Encode, folder: epath.Path
) -> None:
    lengths = [
        len(ids)
        for chunk in _chunks(records)
        for ids in encode([example.inputs for example in chunk])
    ]
    _save(folder / "lengths.npy", np.asarray(lengths, np.int64))
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


def _save(path: epath.Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array)


def _open(path: epath.Path) -> np.ndarray:
    if str(path).startswith("gs://"):
        with path.open("rb") as file:
            return np.load(file)
    return np.load(path, mmap_mode="r")


def get_dataset(
    cfg: Any,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Any,
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
    data_dir: PathLike | None = None,
    sentencepiece_model: PathLike | None = None,
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

    Raises:
      UserError: the configuration asks for packing, a mixture that does not exist or
        a batch that does not divide.
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
    table = recipes.table(data_dir)
    model = sentencepiece_model or vocabulary.model_file(data_dir)
    caches = []
    for task in table.tasks_of(str(cfg.mixture_or_task_name)):
        recipe = table.recipes[task].get(cfg.split)
        if recipe is None:
            continue
        tokens = build(cache.build(recipe), model)
        report_truncation(
            f"{task} {cfg.split}",
            np.diff(tokens.offsets["inputs"]),
            cfg.task_feature_lengths["inputs"],
        )
        caches.append(tokens)
    if not caches:
        raise UserError(
            f"{cfg.mixture_or_task_name!r} has no split {cfg.split!r}. Splits are "
            f"{', '.join(recipes.SPLITS)}, where the data folder has them."
        )
    return TokenBatches(
        caches,
        cfg.task_feature_lengths,
        cfg.batch_size // num_shards,
        seed=cfg.seed or 0,
        shuffle=cfg.shuffle,
        shard=(shard_id, num_shards),
        num_epochs=num_epochs,
    )
