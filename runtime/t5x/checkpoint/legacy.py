"""The checkpointers of T5X, on the orbax manager; gin files and user code name them."""

from collections.abc import Sequence
from typing import Any

import gin
import numpy as np
from etils import epath

from t5x.checkpoint.orbax import OrbaxCheckpointManagerInterface
from t5x.checkpoint.restore import SaveStateTransformationFn
from t5x.partition.base_partitioner import BasePartitioner


class Checkpointer(OrbaxCheckpointManagerInterface):
    """Saves a checkpoint before `save` returns; restores either layout."""

    def __init__(
        self,
        train_state: Any,
        partitioner: BasePartitioner,
        checkpoints_dir: epath.PathLike,
        dataset_iterator: Any = None,
        *,
        save_dtype: Any = np.float32,
        **settings: Any,
    ):
        """Stores the settings; nothing is read or written yet.

        Args:
            train_state: arrays or shapes that define names and shapes.
            partitioner: decides where arrays go and which process writes which part.
            checkpoints_dir: folder of the `checkpoint_N` folders.
            dataset_iterator: iterator to save and restore with the state, or None.
            save_dtype: dtype of saved parameters; None keeps the current dtype.
            **settings: `keep`, `restore_dtype`, and `keep_dataset_checkpoints` of
                OrbaxCheckpointManagerInterface.
        """
        self.checkpoints_dir = checkpoints_dir
        super().__init__(
            checkpoints_dir,
            train_state,
            partitioner,
            dataset_iterator,
            save_dtype=save_dtype,
            **settings,
        )

    def save(
        self,
        train_state: Any,
        state_transformation_fns: Sequence[SaveStateTransformationFn] = (),
        force: bool = True,
    ) -> bool:
        """Saves `checkpoint_<step>`; see OrbaxCheckpointManagerInterface."""
        started = super().save(train_state, state_transformation_fns, force)
        self.wait_until_finished()
        return started


@gin.configurable(module="t5x.checkpoints")
class SaveBestCheckpointer(Checkpointer):
    """Keeps the newest checkpoint and the `keep` best ones by a TensorBoard metric.

    SaveCheckpointConfig.checkpointer_cls names it: the manager of a run takes over its
    settings.
    """

    def __init__(
        self,
        train_state: Any,
        partitioner: BasePartitioner,
        checkpoints_dir: epath.PathLike,
        dataset_iterator: Any = None,
        *,
        metric_name_to_monitor: str = "train/accuracy",
        metric_mode: str = "max",
        keep_checkpoints_without_metrics: bool = True,
        force_keep_period: int | None = None,
        keep: int | None = None,
        save_dtype: Any = np.float32,
        restore_dtype: Any = None,
        keep_dataset_checkpoints: int | None = None,
    ):
        """Stores the settings; see OrbaxCheckpointManagerInterface for them.

        Raises:
            UserError: `metric_mode` is invalid, or the metric name has no '/'.
        """
        super().__init__(
            train_state,
            partitioner,
            checkpoints_dir,
            dataset_iterator,
            keep=keep,
            save_dtype=save_dtype,
            restore_dtype=restore_dtype,
            keep_dataset_checkpoints=keep_dataset_checkpoints,
            metric_name_to_monitor=metric_name_to_monitor,
            metric_mode=metric_mode,
            keep_checkpoints_without_metrics=keep_checkpoints_without_metrics,
            force_keep_period=force_keep_period,
        )
