"""Device meshes with the axes 'data' and 'model', and rules from named axes to them."""

import collections
import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np
from absl import logging
from flax.linen import partitioning as flax_partitioning
from jax.experimental import mesh_utils
from jax.sharding import Mesh, PartitionSpec

from t5x.errors import UserError

HardwareMesh = tuple[int, ...]
_AXES = ("data", "model")
_MULTI_SLICE_AXES = ("replica", "data", "model")


def _check_divides(parts: int, devices: int, what: str) -> None:
    if parts < 1 or devices % parts:
        divisors = [d for d in range(1, devices + 1) if devices % d == 0]
        raise UserError(
            f"{what} asks for {parts} model partitions, which does not divide the "
            f"{devices} devices: use one of {divisors}."
        )


def get_cpu_mesh() -> Mesh:
    """Returns a mesh (processes, devices per process): model axis on one host."""
    devices = sorted(jax.devices("cpu"), key=lambda d: (d.process_index, d.id))
    return Mesh(np.array(devices).reshape(jax.process_count(), -1), _AXES)


def get_gpu_mesh(num_partitions: int) -> Mesh:
    """Returns a GPU mesh with as much of the model axis as possible inside a host."""
    local, hosts = jax.local_device_count(), jax.process_count()
    _check_divides(num_partitions, local * hosts, f"num_partitions={num_partitions}")
    local_model = math.gcd(num_partitions, local)
    host_model = num_partitions // local_model
    if hosts % host_model:
        raise UserError(
            f"num_partitions={num_partitions} must divide the {local} GPUs of a host "
            f"or be a multiple of them (there are {hosts} hosts)."
        )
    ici, dcn = (local // local_model, local_model), (hosts // host_model, host_model)
    devices = mesh_utils.create_hybrid_device_mesh(ici, dcn, process_is_granule=True)
    return Mesh(devices, _AXES)


def get_mesh(
    model_parallel_submesh: HardwareMesh,
    input_devices: Sequence[jax.Device] = (),
    backend: str | None = None,
) -> Mesh:
    """Returns a mesh whose model axis has prod(model_parallel_submesh) devices.

    JAX places the logical axes on the hardware, so only the product of the four TPU
    numbers (x, y, z, core) matters.
    """
    devices = list(input_devices) or jax.devices(backend)
    model = math.prod(model_parallel_submesh)
    what = f"model_parallel_submesh={tuple(model_parallel_submesh)}"
    _check_divides(model, len(devices), what)
    shape = (len(devices) // model, model)
    return Mesh(mesh_utils.create_device_mesh(shape, devices), _AXES)


def _multi_slice_mesh(
    ici_mesh_shape: HardwareMesh, dcn_mesh_shape: HardwareMesh, backend: str | None
) -> Mesh:
    devices = jax.devices(backend)
    ici, dcn = tuple(ici_mesh_shape), tuple(dcn_mesh_shape)
    total = math.prod(ici) * math.prod(dcn)
    if len(ici) != 3 or len(dcn) != 3 or total != len(devices):
        raise UserError(
            f"ici_mesh_shape={ici} and dcn_mesh_shape={dcn} must be (replica, data, "
            f"model) triples whose product, here {total}, is the number of devices, "
            f"{len(devices)}."
        )
    if math.prod(dcn) == 1:
        grid = mesh_utils.create_device_mesh(ici, devices)
    else:
        grid = mesh_utils.create_hybrid_device_mesh(
            ici, dcn, devices, process_is_granule=not hasattr(devices[0], "slice_index")
        )
    return Mesh(grid, _MULTI_SLICE_AXES)


def default_mesh(
    num_partitions: int | None,
    model_parallel_submesh: HardwareMesh | None = None,
    backend: str | None = None,
    ici_mesh_shape: HardwareMesh | None = None,
    dcn_mesh_shape: HardwareMesh | None = None,
) -> Mesh:
    """Returns a mesh of all devices: from explicit shapes, or a default per platform.

    On CPU the default mesh is (processes, local devices), regardless of
    `num_partitions`; `model_parallel_submesh=(1, 1, 1, 1)` gives pure data parallelism
    there.
    """
    platform = jax.devices(backend)[-1].platform
    if ici_mesh_shape is not None and dcn_mesh_shape is not None:
        mesh = _multi_slice_mesh(ici_mesh_shape, dcn_mesh_shape, backend)
    elif model_parallel_submesh:
        mesh = get_mesh(model_parallel_submesh, backend=backend)
    elif platform == "cpu":
        asked, found = num_partitions or 1, len(jax.devices("cpu"))
        if asked > found:
            _check_divides(asked, found, f"num_partitions={asked}")
        mesh = get_cpu_mesh()
    elif platform in ("gpu", "cuda", "rocm"):
        mesh = get_gpu_mesh(num_partitions or 1)
    else:
        n = num_partitions or 1
        _check_divides(n, len(jax.devices(backend)), f"num_partitions={n}")
        mesh = get_mesh((n, 1, 1, 1), backend=backend)
    logging.info("Device mesh: %s", dict(mesh.shape))
    return mesh


@dataclasses.dataclass
class LocalChunkInfo:
    """Part of a global array that lies on the devices of this process.

    `replica_id` is its index among the processes that hold the same slice.
    """

    slice: tuple[slice, ...]
    replica_id: int


class LocalChunker:
    """Position of this process along each axis of the mesh.

    Attributes:
        num_chunks: axis -> number of distinct groups of coordinates over processes.
        chunk_ids: axis -> index of this process's group.
    """

    def __init__(self, global_mesh: Mesh):
        self.global_mesh = global_mesh
        self.mesh_axes = list(global_mesh.axis_names)
        self.num_chunks: dict[str, int] = {}
        self.chunk_ids: dict[str, int] = {}
        coordinates: dict[int, list[tuple[int, ...]]] = collections.defaultdict(list)
        for index, device in np.ndenumerate(global_mesh.devices):
            coordinates[device.process_index].append(index)
        for i, axis in enumerate(self.mesh_axes):
            groups = {p: frozenset(c[i] for c in cs) for p, cs in coordinates.items()}
            distinct = sorted(set(groups.values()), key=min)
            if sum(map(len, distinct)) != global_mesh.shape[axis]:
                raise UserError(
                    f"The devices of a host overlap those of another along mesh axis "
                    f"{axis!r} of {dict(global_mesh.shape)}: choose num_partitions or "
                    "model_parallel_submesh so that one divides the other."
                )
            self.num_chunks[axis] = len(distinct)
            self.chunk_ids[axis] = distinct.index(groups[jax.process_index()])

    def get_shard_id(self, sharded_mesh_axes: str | Sequence[str]) -> int:
        """Returns the index of this process along the given axes, row-major."""
        rank = 0
        for axis in _names(sharded_mesh_axes):
            rank = rank * self.num_chunks[axis] + self.chunk_ids[axis]
        return rank

    def get_replica_id(self, sharded_mesh_axes: str | Collection[str]) -> int:
        """Returns the index of this process along all other axes, row-major."""
        sharded = _names(sharded_mesh_axes)
        return self.get_shard_id([a for a in self.mesh_axes if a not in sharded])

    def get_local_chunk_info(
        self, global_shape: tuple[int, ...], mesh_axes: Sequence[str | None]
    ) -> LocalChunkInfo:
        """Returns this process's slice of an array sharded along `mesh_axes`."""
        slices = [slice(None)] * len(global_shape)
        sharded = [axis for axis in mesh_axes if axis]
        for i, axis in enumerate(mesh_axes):
            if axis:
                size = global_shape[i] // self.num_chunks[axis]
                start = self.chunk_ids[axis] * size
                slices[i] = slice(start, start + size)
        return LocalChunkInfo(tuple(slices), self.get_replica_id(sharded))


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
    """Returns the partition spec of the array called `name`."""
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


def _names(axes: Any) -> Any:
    return (axes,) if isinstance(axes, str) else (axes or ())


def drop_indivisible_axes(
    name: str, shape: Sequence[int], spec: PartitionSpec, mesh_shape: Mapping[str, int]
) -> PartitionSpec:
    """Replicates dimensions that are not divisible by their mesh axis; warns once.

    XLA needs equal shards, and T5 small has 6 heads.
    """
    entries: list[Any] = list(spec)
    for i, axis in enumerate(entries):
        size = math.prod(mesh_shape[name] for name in _names(axis))
        if i < len(shape) and size > 1 and shape[i] % size:
            _warn_once(
                f"Parameter {name} of shape {tuple(shape)} is not sharded along "
                f"dimension {i}: {shape[i]} is not divisible by mesh axis {axis!r} of "
                f"size {size}, so each device keeps all of it. Choose a dimension that "
                f"is a multiple of {size}, or a num_partitions that divides {shape[i]}."
            )
            entries[i] = None
    return PartitionSpec(*entries)


@functools.cache
def _warn_once(message: str) -> None:
    logging.warning("%s", message)
