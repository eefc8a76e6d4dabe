"""Saving and loading of train states: the names for gin files and user code.

`checkpoint.folders` describes the layouts, `checkpoint.sources` reads them, and
`checkpoint.orbax` saves.
"""
# ruff: noqa: F401

from t5x.checkpoint.folders import (
    all_dataset_checkpoint_steps,
    all_steps,
    find_checkpoint,
    get_checkpoint_dir,
    get_checkpoint_prefix,
    latest_step,
)
from t5x.checkpoint.orbax import (
    Checkpointer,
    DatasetArgs,
    DatasetHandler,
    OrbaxCheckpointManagerInterface,
    SaveBestCheckpointer,
)
from t5x.checkpoint.restore import (
    ParameterInfo,
    RestoreStateTransformationFn,
    SaveStateTransformationFn,
    load_t5x_checkpoint,
)
from t5x.checkpoint.retention import Retention, populate_metrics_for_steps
from t5x.checkpoint.sources import LazyArray
from t5x.distributed import get_local_data
