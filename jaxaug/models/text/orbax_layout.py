"""Reads checkpoints in the orbax layout, independent of the T5X version.

Both runtimes write this layout by default. Upstream's `load_t5x_checkpoint` reads only
the older layout with zarr folders.
"""

from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from flax import traverse_util

from jaxaug.core.errors import UserError

_STATE = "state"


def holds(folder: epath.PathLike) -> bool:
    """Returns whether a folder `checkpoint_N` is complete and has this layout."""
    return (epath.Path(folder) / _STATE / "_METADATA").exists()


def parameters(folder: epath.PathLike) -> dict[str, Any]:
    """Returns the parameters in a folder `checkpoint_N`: nested NumPy arrays.

    The state of the optimizer is not read.

    Raises:
        UserError: a file of the checkpoint is missing or damaged.
    """
    path = epath.Path(folder) / _STATE
    try:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
            found = reader.metadata(path).item_metadata
            if found is None:
                raise FileNotFoundError("its list of arrays cannot be read")
            names = traverse_util.flatten_dict(found.tree["target"])
            wanted = {
                "target": traverse_util.unflatten_dict(
                    {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
                )
            }
            restored = reader.restore(
                path,
                args=ocp.args.PyTreeRestore(
                    jax.tree.map(lambda _: 0, wanted),
                    restore_args=wanted,
                    partial_restore=True,
                ),
            )
    except (ValueError, KeyError, OSError) as error:
        raise UserError(
            f"{path.parent}: the checkpoint is damaged or incomplete "
            f"({type(error).__name__}: {error}). Name another checkpoint of the run, "
            "or train from an earlier one again."
        ) from error
    return restored["target"]
