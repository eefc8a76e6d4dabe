"""Loads checkpoints of either layout, as nested dicts or as train states.

The arrays of a checkpoint are matched by name with the arrays of the train state to
fill, after renaming and transformations; no others are read.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import logging
from etils import epath
from flax import traverse_util
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from t5x import digests
from t5x.checkpoint.data_position import DatasetCheckpoint
from t5x.checkpoint.folders import locate
from t5x.checkpoint.sources import (
    CheckpointSource,
    LazyArray,
    StoredArray,
    open_source,
)
from t5x.distributed import place
from t5x.errors import UserError
from t5x.partition.partitioner import BasePartitioner
from t5x.state_utils import flatten_state_dict, unflatten

PyTree = Any
flatten = functools.partial(flatten_state_dict, keep_empty_nodes=True)
# Dtypes of parameters; other numbers need scales to be read.
_FLOATS = (np.float16, jnp.bfloat16, np.float32, np.float64)
# fn(state_dict, parameter_infos) -> (state_dict, parameter_infos)
SaveStateTransformationFn = Callable[[PyTree, PyTree], tuple[PyTree, PyTree]]
# fn(checkpoint_state_dict, target_state_dict) -> state dict in the target's names. The
# keyword `is_resuming` is True if an interrupted run continues.
RestoreStateTransformationFn = Callable[..., PyTree]


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """Metadata of one array that is saved."""

    name: str
    shape: tuple[int, ...]
    axes: PartitionSpec | None


def parameter_infos(train_state: Any, partitioner: BasePartitioner) -> PyTree:
    """Returns a tree like `train_state.state_dict()` with ParameterInfo leaves."""
    axes = flatten(partitioner.get_mesh_axes(train_state).state_dict())
    infos: dict[str, Any] = {}
    for name, leaf in flatten(train_state.state_dict()).items():
        if leaf is None or leaf is traverse_util.empty_node:
            infos[name] = leaf
        else:
            spec = axes.get(name)
            spec = spec if isinstance(spec, PartitionSpec) else None
            infos[name] = ParameterInfo(name, tuple(np.shape(leaf)), spec)
    return unflatten(infos)


def is_target(name: str) -> bool:
    """Returns whether a '/'-joined name is a parameter."""
    return name.split("/", 1)[0] == "target"


def to_dtype(dtype: Any) -> np.dtype | None:
    """Returns the numpy dtype of a name or a jax scalar type, or None."""
    return None if dtype is None else jnp.dtype(dtype)


class Deferred(NamedTuple):
    """A fallback value that is computed only if the checkpoint lacks it.

    `make` maps names to values; it is the same function in all leaves of a state.
    """

    make: Callable[[Sequence[str]], Mapping[str, jax.Array]]


def matched(
    source: CheckpointSource,
    path: Any,
    train_state: Any,
    state_transformation_fns: Sequence[RestoreStateTransformationFn],
    fallback: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Compares a checkpoint with the train state to fill; reads no array.

    Returns:
        Three dicts from '/'-joined names: all leaves of the train state, its arrays
            only, and the leaves of the checkpoint that fill them.

    Raises:
        UserError: names are missing, or shapes differ.
    """
    target = train_state.state_dict()
    tree: PyTree = source.tree
    for fn in state_transformation_fns:
        tree = fn(tree, target)
    stored, wanted = flatten(tree), flatten(target)
    needed = {name: leaf for name, leaf in wanted.items() if _has_value(leaf)}
    present = {n: stored[n] for n in needed if _has_value(stored.get(n))}
    _check_names(path, needed, present, fallback, stored)
    _check_shapes(path, needed, present)
    for name in sorted(set(stored) - set(present)):
        logging.info("Not restoring %s from %s.", name, path)
    return wanted, needed, present


