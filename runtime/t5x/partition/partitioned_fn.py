"""Functions that run on a mesh: shardings of arguments, contexts, compilation."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from flax.linen import partitioning as flax_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t5x.distributed import place, process_local_to_global
from t5x.on_cpu import features
from t5x.partition.axis_rules import LogicalAxisRules

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
            return self._pjitted_fn(*self._globalise(args), **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the lowered computation for these arguments (arrays or shapes)."""
        with mesh_context(self._mesh, self._logical_axis_rules):
            return self._pjitted_fn.lower(*self._globalise(args), **kwargs)

    def with_compiled(self, *args: Any) -> "PjittedFnWithContext":
        """Returns this function compiled for `args`, static arguments included."""
        lowered = self.lower(*args)
        compiled = lowered.compile(features.compiler_options(lowered))
        dynamic = _CompiledFn(compiled, self._static_argnums)
        return PjittedFnWithContext(
            dynamic,
            self._mesh,
            self._logical_axis_rules,
            self._in_shardings,
            self._static_argnums,
        )

    def __getattr__(self, name: str) -> Any:
        # Forwards cost_analysis(), memory_analysis(), and as_text() of the compiled
        # object.
        if name.startswith("__") or name == "_pjitted_fn":
            raise AttributeError(name)
        return getattr(self._pjitted_fn, name)


class _CompiledFn:
    """A compiled executable that accepts the static arguments and ignores them."""

    def __init__(self, compiled: Any, static_argnums: tuple[int, ...]):
        self._compiled = compiled
        self._static_argnums = static_argnums

    def __call__(self, *args: Any) -> Any:
        dynamic = [a for i, a in enumerate(args) if i not in self._static_argnums]
        return self._compiled(*dynamic)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_compiled":
            raise AttributeError(name)
        return getattr(self._compiled, name)
