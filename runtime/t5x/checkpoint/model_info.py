"""The table of variables that a run writes to model-info.txt."""

import math
from collections.abc import Iterator
from typing import Any

import jax
from absl import logging
from etils import epath
from flax import traverse_util
from jax.sharding import PartitionSpec

from t5x.checkpoint.restore import flatten
from t5x.partition.base_partitioner import BasePartitioner


def _lines(train_state: Any, partitioner: BasePartitioner) -> Iterator[str]:
    arrays = flatten(train_state.state_dict())
    names = flatten(partitioner.get_logical_axes(train_state).state_dict())
    specs = flatten(partitioner.get_mesh_axes(train_state).state_dict())

    def line(name: str) -> str:
        array, axes, spec = arrays[name], names.get(name), specs.get(name)
        short = name.split("/", 1)[1]
        if array is None:
            return f"Variable    {short:<80} None"
        shape = tuple(array.shape)
        text = str(shape)
        axes = tuple(axes) if isinstance(axes, (tuple, PartitionSpec)) else ()
        if axes and len(axes) == len(shape):
            pairs = zip(axes, shape, strict=True)
            text = "(" + ", ".join(f"{axis}={n}" for axis, n in pairs) + ")"
        where = tuple(spec) if isinstance(spec, PartitionSpec) else None
        size = math.prod(shape)
        return (
            f"Variable {short:<80} size {size:<12} shape {text:<40} "
            f"partition spec {where}"
        )

    present = [n for n, a in arrays.items() if a is not traverse_util.empty_node]
    parameters = [n for n in present if n.startswith("target/")]
    total = sum(math.prod(arrays[n].shape) for n in parameters if arrays[n] is not None)
    yield from map(line, parameters)
    yield f"Total number of parameters: {total}"
    yield ""
    yield from (line(n) for n in present if n.startswith("state/"))


def log_model_info(
    log_file: str | None, full_train_state: Any, partitioner: BasePartitioner
) -> None:
    """Logs name, size, shape, and partitioning of every parameter and slot.

    Args:
        log_file: file to write in addition, on process 0; None only logs.
        full_train_state: state of arrays or shapes.
        partitioner: gives logical axes and partition specs.
    """
    if jax.process_index() != 0:
        return
    lines = list(_lines(full_train_state, partitioner))
    for line in lines:
        logging.info("%s", line)
    if log_file is not None:
        path = epath.Path(log_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
