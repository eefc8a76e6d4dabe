"""Device meshes with the axes 'data' and 'model', and their layout over hosts."""

import collections
import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import NoReturn

import jax
import numpy as np
from absl import logging
from jax.experimental import mesh_utils
from jax.sharding import Mesh

from t5x.errors import UserError

HardwareMesh = tuple[int, ...]
_AXES = ("data", "model")
_MULTI_SLICE_AXES = ("replica", "data", "model")


def _check_divides(parts: int, devices: int, what: str) -> None:
    if parts < 1 or devices % parts:
        _refuse_partitions(parts, devices, what)


def _refuse_partitions(parts: int, devices: int, what: str) -> NoReturn:
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
    """Returns a GPU mesh with as much of the model axis as possible inside a host.

    Raises:
        UserError: `num_partitions` neither divides the devices of a host nor is a
            multiple of them that divides all devices.
    """
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

    Raises:
        UserError: there are more partitions than devices, or a number does not divide
            them.
    """
    platform = jax.devices(backend)[-1].platform
    if ici_mesh_shape is not None and dcn_mesh_shape is not None:
        mesh = _multi_slice_mesh(ici_mesh_shape, dcn_mesh_shape, backend)
    elif model_parallel_submesh:
        mesh = get_mesh(model_parallel_submesh, backend=backend)
    elif platform == "cpu":
        asked, found = num_partitions or 1, len(jax.devices("cpu"))
        if asked > found:
            _refuse_partitions(asked, found, f"num_partitions={asked}")
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

    Attributes:
        slice: one slice per dimension.
        replica_id: index of this process among those that hold the same slice.
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

    def _rank(self, axes: Sequence[str]) -> int:
        rank = 0
        for axis in axes:
            rank = rank * self.num_chunks[axis] + self.chunk_ids[axis]
        return rank

    def get_shard_id(self, sharded_mesh_axes: str | Sequence[str]) -> int:
        """Returns the index of this process along the given axes, row-major."""
        if isinstance(sharded_mesh_axes, str):
            sharded_mesh_axes = (sharded_mesh_axes,)
        return self._rank(sharded_mesh_axes)

    def get_replica_id(self, sharded_mesh_axes: str | Collection[str]) -> int:
        """Returns the index of this process along all other axes, row-major."""
        if isinstance(sharded_mesh_axes, str):
            sharded_mesh_axes = (sharded_mesh_axes,)
        return self._rank([a for a in self.mesh_axes if a not in sharded_mesh_axes])

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
