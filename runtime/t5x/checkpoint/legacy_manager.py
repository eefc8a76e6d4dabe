"""Checkpoint manager over legacy checkpointers (train with use_orbax=False)."""

from collections.abc import Mapping, Sequence
from typing import Any

from t5x.checkpoint.folders import layout_of
from t5x.checkpoint.legacy import Checkpointer
from t5x.checkpoint.settings import RestoreCheckpointConfig, SaveCheckpointConfig
from t5x.checkpoint.state_dict import (
    RestoreStateTransformationFn,
    SaveStateTransformationFn,
)
from t5x.errors import UserError


class LegacyCheckpointer:
    """A checkpointer for saving and another one for restoring."""

    def __init__(
        self,
        *,
        save_checkpointer: Checkpointer | None = None,
        restore_checkpointer: Checkpointer | None = None,
        strict: bool | None = False,
    ):
        """Stores both; either may be None if it is never used."""
        self._save_checkpointer = save_checkpointer
        self._restore_checkpointer = restore_checkpointer
        self._strict = bool(strict)

    def save(
        self,
        path: str,
        item: Any,
        state_transformation_fns: Sequence[SaveStateTransformationFn] = (),
    ) -> None:
        """Saves train state `item` in the checkpointer's own folder; ignores `path`."""
        del path
        if self._save_checkpointer is None:
            raise UserError(
                "Cannot save a checkpoint: CheckpointConfig.save is None. Set it to "
                "@utils.SaveCheckpointConfig()."
            )
        self._save_checkpointer.save(item, state_transformation_fns)

    def restore(
        self,
        path: str,
        item: Any = None,
        state_transformation_fns: Sequence[RestoreStateTransformationFn] = (),
        fallback_state: Mapping[str, Any] | None = None,
        lazy_parameters: bool = False,
    ) -> Any:
        """Restores the train state at `path`, of any layout; ignores `item`."""
        del item
        if self._restore_checkpointer is None:
            raise UserError(
                f"Cannot restore {path}: there is no RestoreCheckpointConfig."
            )
        if is_tensorflow(path, state_transformation_fns):
            return self._restore_checkpointer.restore_from_tf_checkpoint(
                path, strict=self._strict
            )
        return self._restore_checkpointer.restore(
            path=path,
            state_transformation_fns=state_transformation_fns,
            fallback_state=fallback_state,
            lazy_parameters=lazy_parameters,
        )


def is_tensorflow(path: str, state_transformation_fns: Sequence[Any]) -> bool:
    """Returns whether `path` is a TensorFlow checkpoint.

    Raises:
        UserError: it is one, and there are transformations, which it does not allow.
    """
    if layout_of(path) != "tensorflow":
        return False
    if state_transformation_fns:
        raise UserError(
            "Cannot initialize from a TensorFlow checkpoint using "
            f"`state_transformation_fns` or `assignment_map`: {path}. Convert it first "
            "with Checkpointer.convert_from_tf_checkpoint."
        )
    return True


class LegacyCheckpointManager:
    """Saves and restores synchronously with the configured Checkpointer classes."""

    def __init__(
        self,
        *,
        save_cfg: SaveCheckpointConfig | None,
        restore_cfg: RestoreCheckpointConfig | None,
        train_state_shape: Any,
        partitioner: Any,
        ds_iter: Any = None,
        model_dir: str | None = None,
    ):
        """Creates the checkpointers.

        Args:
            save_cfg: None if nothing will be saved.
            restore_cfg: None if nothing will be restored.
            train_state_shape: train state of shapes.
            partitioner: decides where arrays go.
            ds_iter: data iterator, saved and restored as the configurations state.
            model_dir: folder to save in.
        """
        save = restore = None
        if save_cfg is not None:
            save = save_cfg.checkpointer_cls(
                train_state=train_state_shape,
                partitioner=partitioner,
                checkpoints_dir=model_dir,
                dataset_iterator=ds_iter if save_cfg.save_dataset else None,
                save_dtype=save_cfg.dtype,
                keep=save_cfg.keep,
                keep_dataset_checkpoints=save_cfg.keep_dataset_checkpoints,
            )
        if restore_cfg is not None:
            restore = restore_cfg.checkpointer_cls(
                train_state=train_state_shape,
                partitioner=partitioner,
                checkpoints_dir="",
                dataset_iterator=ds_iter if restore_cfg.restore_dataset else None,
                restore_dtype=restore_cfg.dtype,
            )
        self._checkpointer = LegacyCheckpointer(
            save_checkpointer=save,
            restore_checkpointer=restore,
            strict=restore_cfg.strict if restore_cfg else False,
        )

    def wait_until_finished(self) -> None:
        """Returns immediately, because saves are synchronous."""

    def check_for_errors(self) -> None:
        """Does nothing, because `save` raises its errors."""

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def save(
        self,
        train_state: Any,
        state_transformation_fns: Sequence[SaveStateTransformationFn] = (),
    ) -> None:
        """Saves `train_state`."""
        self._checkpointer.save("", train_state, state_transformation_fns)

    def restore(
        self,
        paths: Sequence[str],
        restore_cfg: RestoreCheckpointConfig | None = None,
        fallback_state: Mapping[str, Any] | None = None,
    ) -> Any:
        """Returns the train state of a single path, or a list for none or several.

        Without a configuration or paths it returns None.
        """
        if restore_cfg is None or paths is None:
            return None
        states = [
            self._checkpointer.restore(
                path,
                state_transformation_fns=restore_cfg.state_transformation_fns,
                fallback_state=fallback_state,
            )
            for path in paths
        ]
        return states[0] if len(states) == 1 else states
