"""Partitioned functions and train states: jax.jit with NamedSharding on a mesh."""

import contextlib
import contextvars
import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from absl import logging
from flax import traverse_util
from flax.linen import partitioning as flax_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t5x import checks
from t5x.distributed import place, process_local_to_global
from t5x.errors import UserError
from t5x.on_cpu import features
from t5x.partition.mesh import (
    HardwareMesh,
    LocalChunker,
    LocalChunkInfo,
    LogicalAxisRules,
    default_mesh,
    drop_indivisible_axes,
    logical_to_mesh_axes,
    standard_logical_axis_rules,
)
from t5x.state_utils import as_container, flatten_state_dict, unflatten

PyTree = Any

# Whether the caller runs inside `mesh_context`.
_INSIDE = contextvars.ContextVar("inside a mesh", default=False)


@contextlib.contextmanager
def mesh_context(mesh: Mesh, rules: LogicalAxisRules) -> Iterator[None]:
    # flax's logical constraints look for the mesh set by `with mesh:`, which JAX
    # keeps but calls deprecated; jax.set_mesh would not reach them.
    token = _INSIDE.set(not mesh.empty)
    try:
        with mesh, flax_partitioning.axis_rules(tuple(rules)):
            yield
    finally:
        _INSIDE.reset(token)


def global_mesh_defined() -> bool:
    """Returns whether the caller runs inside the mesh of a partitioned function."""
    return _INSIDE.get()


def with_sharding_constraint(x: PyTree, axis_resources: PyTree) -> PyTree:
    """Applies jax.lax.with_sharding_constraint, except on CPU or outside a mesh."""
    if jax.devices()[0].platform == "cpu" or not global_mesh_defined():
        return x
    return jax.lax.with_sharding_constraint(x, axis_resources)


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, (PartitionSpec, jax.sharding.Sharding))


def to_shardings(axis_resources: PyTree, mesh: Mesh) -> PyTree:
    """Converts PartitionSpec and None leaves to Sharding leaves."""

    def convert(spec: Any) -> jax.sharding.Sharding:
        if isinstance(spec, jax.sharding.Sharding):
            return spec
        return NamedSharding(mesh, PartitionSpec() if spec is None else spec)

    return jax.tree.map(convert, axis_resources, is_leaf=_is_spec)


def map_prefix(
    fn: Callable[[Any, NamedSharding], Any], shardings: PyTree, tree: PyTree
) -> PyTree:
    """Maps fn(leaf, sharding) where `shardings` is a prefix of `tree`."""
    return jax.tree.map(
        lambda s, sub: jax.tree.map(lambda x: fn(x, s), sub), shardings, tree
    )


