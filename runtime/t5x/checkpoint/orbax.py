"""Saves train states with orbax, asynchronously and atomically."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gin
import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from jaxaug_base.files import absolute

from t5x import digests
from t5x.checkpoint import folders
from t5x.checkpoint.data_position import DatasetCheckpoint
from t5x.checkpoint.folders import clear_save_errors, quieten_orbax, remove_tree
from t5x.checkpoint.restore import (
    RestoreStateTransformationFn,
    SaveStateTransformationFn,
    flatten,
    parameter_infos,
    restore_train_state,
    to_dtype,
    unflatten,
)
from t5x.checkpoint.retention import Retention
from t5x.checkpoint.sources import LazyArray
from t5x.distributed import (
    broadcast_one_to_all,
    failing_together,
    get_local_data,
    sync_global_devices,
)
from t5x.errors import UserError
from t5x.partition.partitioner import BasePartitioner

_SAVE_TIMEOUT_S = 600


class DatasetHandler(ocp.CheckpointHandler):
    """Writes the data iterator into `dataset/`, before the next batch is read."""

    def save(self, directory: epath.Path, args: "DatasetArgs") -> None:
        """Writes the state of `args.item`."""
        with failing_together():
            args.item.save(directory, per_process=jax.process_count() > 1)

    def restore(self, directory: epath.Path, args: "DatasetArgs | None" = None) -> Any:
        """Moves `args.item` to the stored position."""
        if args is None:
            raise ValueError("DatasetHandler.restore needs DatasetArgs.")
        args.item.restore(directory.parent)
        return args.item


@ocp.args.register_with_handler(DatasetHandler, for_save=True, for_restore=True)
@dataclasses.dataclass
class DatasetArgs(ocp.args.CheckpointArgs):
    """The iterator for DatasetHandler."""

    item: DatasetCheckpoint


class _RetentionPolicy:
    """orbax preservation policy: the retention rule, except for pinned folders."""

    def __init__(self, retention: Retention, directory: str):
        self._retention = retention
        self._directory = directory

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: Any
    ) -> Sequence[bool]:
        """Returns one flag per checkpoint; the last one is still being written."""
        del context
        steps = [c.step for c in checkpoints]
        keep = np.ones(len(steps), np.int32)
        if jax.process_index() == 0:
            remove = set(self._retention.steps_to_remove(steps, self._directory))
            keep[:] = [s not in remove or self._pinned(s) for s in steps]
        # Process 0 alone reads metrics, so that all processes decide alike.
        return [bool(k) for k in broadcast_one_to_all(keep)]

    def _pinned(self, step: int) -> bool:
        return folders.is_pinned(folders.get_checkpoint_dir(self._directory, step))


@gin.configurable(module="t5x.checkpoints")
class OrbaxCheckpointManagerInterface:
    """Saves train states with ocp.CheckpointManager; restores either layout.

    `<directory>/checkpoint_<step>/` holds `state/` (OCDBT) and `dataset/`. A save
    returns when the arrays are copied to the host. It is committed in the background by
    a rename, and the next call of this class raises its errors.
    """

    def __init__(
        self,
        directory: epath.PathLike,
        train_state: Any,
        partitioner: BasePartitioner,
        dataset_iterator: Any = None,
        save_dtype: Any = None,
        restore_dtype: Any = None,
        keep: int | None = None,
        period: int | None = 1,
        checkpoint_steps: Sequence[int] | None = None,
        keep_dataset_checkpoints: int | None = None,
        force_keep_period: int | None = None,
        metric_name_to_monitor: str | None = None,
        metric_mode: str = "max",
        keep_checkpoints_without_metrics: bool = True,
    ):
        """Stores the settings; the folder is created at the first save.

        Args:
            save_dtype: dtype of saved parameters; None keeps the current dtype. The
                optimizer state always keeps its own.
            restore_dtype: dtype of restored parameters; None keeps the stored dtype.
            keep: number of newest checkpoints to keep; with a metric, number of best
                ones in addition to the newest. None or 0 keeps all.
            period: `should_save` is true at its multiples; None never.
            checkpoint_steps: additional steps at which `should_save` is true.
            keep_dataset_checkpoints: number of newest data iterators to keep.
            force_keep_period: always keep steps divisible by it.
            metric_name_to_monitor: `<run>/<tag>`, for example `train/accuracy` or
                `inference_eval/<task>/<metric>`; None ranks by step.
            metric_mode: 'max' or 'min'.
            keep_checkpoints_without_metrics: whether to keep every checkpoint whose
                metric is unknown.

        Raises:
            UserError: `metric_mode` is invalid, or the metric name has no '/'.
        """
        self._directory = absolute(directory)
        self._train_state = train_state
        self._partitioner = partitioner
        self._dataset = DatasetCheckpoint(dataset_iterator, partitioner)
        self.restore_dtype = restore_dtype
        # Set to False if the iterator is saved but must start afresh (fine-tuning).
        self.restore_dataset = True
        self._save_dtype = to_dtype(save_dtype)
        self._period = period
        self._checkpoint_steps = frozenset(checkpoint_steps or ())
        self.retention = Retention(
            keep=keep,
            metric_name=metric_name_to_monitor,
            metric_mode=metric_mode,
            keep_without_metrics=keep_checkpoints_without_metrics,
            force_keep_period=force_keep_period,
            keep_dataset=keep_dataset_checkpoints,
        )
        self._manager: ocp.CheckpointManager | None = None
        self._saving: int | None = None  # The step that is being written.

    @property
    def directory(self) -> epath.Path:
        """Folder of the `checkpoint_N` folders."""
        return self._directory

    def all_steps(self) -> Sequence[int]:
        """Returns the saved steps, ascending, including one that is being committed."""
        if self._manager is None:
            return folders.all_steps(self._directory)
        return sorted(self._manager.all_steps())

    def latest_step(self) -> int | None:
        """Returns the newest of `all_steps`, or None."""
        steps = self.all_steps()
        return steps[-1] if steps else None

    def should_save(self, step: int) -> bool:
        """Returns whether `step` is a multiple of the period or a listed step."""
        at_period = bool(self._period) and step % (self._period or 1) == 0
        return at_period or step in self._checkpoint_steps

    def wait_until_finished(self) -> None:
        """Blocks until the last save is committed; raises its UserError."""
        if self._manager is None:
            return
        with self._clear_errors():
            self._manager.wait_until_finished()
            self._remove_old_dataset_files()

    def check_for_errors(self) -> None:
        """Raises the error of a failed background save; does not wait."""
        if self._manager is not None and not self._manager.is_saving_in_progress():
            self.wait_until_finished()

    def close(self) -> None:
        """Waits for the last save and releases the threads."""
        if self._manager is None:
            return
        self.wait_until_finished()
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        def clean_up() -> None:
            # A manager whose background save failed raises again at every call.
            self._manager = None
            if jax.process_index() == 0:
                prefix = folders.get_checkpoint_prefix()
                for path in self._directory.glob(f"{prefix}_*orbax-checkpoint-tmp*"):
                    remove_tree(path)

        with clear_save_errors(self._directory, clean_up):
            yield

    def _open_manager(self) -> ocp.CheckpointManager:
        if self._manager is None:
            quieten_orbax()
            if jax.process_index() == 0:
                self._directory.mkdir(parents=True, exist_ok=True)
                folders.set_aside_incomplete(self._directory)
            sync_global_devices("orbax_manager:directory")
            options = ocp.CheckpointManagerOptions(
                step_prefix=folders.get_checkpoint_prefix(),
                preservation_policy=_RetentionPolicy(
                    self.retention, os.fspath(self._directory)
                ),
                cleanup_tmp_directories=True,
                async_options=ocp.AsyncOptions(
                    timeout_secs=_SAVE_TIMEOUT_S,
                    post_finalization_callback=self._write_digests,
                ),
            )
            self._manager = ocp.CheckpointManager(
                self._directory,
                options=options,
                item_handlers={
                    folders.STATE: ocp.PyTreeCheckpointHandler(use_ocdbt=True),
                    folders.DATASET: DatasetHandler(),
                },
            )
        return self._manager

    def _write_digests(self) -> None:
        """Writes the digests on process 0 before the commit."""
        assert self._saving is not None
        final = epath.Path(folders.get_checkpoint_dir(self._directory, self._saving))
        unfinished = self._directory.glob(f"{final.name}.orbax-checkpoint-tmp*")
        # Object stores have no rename, so orbax writes in place there.
        folder = next(iter(unfinished), final)
        folders.copy_notes(self._directory, folder)
        digests.write(folder)

    def _remove_old_dataset_files(self) -> None:
        if not self.retention.keep_dataset or jax.process_index() != 0:
            return
        with_data = folders.all_dataset_checkpoint_steps(self._directory)
        for step in self.retention.dataset_steps_to_remove(with_data):
            folders.remove_dataset_files(
                folders.get_checkpoint_dir(self._directory, step)
            )

    def save(
        self,
        train_state: Any,
        state_transformation_fns: Sequence[SaveStateTransformationFn] = (),
        force: bool = True,
    ) -> bool:
        """Starts to save `checkpoint_<step>`.

        Args:
            state_transformation_fns: applied in order to (state dict, infos).
            force: whether to save even if `should_save` is false.

        Returns:
            Whether a save was started; False also if the step already exists.

        Raises:
            UserError: the file system refused this save or the previous one.
        """
        step = int(get_local_data(train_state.step))
        if not force and not self.should_save(step):
            return False
        self.wait_until_finished()
        with self._clear_errors():
            manager = self._open_manager()
            if step in manager.all_steps():
                logging.info("Not saving step %d: it is there already.", step)
                return False
            state_dict = train_state.state_dict()
            infos = parameter_infos(self._train_state, self._partitioner)
            for fn in state_transformation_fns:
                state_dict, infos = fn(state_dict, infos)
            tree = unflatten({n: _value(x) for n, x in flatten(state_dict).items()})
            save_args = {
                part: jax.tree.map(self._save_args_of(part), subtree)
                for part, subtree in tree.items()
            }
            self._saving = step
            return manager.save(
                step,
                args=ocp.args.Composite(
                    **{
                        folders.STATE: ocp.args.PyTreeSave(tree, save_args=save_args),
                        folders.DATASET: DatasetArgs(self._dataset),
                    }
                ),
                force=True,
            )

    def _save_args_of(self, part: str) -> Callable[[Any], ocp.SaveArgs]:
        dtype = self._save_dtype if part == "target" else None
        return lambda _: ocp.SaveArgs(dtype=dtype)

    def restore(
        self,
        step: int | None = None,
        path: epath.PathLike | None = None,
        fallback_state: Mapping[str, Any] | None = None,
        state_transformation_fns: Sequence[RestoreStateTransformationFn] = (),
        lazy_parameters: bool = False,
    ) -> Any:
        """Restores a train state, and the data iterator if one was given.

        Args:
            step: step in the model folder; by default the newest.
            path: any checkpoint, in either layout; excludes `step`.
            fallback_state, state_transformation_fns, lazy_parameters: see
                `restore.restore_train_state`.
        """
        if step is not None and path is not None:
            raise ValueError("At most one of `step` or `path` may be provided.")
        self.wait_until_finished()
        if path is None:
            step = self.latest_step() if step is None else step
            if step is None:
                raise UserError(f"No checkpoints found in {self._directory}.")
            path = folders.get_checkpoint_dir(self._directory, step)
        return restore_train_state(
            path,
            self._train_state,
            self._partitioner,
            dataset=self._dataset if self.restore_dataset else None,
            state_transformation_fns=state_transformation_fns,
            fallback_state=fallback_state,
            restore_dtype=self.restore_dtype,
            lazy_parameters=lazy_parameters,
        )


def _value(leaf: Any) -> Any:
    """Returns a leaf to save; Python numbers (steps of optimizers) become int32."""
    if isinstance(leaf, LazyArray):
        return leaf.get()
    return np.asarray(leaf, np.int32) if isinstance(leaf, int) else leaf


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
        """Stores the settings; nothing is read or written yet."""
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
