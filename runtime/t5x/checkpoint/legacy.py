"""The legacy T5X layout: one msgpack file, and one zarr folder per sharded array."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import gin
import jax
import numpy as np
from absl import logging
from etils import epath
from flax import serialization

from t5x import digests
from t5x.checkpoint import folders
from t5x.checkpoint.importer import CheckpointTranslator
from t5x.checkpoint.legacy_writer import LegacyWriter
from t5x.checkpoint.messages import clear_save_errors, remove_tree
from t5x.checkpoint.restore import Restorer
from t5x.checkpoint.retention import Retention
from t5x.checkpoint.state_dict import (
    RestoreStateTransformationFn,
    SaveStateTransformationFn,
    parameter_infos,
    state_for_save,
)
from t5x.distributed import (
    broadcast_one_to_all,
    get_local_data,
    raise_if_any_failed,
    sync_global_devices,
)
from t5x.partition.base_partitioner import BasePartitioner

VERSION = 3


class Checkpointer(Restorer):
    """Saves in the legacy layout; restores either layout.

    Attributes:
        checkpoints_dir: folder of the `checkpoint_N` folders.
        restore_dtype: dtype of restored parameters; None keeps the stored dtype.
        retention: rule for deleting old checkpoints.
    """

    def __init__(
        self,
        train_state: Any,
        partitioner: BasePartitioner,
        checkpoints_dir: epath.PathLike,
        dataset_iterator: Any = None,
        *,
        keep: int | None = None,
        save_dtype: Any = np.float32,
        restore_dtype: Any = None,
        keep_dataset_checkpoints: int | None = None,
    ):
        """Stores the settings; nothing is read or written yet.

        Args:
            train_state: arrays or shapes that define names and shapes.
            partitioner: decides where arrays go and which process writes which part.
            checkpoints_dir: folder of the `checkpoint_N` folders.
            dataset_iterator: iterator to save and restore with the state, or None.
            keep: number of newest checkpoints to keep; None or 0 keeps all.
            save_dtype: dtype of saved parameters; None keeps the current dtype. The
                optimizer state always keeps its own.
            restore_dtype: dtype of restored parameters; None keeps the stored dtype.
            keep_dataset_checkpoints: number of newest data iterators to keep.
        """
        self.checkpoints_dir = os.fspath(checkpoints_dir)
        super().__init__(
            self.checkpoints_dir,
            train_state,
            partitioner,
            dataset_iterator,
            restore_dtype,
        )
        self._save_dtype = save_dtype
        self.retention = Retention(keep=keep, keep_dataset=keep_dataset_checkpoints)

    def all_steps(self) -> Sequence[int]:
        """Returns the steps of the complete checkpoints, ascending."""
        return folders.all_steps(self.checkpoints_dir)

    def latest_step(self) -> int | None:
        """Returns the newest step, or None."""
        return folders.latest_step(self.checkpoints_dir)

    def _remove_old_checkpoints(self) -> None:
        steps = self.all_steps()
        for step in self.retention.steps_to_remove(steps, self.checkpoints_dir):
            folders.remove_checkpoint_dir(self._step_dir(step))
        with_data = folders.all_dataset_checkpoint_steps(self.checkpoints_dir)
        for step in self.retention.dataset_steps_to_remove(with_data):
            folders.remove_dataset_files(self._step_dir(step))

    def _step_dir(self, step: int) -> str:
        return folders.get_checkpoint_dir(self.checkpoints_dir, step)

    def save(
        self,
        train_state: Any,
        state_transformation_fns: Sequence[SaveStateTransformationFn] = (),
    ) -> None:
        """Writes `checkpoint_<step>`; does nothing if that step already exists.

        The folder is renamed when everything is written, so an interrupted or failed
        save leaves earlier checkpoints unchanged. On gs:// the msgpack file, written
        last, makes the folder valid.

        Args:
            train_state: state to save.
            state_transformation_fns: applied in order to (state dict, infos).

        Raises:
            UserError: the file system refuses the save (full, read-only, quota).
        """
        step = int(get_local_data(train_state.step))
        final = self._step_dir(step)
        if folders.layout_of(final) is not None:
            logging.info("Not saving step %d: %s exists.", step, final)
            return
        stamp = int(broadcast_one_to_all(np.int32(time.time())))
        in_place = final.startswith("gs:/")
        folder = final if in_place else f"{final}.tmp-{stamp}"

        def clean_up() -> None:
            if jax.process_index() == 0 and epath.Path(folder).exists():
                remove_tree(epath.Path(folder))

        with clear_save_errors(self.checkpoints_dir, clean_up):
            self._in_step(lambda: self._prepare(folder), on_first_only=True)
            tree: dict[str, Any] = {}
            self._in_step(
                lambda: tree.update(
                    self._write_state(folder, train_state, state_transformation_fns)
                )
            )
            self._in_step(lambda: self._finish(tree, folder, final), on_first_only=True)
        logging.info("Saved the checkpoint of step %d in %s.", step, final)
        if jax.process_index() == 0:
            self._remove_old_checkpoints()
        sync_global_devices(f"legacy_checkpoint:done:{final}")

    @staticmethod
    def _in_step(action: Any, on_first_only: bool = False) -> None:
        """Runs `action` on all processes (or the first), waits, and shares failures."""
        error = None
        if not on_first_only or jax.process_index() == 0:
            try:
                action()
            except Exception as e:  # noqa: BLE001 (raised again on every process)
                error = e
        raise_if_any_failed(error)

    def _prepare(self, folder: str) -> None:
        root = epath.Path(self.checkpoints_dir)
        root.mkdir(parents=True, exist_ok=True)
        folders.remove_stale_temporaries(root)
        folders.set_aside_incomplete(root)
        epath.Path(folder).mkdir(parents=True, exist_ok=True)

    def _write_state(
        self, folder: str, train_state: Any, fns: Sequence[SaveStateTransformationFn]
    ) -> dict[str, Any]:
        infos = parameter_infos(self._train_state, self._partitioner)
        flat, flat_infos = state_for_save(train_state, infos, fns)
        tree = LegacyWriter(folder, self._save_dtype).write(flat, flat_infos)
        self._dataset.save(folder)
        return tree

    @staticmethod
    def _finish(tree: Mapping[str, Any], folder: str, final: str) -> None:
        contents = {"version": VERSION, "optimizer": tree}
        data = serialization.msgpack_serialize(contents)
        folders.copy_notes(os.path.dirname(final), folder)
        # The msgpack file comes last, because it makes the folder valid on gs://.
        digests.write(folder, to_come={folders.LEGACY_FILE: data})
        target = epath.Path(folder) / folders.LEGACY_FILE
        with target.open("wb") as f:
            f.write(data)
            f.flush()
            with contextlib.suppress(AttributeError, OSError, ValueError):
                os.fsync(f.fileno())
        if folder != final:
            epath.Path(folder).rename(final)

    def restore(
        self,
        step: int | None = None,
        path: epath.PathLike | None = None,
        state_transformation_fns: Sequence[RestoreStateTransformationFn] = (),
        fallback_state: Mapping[str, Any] | None = None,
        lazy_parameters: bool = False,
    ) -> Any:
        """Restores a train state, and the data iterator if one was given.

        Args:
            step: step in `checkpoints_dir`; by default the newest.
            path: any checkpoint; excludes `step`.
            state_transformation_fns: fn(checkpoint state dict, target state dict).
            fallback_state: state dict for names that the checkpoint lacks.
            lazy_parameters: whether to leave arrays on disk; needs
                params_on_devices=False.

        Raises:
            ValueError: both `step` and `path` are given.
            UserError: there is nothing to restore, or it does not match the train
                state.
        """
        return self._restore(
            step,
            path,
            state_transformation_fns=state_transformation_fns,
            fallback_state=fallback_state,
            lazy_parameters=lazy_parameters,
        )

    def convert_from_tf_checkpoint(
        self,
        path_or_dir: str,
        *,
        state_transformation_fns: Sequence[SaveStateTransformationFn] = (),
        translator: CheckpointTranslator | None = None,
    ) -> None:
        """Reads a Mesh TensorFlow T5 checkpoint and saves it in this layout."""
        state = self.restore_from_tf_checkpoint(path_or_dir, translator=translator)
        self.save(state, state_transformation_fns)


@gin.configurable(module="t5x.checkpoints")
class SaveBestCheckpointer(Checkpointer):
    """Keeps the newest checkpoint and the `keep` best ones by a TensorBoard metric.

    With orbax (the default), name this class as SaveCheckpointConfig.checkpointer_cls
    too: the orbax manager takes over its settings.
    """

    def __init__(
        self,
        train_state: Any,
        partitioner: BasePartitioner,
        checkpoints_dir: epath.PathLike,
        dataset_iterator: Any = None,
        *,
        keep: int | None = None,
        save_dtype: Any = np.float32,
        restore_dtype: Any = None,
        metric_name_to_monitor: str = "train/accuracy",
        metric_mode: str = "max",
        keep_checkpoints_without_metrics: bool = True,
        force_keep_period: int | None = None,
        keep_dataset_checkpoints: int | None = None,
    ):
        """Stores the settings; see Checkpointer for the other arguments.

        Args:
            checkpoints_dir: model folder; it also contains the event files.
            keep: number of best checkpoints to keep in addition to the newest.
            metric_name_to_monitor: `<run>/<tag>`, for example `train/accuracy` or
                `inference_eval/<task>/<metric>`.
            metric_mode: 'max' or 'min'.
            keep_checkpoints_without_metrics: whether to keep every checkpoint whose
                metric is unknown.
            force_keep_period: always keep steps divisible by it.

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
        )
        self.retention = Retention(
            keep=keep,
            metric_name=metric_name_to_monitor,
            metric_mode=metric_mode,
            keep_without_metrics=keep_checkpoints_without_metrics,
            force_keep_period=force_keep_period,
            keep_dataset=keep_dataset_checkpoints,
        )