def _to_global(x: Any, sharding: NamedSharding) -> Any:
    """Converts one argument of a multi-process call to a global array."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        return x
    if isinstance(x, jax.ShapeDtypeStruct) or sharding.is_fully_addressable:
        return x
    if jax.dtypes.issubdtype(getattr(x, "dtype", np.int32), jax.dtypes.prng_key):
        return x
    first = sharding.spec[0] if len(sharding.spec) else None
    rest_whole = all(axis is None for axis in sharding.spec[1:])
    # Only batches, which are sharded by the data axis alone, are given as local rows.
    if first is not None and rest_whole and "data" in np.atleast_1d(first):
        return process_local_to_global(x, sharding)
    return place(x, sharding)


class PjittedFnWithContext:
    """A jitted function that runs inside its mesh and axis-rules contexts.

    In multi-process runs, numpy and local jax arguments are first converted to global
    arrays. Arguments sharded by the data axis hold this host's rows of the batch; all
    others are whole values that every host holds.
    """

    def __init__(
        self,
        pjitted_fn: Any,
        partition_mesh: Mesh,
        logical_axis_rules: LogicalAxisRules = (),
        in_shardings: PyTree = None,
        static_argnums: Sequence[int] = (),
    ):
        self._pjitted_fn = pjitted_fn
        self._mesh = partition_mesh
        self._logical_axis_rules = logical_axis_rules
        self._in_shardings = in_shardings
        self._static_argnums = tuple(static_argnums)
        self._is_compiled = False

    def _globalise(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if jax.process_count() == 1 or self._in_shardings is None:
            return args
        dynamic = [i for i in range(len(args)) if i not in self._static_argnums]
        shardings = self._in_shardings
        if isinstance(shardings, NamedSharding):
            shardings = (shardings,) * len(dynamic)
        out = list(args)
        for i, sharding in zip(dynamic, shardings, strict=True):
            out[i] = map_prefix(_to_global, sharding, args[i])
        return tuple(out)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with mesh_context(self._mesh, self._logical_axis_rules):
            args = self._globalise(args)
            if self._is_compiled:  # Compiled programs take no static arguments.
                static = self._static_argnums
                args = tuple(arg for i, arg in enumerate(args) if i not in static)
            return self._pjitted_fn(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the lowered computation for these arguments (arrays or shapes)."""
        with mesh_context(self._mesh, self._logical_axis_rules):
            return self._pjitted_fn.lower(*self._globalise(args), **kwargs)

    def with_compiled(self, *args: Any) -> "PjittedFnWithContext":
        """Returns this function compiled for `args`, static arguments included."""
        lowered = self.lower(*args)
        compiled = lowered.compile(features.compiler_options(lowered))
        found = copy.copy(self)
        found._pjitted_fn, found._is_compiled = compiled, True
        return found

    def __getattr__(self, name: str) -> Any:
        # Forwards cost_analysis(), memory_analysis(), and as_text() of the compiled
        # object.
        if name.startswith("__") or name == "_pjitted_fn":
            raise AttributeError(name)
        return getattr(self._pjitted_fn, name)


PartitionedCallable = Callable[..., Any]
CompiledPartitionedCallable = Callable[..., Any]


@dataclasses.dataclass
class DataLayout:
    """Distribution of a global batch over hosts.

    Attributes:
        batch_size: examples of the global batch.
        shard_id: index of the data shard that this process feeds.
        num_shards: number of data shards; each is read by at least one process.
        is_first_host_in_replica_set: False if another process feeds the same shard and
            writes for it.
    """

    batch_size: int
    shard_id: int
    num_shards: int
    is_first_host_in_replica_set: bool