def _computed(fallback: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Returns the values of the names; computes all deferred ones in one call."""
    deferred = [name for name in names if isinstance(fallback[name], Deferred)]
    made = fallback[deferred[0]].make(deferred) if deferred else {}
    return {name: made.get(name, fallback[name]) for name in names}


def _has_value(leaf: Any) -> bool:
    return leaf is not None and leaf is not traverse_util.empty_node


def _check_names(
    path: Any,
    needed: Mapping[str, Any],
    present: Mapping[str, Any],
    fallback: Mapping[str, Any],
    stored: Mapping[str, Any],
) -> None:
    missing = sorted(set(needed) - set(present) - set(fallback))
    if not missing:
        return
    unused = sorted(n for n in stored if n not in needed and _has_value(stored[n]))
    shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
    offered = ", ".join(unused[:5]) + (", ..." if len(unused) > 5 else "")
    raise UserError(
        f"Checkpoint {path} lacks {len(missing)} of the {len(needed)} arrays that the "
        f"model and optimizer need: {shown}. It has besides: {offered or 'nothing'}. "
        "Check that the model file matches the checkpoint, map old names to new ones "
        "with RestoreCheckpointConfig.assignment_map, or initialise the missing ones "
        "with fallback_to_scratch = True."
    )


def _check_shapes(
    path: Any, needed: Mapping[str, Any], present: Mapping[str, Any]
) -> None:
    for name, leaf in present.items():
        expected, got = tuple(np.shape(needed[name])), tuple(np.shape(leaf))
        if expected != got:
            raise UserError(
                f"Shape of `{name}` in checkpoint {path} {got} does not match expected "
                f"{expected}. Use the model size and vocabulary that the checkpoint "
                "was trained with."
            )
        wanted = getattr(needed[name], "dtype", None)
        dtype = getattr(leaf, "dtype", wanted)
        if wanted in _FLOATS and dtype not in _FLOATS:
            raise UserError(
                f"`{name}` in checkpoint {path} has dtype {dtype}, but must be "
                "float16, bfloat16, float32, or float64. Save it again in one of these."
            )


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
        state_transformation_fns: fn(checkpoint state dict, target state dict).
        fallback_state: state dict for names that the checkpoint lacks; its values are
            arrays or `Deferred`.
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
    source = open_source(where)
    fallback = flatten(fallback_state) if fallback_state is not None else {}
    wanted, needed, present = matched(
        source, where.root, train_state, state_transformation_fns, fallback
    )
    infos = flatten(parameter_infos(train_state, partitioner))

    def sharding_of(name: str) -> NamedSharding | None:
        if not partitioner.params_on_devices:
            return None
        return NamedSharding(partitioner.mesh, infos[name].axes or PartitionSpec())

    requests = {
        name: (leaf, sharding_of(name))
        for name, leaf in present.items()
        if isinstance(leaf, StoredArray)
    }
    values = dict(present if lazy_parameters else source.read(requests))
    made = _computed(fallback, [name for name in needed if name not in present])
    for name in needed:
        if name in values:
            continue
        leaf = present[name] if name in present else made[name]
        sharding = sharding_of(name)
        if not isinstance(leaf, jax.Array):
            leaf = np.asarray(leaf)
        values[name] = leaf if sharding is None else place(leaf, sharding)
    dtype = to_dtype(restore_dtype)
    for name, value in values.items():
        if dtype is not None and is_target(name) and value.dtype != dtype:
            values[name] = value.astype(dtype)
    if dataset is not None:
        dataset.restore(where.root)
    return train_state.restore_state(
        unflatten({name: values.get(name, leaf) for name, leaf in wanted.items()})
    )


def check_restorable(path: str, restore_cfg: Any, train_state: Any = None) -> None:
    """Checks from the metadata that a checkpoint fits a train state of shapes.

    Without a train state it only checks that the checkpoint exists.
    """
    where = locate(path)
    if train_state is None:
        return
    fallback = (
        flatten(train_state.state_dict()) if restore_cfg.fallback_to_scratch else {}
    )
    fns = restore_cfg.state_transformation_fns
    matched(open_source(where), where.root, train_state, fns, fallback)


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
