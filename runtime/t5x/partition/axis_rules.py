"""Logical axis names of parameters and the rules that map them to mesh axes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from absl import logging
from flax.linen import partitioning as flax_partitioning
from jax.sharding import PartitionSpec

from t5x.errors import UserError

MeshAxis = str | tuple[str, ...] | None
LogicalAxisRules = Sequence[tuple[str, MeshAxis]]


class AxisNames(tuple):
    """Logical names of the axes of one array; a leaf for pytree functions."""

    __slots__ = ()

    def __new__(cls, *names: str | None) -> Self:
        return tuple.__new__(cls, names)

    def __repr__(self) -> str:
        return f"AxisNames{tuple.__repr__(self)}"


# Mesh axes for `embed`, by (activation, parameter) partitioning dimensions.
_EMBED_AXES: Mapping[tuple[int, int], tuple[MeshAxis, ...]] = {
    (1, 1): (None,),
    (2, 1): ("model",),
    (1, 2): ("data",),
    (2, 2): ("model", "data"),
}
_MODEL_AXES = ("vocab", "mlp", "heads", "joined_kv")
_REPLICATED_AXES = (
    "kv",
    "relpos_buckets",
    "abspos_buckets",
    "length",
    "layers",
    "stack",
    "mlp_activations",
)


def standard_logical_axis_rules(
    activation_partitioning_dims: int = 1,
    parameter_partitioning_dims: int = 1,
    additional_rules: LogicalAxisRules | None = None,
) -> LogicalAxisRules:
    """Returns the rules for the axis names of the T5 modules, in order of priority.

    Args:
        activation_partitioning_dims: 2 also shards `embed` over the model axis.
        parameter_partitioning_dims: 2 also shards `embed` over the data axis.
        additional_rules: appended, so that they apply after the standard ones.

    Returns:
        A list of (logical axis, mesh axis or None).

    Raises:
        UserError: a dimension count is neither 1 nor 2.
    """
    dims = (activation_partitioning_dims, parameter_partitioning_dims)
    if dims not in _EMBED_AXES:
        raise UserError(
            f"activation_partitioning_dims={dims[0]} and parameter_partitioning_dims="
            f"{dims[1]} are not supported: use 1 or 2 for each."
        )
    rules: list[tuple[str, MeshAxis]] = [("batch", "data")]
    rules += [(name, "model") for name in _MODEL_AXES]
    rules += [("embed", axis) for axis in _EMBED_AXES[dims]]
    rules += [(name, None) for name in _REPLICATED_AXES]
    return rules + list(additional_rules or ())


def logical_to_mesh_axes(
    name: str, logical_axes: Sequence[str | None], rules: LogicalAxisRules
) -> PartitionSpec:
    """Returns the partition spec of the array called `name`.

    Raises:
        UserError: no rule mentions one of the axis names.
    """
    known = {axis for axis, _ in rules}
    unknown = [axis for axis in logical_axes if axis is not None and axis not in known]
    if unknown:
        raise UserError(
            f"No rule for logical axis {unknown[0]!r} of {name} (axes "
            f"{tuple(logical_axes)}): add ('{unknown[0]}', 'model'), "
            f"('{unknown[0]}', 'data') or ('{unknown[0]}', None) to the partitioner's "
            "logical_axis_rules, for example with "
            "standard_logical_axis_rules(additional_rules=[...])."
        )
    try:
        spec = flax_partitioning.logical_to_mesh_axes(tuple(logical_axes), tuple(rules))
    except ValueError as e:
        raise ValueError(f"Failed to map logical axes for {name}") from e
    return PartitionSpec(*(spec or ()))


def _axis_size(axis: MeshAxis, mesh_shape: Mapping[str, int]) -> int:
    names = (axis,) if isinstance(axis, str) else (axis or ())
    return math.prod(mesh_shape[n] for n in names)


def drop_indivisible_axes(
    name: str, shape: Sequence[int], spec: PartitionSpec, mesh_shape: Mapping[str, int]
) -> PartitionSpec:
    """Replicates the dimensions that are not divisible by their mesh axis.

    XLA needs equal shards. T5 small has 6 heads, so its relative bias table (heads,
    buckets) cannot be split over 8 devices; each device keeps a copy of this small
    table. Each case is logged once, with advice.
    """
    entries: list[Any] = list(spec)
    for i, axis in enumerate(entries):
        size = _axis_size(axis, mesh_shape)
        if i < len(shape) and size > 1 and shape[i] % size:
            _warn_once(
                f"Parameter {name} of shape {tuple(shape)} is not sharded along "
                f"dimension {i}: {shape[i]} is not divisible by mesh axis {axis!r} of "
                f"size {size}, so each device keeps all of it. Choose a dimension that "
                f"is a multiple of {size}, or a num_partitions that divides {shape[i]}."
            )
            entries[i] = None
    return PartitionSpec(*entries)


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        logging.warning("%s", message)