class BasePartitioner:
    """Maps a train state and functions over it to a mesh; replicates all arrays."""

    def __init__(
        self,
        num_partitions: int | None = None,
        model_parallel_submesh: HardwareMesh | None = None,
        params_on_devices: bool = True,
        backend: str | None = None,
        ici_mesh_shape: HardwareMesh | None = None,
        dcn_mesh_shape: HardwareMesh | None = None,
    ):
        """Stores the shape of the mesh, which is built at first use.

        Args:
            num_partitions: size of the model axis.
            model_parallel_submesh: (x, y, z, core) of the model axis; overrides
                `num_partitions`.
            params_on_devices: whether restored parameters go to the devices instead of
                host memory.
            backend: platform name given to jax.devices.
            ici_mesh_shape: (replica, data, model) inside a slice.
            dcn_mesh_shape: (replica, data, model) over slices; with `ici_mesh_shape` it
                gives a mesh of three axes.

        Raises:
            UserError: neither `num_partitions` nor `model_parallel_submesh` is given, a
                number is below 1, or a submesh is not a 4-tuple.
        """
        if num_partitions:
            checks.whole_number(
                "PjitPartitioner.num_partitions", num_partitions, least=1
            )
        if not num_partitions and not model_parallel_submesh:
            raise UserError(
                "At least one of `num_partitions` or `model_parallel_submesh` must be "
                "set: for example PjitPartitioner.num_partitions = 1."
            )
        if model_parallel_submesh is not None and len(model_parallel_submesh) != 4:
            raise UserError(
                "`model_parallel_submesh` must be a 4-tuple (x, y, z, core), got "
                f"{model_parallel_submesh!r}."
            )
        if num_partitions and model_parallel_submesh:
            logging.warning(
                "num_partitions=%r is ignored because model_parallel_submesh=%r is "
                "set.",
                num_partitions,
                model_parallel_submesh,
            )
        multi_slice = ici_mesh_shape is not None and dcn_mesh_shape is not None
        self._data_axis: Any = ("replica", "data") if multi_slice else "data"
        self._num_partitions = num_partitions
        self._model_parallel_submesh = model_parallel_submesh
        self.params_on_devices = params_on_devices
        self._backend = backend
        self._ici_mesh_shape = ici_mesh_shape
        self._dcn_mesh_shape = dcn_mesh_shape

    @cached_property
    def _local_chunker(self) -> LocalChunker:
        return LocalChunker(self.mesh)

    @cached_property
    def mesh(self) -> Mesh:
        """The device mesh, built on first use."""
        return default_mesh(
            self._num_partitions,
            self._model_parallel_submesh,
            self._backend,
            self._ici_mesh_shape,
            self._dcn_mesh_shape,
        )

    @property
    def logical_axis_rules(self) -> LogicalAxisRules:
        """Logical axis rules that apply inside partitioned functions."""
        return ()

    def partition(
        self,
        fn: Callable[..., Any],
        in_axis_resources: PyTree,
        out_axis_resources: PyTree,
        static_argnums: int | Sequence[int] = (),
        donate_argnums: int | Sequence[int] = (),
    ) -> PjittedFnWithContext:
        """Compiles `fn` for the mesh at its first call.

        Args:
            in_axis_resources: prefix pytree of PartitionSpec or None (replicated) for
                the non-static arguments.
            out_axis_resources: the same for the result.
        """
        if isinstance(static_argnums, int):
            static_argnums = (static_argnums,)
        in_shardings = to_shardings(in_axis_resources, self.mesh)
        jitted = jax.jit(
            fn,
            in_shardings=in_shardings,
            out_shardings=to_shardings(out_axis_resources, self.mesh),
            static_argnums=static_argnums,
            donate_argnums=donate_argnums,
        )
        return PjittedFnWithContext(
            jitted,
            self.mesh,
            self.logical_axis_rules,
            in_shardings,
            tuple(static_argnums),
        )

    def compile(
        self, partitioned_fn: PjittedFnWithContext, *args: Any
    ) -> CompiledPartitionedCallable:
        """Compiles for `args`; call the result like the function itself."""
        return partitioned_fn.with_compiled(*args)

    @property
    def _data_axes(self) -> tuple[str, ...]:
        axis = self._data_axis
        return (axis,) if isinstance(axis, str) else tuple(axis or ())

    @property
    def data_partition_spec(self) -> PartitionSpec:
        """Partition spec of a batch: the first dimension over the data axes."""
        return PartitionSpec(self._data_axis)

    @property
    def data_mesh_size(self) -> int:
        """Number of devices over which a batch is split."""
        return math.prod(self.mesh.shape[axis] for axis in self._data_axes)

    @property
    def data_shards(self) -> int:
        """Number of distinct host-local pieces of a batch."""
        return math.prod(self._local_chunker.num_chunks[a] for a in self._data_axes)

    @property
    def data_shard_id(self) -> int:
        """Index of the piece that this process feeds."""
        return self._local_chunker.get_shard_id(self._data_axes)

    def get_data_layout(
        self, batch_size: int | None = None, host_index: int | None = None
    ) -> DataLayout:
        """Returns the layout of a global batch; by default one row per data device."""
        if host_index not in (None, jax.process_index()):
            raise ValueError(
                f"host_index={host_index}: a process knows its own layout only."
            )
        size = self.data_mesh_size
        if batch_size is None:
            batch_size = size
        batch_size = checks.whole_number("The batch size", batch_size, least=1)
        if batch_size % size:
            below = batch_size // size * size
            choices = f"{below} or {below + size}" if below else f"{size}"
            raise UserError(
                f"Batch size ({batch_size}) must be divisible by the data mesh size "
                f"({size}, from the device mesh {dict(self.mesh.shape)}): set the "
                f"batch size to {choices}, or use fewer data-parallel devices "
                "(a larger PjitPartitioner.num_partitions)."
            )
        return DataLayout(
            batch_size=int(batch_size),
            shard_id=self.data_shard_id,
            num_shards=self.data_shards,
            is_first_host_in_replica_set=(
                self._local_chunker.get_replica_id(self._data_axes) == 0
            ),
        )

    def get_local_chunk_info(
        self, global_shape: tuple[int, ...], mesh_axes: Sequence[str | None]
    ) -> LocalChunkInfo:
        """Returns the piece of an array on this process's devices."""
        return self._local_chunker.get_local_chunk_info(global_shape, mesh_axes)

    def move_params_to_devices(self, train_state: Any, train_state_axes: Any) -> Any:
        """Places every array of `train_state` by `train_state_axes`."""
        shardings = to_shardings(train_state_axes, self.mesh)
        return map_prefix(place, shardings, train_state)

    def get_logical_axes(self, train_state: Any) -> Any:
        """Returns `train_state` with AxisNames or None instead of arrays."""
        axes = train_state.restore_state(
            jax.tree.map(lambda _: None, train_state.state_dict())
        )
        return with_containers_of(train_state, axes)

    def get_mesh_axes(self, train_state: Any) -> Any:
        """Returns `train_state` with PartitionSpec or None instead of arrays."""
        return self.get_logical_axes(train_state)


