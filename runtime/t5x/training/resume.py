"""Initial state of a run: its own checkpoint, another checkpoint, or new parameters."""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import jax

from t5x import checkpoints as checkpoints_lib
from t5x import state_utils
from t5x.checkpoint import data_position, folders, state_init
from t5x.checkpoint.settings import (
    CheckpointConfig,
    RestoreCheckpointConfig,
    SaveCheckpointConfig,
    with_absolute_path,
)
from t5x.errors import UserError
from t5x.logs.progress import announce
from t5x.training import run_record


def is_in(path: str | None, folder: str) -> bool:
    """Returns whether a checkpoint lies directly in a folder."""
    return path is not None and os.path.normpath(
        os.path.dirname(os.path.normpath(path))
    ) == os.path.normpath(folder)


def first_step_of(
    record: run_record.RunRecord,
    step: int,
    resumed: bool,
    restore_cfg: RestoreCheckpointConfig | None,
) -> int:
    """Returns the step at which the run began; records the start of a new run.

    If the record is lost, the start is the checkpoint that `restore_cfg` names.

    Args:
        record: record of the run.
        step: step of the state from which training starts now.
        resumed: whether this state comes from a checkpoint of the run itself.
        restore_cfg: initial checkpoint of the configuration, or None.
    """
    noted = record.get("first_step") if resumed else None
    if noted is not None and noted <= step:
        return noted
    initial = _step_by_name(restore_cfg) if resumed else None
    if initial is not None and initial < step:
        record.update(first_step=initial, evaluated_step=step)
        return initial
    record.update(first_step=step, evaluated_step=None, actions={}, stop=False)
    return step


def _step_by_name(cfg: RestoreCheckpointConfig | None) -> int | None:
    """Returns the step in the name of the configured checkpoint, or None."""
    if cfg is None or not cfg.path:
        return None
    _, paths = state_init.get_first_valid_restore_config_and_paths(
        [with_absolute_path(cfg)]
    )
    return folders.step_of(paths[0]) if paths else None


def last_step(
    first_step: int, step: int, total: int, relative: int, source: Any
) -> int:
    """Returns the step at which the run ends.

    Args:
        first_step: step at which the run began.
        step: step at which training starts now.
        total: last step, counted from 0.
        relative: number of steps from the start of the run, which replaces `total`; 0
            if unused.
        source: checkpoint of `step`, for messages.

    Raises:
        UserError: the run is already past its end.
    """
    if relative:
        total = first_step + relative
    if total < step:
        raise UserError(
            f"Unexpected total_steps ({total}) < checkpoint step ({step}) of "
            f"{source}: give more steps (TRAIN_STEPS counts from 0, "
            "TRAIN_STEPS_RELATIVE from the initial checkpoint), or use another "
            "MODEL_DIR."
        )
    return total


def _resuming_fns(
    restore_cfg: RestoreCheckpointConfig | None, model_dir: str
) -> list[Callable[..., Any]]:
    """Returns the functions that transform a run's own checkpoint on resuming."""
    fns: list[Callable[..., Any]] = [
        functools.partial(fn, is_resuming=True)
        for fn in (restore_cfg.state_transformation_fns if restore_cfg else ())
    ]
    return [*fns, functools.partial(_refuse_surplus, model_dir)]


def _refuse_surplus(model_dir: str, stored: Any, target: Any) -> Any:
    """Returns `stored`, or raises UserError if it has parameters that the model lacks.

    Without this check a run would silently continue with only a part of its model.
    """
    known = state_utils.flatten_state_dict(target)
    surplus = sorted(
        name
        for name, value in state_utils.flatten_state_dict(stored).items()
        if name.startswith("target/") and name not in known and value is not None
    )
    if surplus:
        shown = ", ".join(surplus[:5]) + (", ..." if len(surplus) > 5 else "")
        raise UserError(
            f"The newest checkpoint in {model_dir} has parameters that the model lacks "
            f"({len(surplus)}): {shown}. Continue with the model that wrote it, or "
            "train this one in another MODEL_DIR (RestoreCheckpointConfig.path takes "
            "over the parameters that both have)."
        )
    return stored


@dataclasses.dataclass(frozen=True)
class Found:
    """Checkpoint from which a run starts, before it is read.

    Attributes:
        settings: how to restore it; None if there is nothing to restore.
        path: the checkpoint, or None.
    """

    settings: RestoreCheckpointConfig | None
    path: str | None

    @property
    def data_shards(self) -> int | None:
        """Number of shards of the restored data position, or None."""
        if self.path is None or self.settings is None:
            return None
        if not self.settings.restore_dataset:
            return None
        return data_position.saved_shards(folders.locate(self.path).root)


def find_checkpoint(checkpoint_cfg: CheckpointConfig, model_dir: str) -> Found:
    """Finds the newest checkpoint of the run itself, or else the configured one.

    Raises:
        UserError: the configuration names several checkpoints.
    """
    save_cfg, restore_cfg = checkpoint_cfg.save, checkpoint_cfg.restore
    candidates = [
        RestoreCheckpointConfig(
            path=model_dir,
            mode="latest",
            dtype=save_cfg.dtype if save_cfg else "float32",
            checkpoint_manager_cls=save_cfg.checkpoint_manager_cls
            if save_cfg
            else checkpoints_lib.OrbaxCheckpointManagerInterface,
            restore_dataset=bool(save_cfg and save_cfg.save_dataset),
            state_transformation_fns=_resuming_fns(restore_cfg, model_dir),
        )
    ]
    if restore_cfg is not None:
        if restore_cfg.mode == "all":
            raise UserError(
                "Restore checkpoint mode 'all' is not supported in training; use "
                "'specific' or 'latest'."
            )
        if isinstance(restore_cfg.path, (str, os.PathLike)):
            candidates.append(with_absolute_path(restore_cfg))
        elif restore_cfg.path:
            raise UserError(
                "Restore checkpoint config may only have a single path in training, "
                f"got {list(restore_cfg.path)}."
            )
    valid_cfg, paths = state_init.get_first_valid_restore_config_and_paths(candidates)
    if len(paths) > 1:
        raise UserError(f"Multiple restore paths not permitted in training: {paths}")
    if not paths and len(candidates) > 1:
        announce(
            f"warning: {candidates[1].path} holds no checkpoint to begin with "
            "(RestoreCheckpointConfig.path is the folder of a run, in mode 'specific' "
            "that of one checkpoint)"
        )
    return Found(valid_cfg, os.fspath(paths[0]) if paths else None)


def restore_or_init(
    initializer: Any,
    partitioner: Any,
    save_cfg: SaveCheckpointConfig | None,
    found: Found,
    model_dir: str,
    train_iter: Any,
    init_rng: jax.Array,
) -> tuple[Any, Any]:
    """Returns (train state, checkpoint manager or None)."""
    train_state, manager = None, None
    wants_saves = save_cfg and (save_cfg.period or save_cfg.checkpoint_steps)
    if found.settings is not None or wants_saves:
        train_state, manager = state_init.create_checkpoint_manager_and_restore(
            initializer,
            partitioner,
            found.settings,
            found.path,
            init_rng,
            save_checkpoint_cfg=save_cfg,
            model_dir=model_dir,
            ds_iter=train_iter,
        )
    if train_state is None:
        train_state = initializer.from_scratch(init_rng)
    return train_state, manager
