"""Partitioned train state and steps: jax.jit with NamedSharding on a device mesh."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
from flax import traverse_util
from jax.sharding import Mesh

from t5x.partition.base_partitioner import (
    BasePartitioner,
    CompiledPartitionedCallable,
    PjittedFnWithContext,
    PyTree,
    to_shardings,
    with_containers_of,
)
from t5x.partition.mesh import (
    HardwareMesh,
    LocalChunker,
    LogicalAxisRules,
    default_mesh,
    drop_indivisible_axes,
    logical_to_mesh_axes,
    standard_logical_axis_rules,
)


class BasePjitPartitioner(BasePartitioner):
    """Partitioner on jax.jit that leaves all specs to its caller."""

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
        """See BasePartitioner.partition."""
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

    def get_mesh_axes(self, train_state: Any) -> Any:
        """Replicates all arrays."""
        return self.get_logical_axes(train_state)


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

        Args:
            logical_axis_rules: (logical axis, mesh axis or None) pairs in order of
                priority; standard_logical_axis_rules() by default.
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
        """Returns `train_state` with AxisNames or None instead of arrays."""
        return train_state.as_logical_axes()

    def get_mesh_axes(self, train_state: Any) -> Any:
        """Returns `train_state` with PartitionSpec or None instead of arrays.

        A dimension that is not divisible by its mesh axis is replicated. A warning
        names the parameter and the remedy.

        Raises:
            UserError: a logical axis has no rule.
        """
        logical = self.get_logical_axes(train_state)
        shapes = traverse_util.flatten_dict(train_state.state_dict(), sep="/")
        flat = traverse_util.flatten_dict(
            logical.state_dict(), keep_empty_nodes=True, sep="/"
        )

        def to_spec(name: str, axes: Any) -> Any:
            if axes is None or axes is traverse_util.empty_node:
                return axes
            spec = logical_to_mesh_axes(name, axes, self._logical_axis_rules)
            shape = getattr(shapes.get(name), "shape", ())
            return drop_indivisible_axes(name, shape, spec, self.mesh.shape)

        specs = {name: to_spec(name, axes) for name, axes in flat.items()}
        axes = logical.restore_state(traverse_util.unflatten_dict(specs, sep="/"))
        return with_containers_of(train_state, axes)