class BasePjitPartitioner(BasePartitioner):
    """The base partitioner, under the second name that it has in T5X."""


def with_containers_of(like: Any, state: Any) -> Any:
    """Freezes or unfreezes the parameters of `state` as in `like`.

    Shardings must have the pytree structure of the arrays.
    """
    params = as_container(state.params, like.params)
    return state if type(params) is type(state.params) else state.replace_params(params)


class PjitPartitioner(BasePjitPartitioner):
    """Partitioner that maps the model's logical axis names to mesh axes."""

    def __init__(
        self,
        num_partitions: int | None = None,
        model_parallel_submesh: HardwareMesh | None = None,
        params_on_devices: bool = True,
        backend: str | None = None,
        ici_mesh_shape: HardwareMesh | None = None,
        dcn_mesh_shape: HardwareMesh | None = None,
        logical_axis_rules: LogicalAxisRules | None = None,
    ):
        """Stores the shape of the mesh and the axis rules; see BasePartitioner.

        The rules are `standard_logical_axis_rules()` by default.
        """
        super().__init__(
            num_partitions,
            model_parallel_submesh,
            params_on_devices,
            backend,
            ici_mesh_shape,
            dcn_mesh_shape,
        )
        if logical_axis_rules is None:
            logical_axis_rules = standard_logical_axis_rules()
        if ici_mesh_shape is not None and dcn_mesh_shape is not None:
            logical_axis_rules = [
                (name, ("replica", "data") if name == "batch" else axis)
                for name, axis in logical_axis_rules
            ]
        self._logical_axis_rules = tuple((n, a) for n, a in logical_axis_rules)
        (self._data_axis,) = logical_to_mesh_axes(
            "the batch", ["batch"], self._logical_axis_rules
        )

    @property
    def logical_axis_rules(self) -> LogicalAxisRules:
        """Logical axis rules that apply inside partitioned functions."""
        return self._logical_axis_rules

    def get_logical_axes(self, train_state: Any) -> Any:
        return train_state.as_logical_axes()

    def get_mesh_axes(self, train_state: Any) -> Any:
        """Returns `train_state` with PartitionSpec or None instead of arrays.

        A dimension that is not divisible by its mesh axis is replicated. UserError
        names a logical axis without rule.
        """
        logical = self.get_logical_axes(train_state)
        shapes = flatten_state_dict(train_state.state_dict())
        flat = flatten_state_dict(logical.state_dict(), keep_empty_nodes=True)

        def to_spec(name: str, axes: Any) -> Any:
            if axes is None or axes is traverse_util.empty_node:
                return axes
            spec = logical_to_mesh_axes(name, axes, self._logical_axis_rules)
            shape = getattr(shapes.get(name), "shape", ())
            return drop_indivisible_axes(name, shape, spec, self.mesh.shape)

        specs = {name: to_spec(name, axes) for name, axes in flat.items()}
        return with_containers_of(train_state, logical.restore_state(unflatten(specs)))
