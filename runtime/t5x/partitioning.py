"""Public names of partitioning, for gin files and user code."""
# ruff: noqa: F401

from jax.sharding import Mesh, PartitionSpec

from t5x.distributed import host_local_array_to_global_array
from t5x.partition.mesh import (
    AxisNames,
    HardwareMesh,
    LocalChunker,
    LocalChunkInfo,
    LogicalAxisRules,
    default_mesh,
    get_cpu_mesh,
    get_gpu_mesh,
    get_mesh,
    standard_logical_axis_rules,
)
from t5x.partition.partitioner import (
    BasePartitioner,
    BasePjitPartitioner,
    CompiledPartitionedCallable,
    DataLayout,
    PartitionedCallable,
    PjitPartitioner,
    PjittedFnWithContext,
    global_mesh_defined,
    with_sharding_constraint,
)
