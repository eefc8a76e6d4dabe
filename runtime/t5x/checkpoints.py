"""Saving and loading of train states: the names for gin files and user code.

`checkpoint.folders` describes the layouts. `checkpoint.orbax` writes the default
layout, and `checkpoint.legacy` the layout of the public T5X checkpoints. Both read
both.
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
from t5x.checkpoint.lazy_array import LazyArray
from t5x.checkpoint.legacy import VERSION, Checkpointer, SaveBestCheckpointer
from t5x.checkpoint.orbax import (
    DatasetArgs,
    DatasetHandler,
    OrbaxCheckpointManagerInterface,
)
from t5x.checkpoint.restore import load_t5x_checkpoint
from t5x.checkpoint.retention import Retention, populate_metrics_for_steps
from t5x.checkpoint.state_dict import (
    ParameterInfo,
    RestoreStateTransformationFn,
    SaveStateTransformationFn,
)
from t5x.distributed import get_local_data
