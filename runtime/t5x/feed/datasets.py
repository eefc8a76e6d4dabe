"""Datasets and feature converters of SeqIO; it and TensorFlow are imported late."""

import dataclasses
import inspect
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from absl import logging

from t5x import distributed
from t5x.errors import UserError
from t5x.feed.registered import DatasetConfig, task_or_mixture
from t5x.model.base_model import LazyAttribute

GetDatasetCallable = Callable[..., Any]
"""Interface of `get_dataset_fn`, with the arguments of `get_dataset`.

The result holds the batches of one shard. It is a `tf.data.Dataset`, a
`clu.data.dataset_iterator.DatasetIterator`, or any iterator of dicts of arrays with
`element_spec`. To be resumable, an iterator also has `save(path)` and `restore(path)`.
A batch holds `cfg.batch_size / num_shards` rows.
"""

GetEvalDatasetCallable = Callable[..., Mapping[str, Any]]
"""Interface of `train_eval_get_dataset_fn`: task name -> iterable of batches.

Its arguments are the first five of `get_training_eval_datasets`.
"""


def per_shard_batch_size(cfg: DatasetConfig, num_shards: int) -> int:
    """Returns the number of rows per batch that one shard reads."""
    if cfg.batch_size % num_shards:
        raise UserError(
            f"Batch size ({cfg.batch_size}) must be divisible by number of shards "
            f"({num_shards}) that read {cfg.name!r}; choose a multiple of {num_shards} "
            "for DatasetConfig.batch_size."
        )
    return cfg.batch_size // num_shards


def fresh_seed() -> int:
    """Returns a seed from the clock of process 0, equal on all processes."""
    return int(distributed.broadcast_one_to_all(np.int32(int(time.time()))))


def require_same_seed(cfg: DatasetConfig) -> None:
    """Raises AssertionError if the seed differs between processes.

    All processes must call it equally often.
    """
    distributed.multihost_assert_equal(
        np.array(cfg.seed),
        f"DatasetConfig.seed of {cfg.name!r} differs between processes.",
    )


def get_dataset(
    cfg: DatasetConfig,
    shard_id: int,
    num_shards: int,
    feature_converter_cls: Callable[..., Any],
    num_epochs: int | None = None,
    continue_from_last_checkpoint: bool = False,
) -> Any:
    """Returns the batched `tf.data.Dataset` of one shard of a SeqIO Task or Mixture.

    Args:
        cfg: configuration of the data. A `seed` of None means a seed from the clock.
        num_shards: number of shards; a batch has `cfg.batch_size / num_shards` rows.
        num_epochs: number of passes over the data; None repeats it without end.
        continue_from_last_checkpoint: must be False; the train loop restores iterators.

    Raises:
        UserError: the name is unknown, the split is missing, or the batch size is not
            divisible by the number of shards.
        ValueError: `continue_from_last_checkpoint` is True.
    """
    import seqio

    if continue_from_last_checkpoint:
        raise ValueError(
            "get_dataset cannot continue from the last checkpoint by itself; the train "
            "loop restores the iterator (SaveCheckpointConfig.save_dataset)."
        )
    per_shard_batch_size(cfg, num_shards)
    return get_dataset_inner(
        cfg,
        seqio.ShardInfo(index=shard_id, num_shards=num_shards),
        feature_converter_cls,
        fresh_seed() if cfg.seed is None else cfg.seed,
        num_epochs,
    )


def get_dataset_inner(
    cfg: DatasetConfig,
    shard_info: Any,
    feature_converter_cls: Callable[..., Any],
    seed: int | None = None,
    num_epochs: int | None = None,
) -> Any:
    """Returns the dataset of `get_dataset` for an explicit shard and seed."""
    import seqio

    source = task_or_mixture(cfg)
    if not hasattr(source, "get_dataset"):
        raise UserError(
            f"{cfg.name!r} is no task or mixture of SeqIO, which is what "
            "utils.get_dataset reads. Set train.get_dataset_fn to the function that "
            "reads it, such as @token_feed.get_dataset."
        )
    splits = getattr(source, "splits", None)
    if splits and cfg.split not in splits:
        raise UserError(
            f"{cfg.name!r} has no split {cfg.split!r}; it has {sorted(splits)}."
        )
    return seqio.get_dataset(
        mixture_or_task_name=source,
        task_feature_lengths=cfg.task_feature_lengths,
        dataset_split=cfg.split,
        shuffle=cfg.shuffle,
        num_epochs=num_epochs,
        feature_converter=feature_converter_cls(
            pack=cfg.pack, use_custom_packing_ops=cfg.use_custom_packing_ops
        ),
        shard_info=shard_info,
        use_cached=cfg.use_cached,
        seed=seed,
        trim_output_features=cfg.trim_output_features,
        batch_size=cfg.batch_size // shard_info.num_shards,
    )


