"""Loads checkpoints of any layout."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from etils import epath
from flax import traverse_util

from t5x import digests
from t5x.checkpoint import importer
from t5x.checkpoint.data_position import DatasetCheckpoint
from t5x.checkpoint.folders import get_checkpoint_dir, locate
from t5x.checkpoint.lazy_array import LazyArray
from t5x.checkpoint.sources import StoredArray, open_source
from t5x.checkpoint.state_dict import (
    RestoreStateTransformationFn,
    flatten,
    is_target,
    matched,
    restore_state_dict,
    to_dtype,
    unflatten,
)
from t5x.errors import UserError
from t5x.partition.base_partitioner import BasePartitioner

PyTree = Any


def _is_state(name: str) -> bool:
    # Data positions are verified when they are restored; loading only the weights does
    # not need them.
    return not digests.is_data_position(name)


def restore_train_state(
    path: epath.PathLike,
    train_state: Any,
    partitioner: BasePartitioner,
    *,
    dataset: DatasetCheckpoint | None = None,
    state_transformation_fns: Sequence[RestoreStateTransformationFn] = (),
    fallback_state: Mapping[str, Any] | None = None,
    restore_dtype: Any = None,
    lazy_parameters: bool = False,
) -> Any:
    """Restores `train_state` from an orbax or legacy checkpoint.

    Args:
        path: a `checkpoint_N` folder, its msgpack file, or a model folder.
        train_state: state of arrays or shapes to fill.
        partitioner: decides where the arrays go.
        dataset: data iterator to move to the stored position, or None.
        state_transformation_fns: fn(checkpoint state dict, target state dict).
        fallback_state: state dict for names that the checkpoint lacks.
        restore_dtype: dtype of the parameters; None keeps the stored one.
        lazy_parameters: whether to leave arrays on disk; needs params_on_devices=False.

    Raises:
        UserError: there is no checkpoint, names are missing, shapes differ, or it is
            damaged.
    """
    if lazy_parameters and partitioner.params_on_devices:
        raise UserError(
            "Lazy parameters cannot be copied to devices: set "
            "partitioner.params_on_devices = False."
        )
    where = locate(path)
    logging.info("Restoring from %s checkpoint %s.", where.layout, where.root)
    digests.verify(where.root, _is_state, share=True)
    state_dict = restore_state_dict(
        open_source(where),
        where.root,
        train_state,
        partitioner,
        state_transformation_fns=state_transformation_fns,
        fallback_state=fallback_state,
        restore_dtype=restore_dtype,
        lazy_parameters=lazy_parameters,
    )
    if dataset is not None:
        dataset.restore(where.root)
    return train_state.restore_state(state_dict)


class Restorer(abc.ABC):
    """Restores a train state; the common part of both checkpoint managers."""

    def __init__(
        self,
        folder: epath.PathLike,
        train_state: Any,
        partitioner: BasePartitioner,
        dataset_iterator: Any,
        restore_dtype: Any,
    ):
        self._folder = folder
        self._train_state = train_state
        self._partitioner = partitioner
        self._dataset = DatasetCheckpoint(dataset_iterator, partitioner)
        self.restore_dtype = restore_dtype
        # Set to False if the iterator is saved but must start afresh (fine-tuning).
        self.restore_dataset = True

    @abc.abstractmethod
    def latest_step(self) -> int | None:
        """Returns the newest step, or None."""

    def _restore(
        self, step: int | None, path: epath.PathLike | None, **options: Any
    ) -> Any:
        """Restores a step (default: the newest), or any checkpoint by its path.

        Args:
            step: step in the folder of the manager.
            path: checkpoint in any layout; excludes `step`.
            **options: see `restore_train_state`.

        Raises:
            ValueError: both `step` and `path` are given.
            UserError: there is nothing to restore, or it does not match the train
                state.
        """
        if step is not None and path is not None:
            raise ValueError("At most one of `step` or `path` may be provided.")
        if path is None:
            step = self.latest_step() if step is None else step
            if step is None:
                raise UserError(f"No checkpoints found in {self._folder}.")
            path = get_checkpoint_dir(self._folder, step)
        return restore_train_state(
            path,
            self._train_state,
            self._partitioner,
            dataset=self._dataset if self.restore_dataset else None,
            restore_dtype=self.restore_dtype,
            **options,
        )

    def restore_from_tf_checkpoint(
        self,
        path_or_dir: str,
        strict: bool = True,
        translator: importer.CheckpointTranslator | None = None,
    ) -> Any:
        """Restores a train state from a Mesh TensorFlow T5 checkpoint.

        Args:
            path_or_dir: prefix `model.ckpt-N` or the folder that holds it.
            strict: whether to refuse variables that the train state lacks.
            translator: rules from TensorFlow to T5X names; the T5 rules by default.
        """
        state, dtype = self._train_state, self.restore_dtype
        source = importer.TensorFlowSource(
            path_or_dir, state.state_dict(), strict=strict, translator=translator
        )
        return state.restore_state(
            restore_state_dict(
                source, path_or_dir, state, self._partitioner, restore_dtype=dtype
            )
        )


def check_restorable(path: str, restore_cfg: Any, train_state: Any = None) -> None:
    """Checks from the metadata that a checkpoint can be restored.

    Args:
        path: as for `restore_train_state`, or `model.ckpt-N`.
        restore_cfg: a RestoreCheckpointConfig.
        train_state: state of shapes to fill; None only checks that the checkpoint
            exists.

    Raises:
        UserError: there is no checkpoint, names are missing, or shapes differ.
    """
    where = locate(path)
    if train_state is None:
        return
    fns = restore_cfg.state_transformation_fns
    source: Any
    if where.layout == "tensorflow":
        source = importer.TensorFlowSource(
            path, train_state.state_dict(), strict=restore_cfg.strict
        )
    else:
        source = open_source(where)
    fallback = (
        flatten(train_state.state_dict()) if restore_cfg.fallback_to_scratch else {}
    )
    matched(source, where.root, train_state, fns, fallback)


def load_t5x_checkpoint(
    path: epath.PathLike,
    step: int | None = None,
    state_transformation_fns: Sequence[RestoreStateTransformationFn] = (),
    remap: bool = True,
    restore_dtype: Any = None,
    lazy_parameters: bool = False,
) -> PyTree:
    """Loads an orbax or legacy checkpoint without knowing the model.

    Args:
        path: model folder, `checkpoint_N` folder, or msgpack file.
        step: step to take from a model folder; the newest by default.
        state_transformation_fns: applied in order to the tree, with an empty target.
        remap: whether to apply `state_transformation_fns`.
        restore_dtype: dtype of the arrays under `target`; None keeps the stored one.
        lazy_parameters: whether to return LazyArray leaves instead of numpy arrays.

    Returns:
        {'target': ..., 'state': {'step': ..., 'param_states': ...}} as nested dicts.

    Raises:
        UserError: there is no complete checkpoint, or it is damaged.
    """
    where = locate(path, step)
    digests.verify(where.root, _is_state)
    source = open_source(where)
    tree: PyTree = source.tree
    for fn in state_transformation_fns if remap else ():
        tree = fn(tree, {})
    flat, dtype = flatten(tree), to_dtype(restore_dtype)
    requests = {n: (x, None) for n, x in flat.items() if isinstance(x, StoredArray)}
    values = {} if lazy_parameters else source.read(requests)
    out: dict[str, Any] = {}
    for name, leaf in flat.items():
        value = values.get(name, leaf)
        if isinstance(value, LazyArray) and not lazy_parameters:
            value = value.get()
        cast = dtype is not None and is_target(name)
        empty = value is None or value is traverse_util.empty_node
        if cast and not empty:
            value = value if isinstance(value, LazyArray) else np.asarray(value)
            value = value.astype(dtype)
        out[name] = value
    return unflatten(out)