def get_training_eval_datasets(
    cfg: DatasetConfig,
    shard_id: int,
    num_shards: int,
    eval_steps: int,
    feature_converter_cls: Callable[..., Any],
    deterministic: bool = False,
    model_dir: str | None = None,
    start_step: int = 0,
) -> Mapping[str, Any]:
    """Returns task name -> `tf.data.Dataset` for evaluation with teacher forcing.

    Every task that has the split gets `eval_steps` batches; its examples repeat if
    there are fewer. A mixture also gets its own dataset. Rows are distributed to the
    shards after conversion, so uneven shards are allowed. The evaluation order depends
    only on `cfg.seed`, so the T5X arguments `deterministic`, `model_dir`, and
    `start_step` have no effect.
    """
    import seqio

    del deterministic, model_dir, start_step
    if cfg.seed is not None:
        require_same_seed(cfg)
    rows = per_shard_batch_size(cfg, num_shards)
    source = task_or_mixture(cfg)
    tasks = {}
    for task in seqio.get_subtasks(source):
        if cfg.split in task.splits:
            tasks[task.name] = task
        else:
            logging.info(
                "Task %s has no split %s: not evaluated.", task.name, cfg.split
            )
    if isinstance(source, seqio.Mixture) and tasks:
        tasks[source.name] = source

    datasets = {}
    for name, task in tasks.items():
        batches = get_dataset(
            dataclasses.replace(cfg, mixture_or_task_name=task, batch_size=1),
            shard_id=0,
            num_shards=1,
            feature_converter_cls=feature_converter_cls,
            # Finite, so that a task whose examples are all filtered out cannot hang.
            num_epochs=eval_steps * cfg.batch_size,
        )
        batches = batches.unbatch().repeat().shard(num_shards, shard_id)
        batches = batches.batch(rows, drop_remainder=True).take(eval_steps)
        datasets[name] = batches.cache() if cfg.use_memory_cache else batches
    return datasets


def get_zeros_batch_like_spec(
    batch_spec: Mapping[str, jax.ShapeDtypeStruct],
) -> Mapping[str, jax.Array]:
    """Returns a batch of zeros with the given shapes and types."""
    return {k: jax.numpy.zeros(s.shape, s.dtype) for k, s in batch_spec.items()}


def get_zeros_batch_like_dataset(
    dataset: Any, batch_size: int | None = None
) -> Mapping[str, jax.Array]:
    """Returns zeros with the shapes and types of a dataset's batch.

    A `batch_size` replaces the number of rows.
    """
    spec = {}
    for name, feature in dataset.element_spec.items():
        dtype = getattr(feature.dtype, "as_numpy_dtype", feature.dtype)
        shape = tuple(feature.shape)
        if batch_size is not None:
            shape = (batch_size, *shape[1:])
        spec[name] = jax.ShapeDtypeStruct(shape, dtype)
    return get_zeros_batch_like_spec(spec)


_NAME = "FEATURE_CONVERTER_CLS"


class LazyConverter:
    """A model's feature converter or its class, imported from seqio on first use.

    Attributes:
        kind: module and name of the class, such as "seqio:EncDecFeatureConverter"; None
            if the model defines another class.
    """

    def __init__(self, model: Any, make: Callable[[Any], Any]):
        found = inspect.getattr_static(model, _NAME, None)
        self.kind = found.path if isinstance(found, LazyAttribute) else None
        self._model, self._make = model, make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._make(self._model)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(self._model), name)


def class_of(model: Any) -> Any:
    """Returns the model's feature converter class; imports seqio only if needed."""
    return _late(model, lambda model: model.FEATURE_CONVERTER_CLS)


def unpacked_of(model: Any) -> Any:
    """Returns the model's converter without packing; imports seqio only if needed.

    SeqIO's own converters run without AutoGraph, which would only take time.
    """
    return _late(model, _unpacked)


def _late(model: Any, make: Callable[[Any], Any]) -> Any:
    return make(model) if "seqio" in sys.modules else LazyConverter(model, make)


def _unpacked(model: Any) -> Any:
    cls = model.FEATURE_CONVERTER_CLS
    if cls.__module__ == "seqio.feature_converters":
        import tensorflow as tf

        call = tf.autograph.experimental.do_not_convert(cls.__call__)
        own = {"__call__": call, "__module__": cls.__module__}
        cls = type(cls.__name__, (cls,), own)
    return cls(pack=False)
