"""Creates orbax managers from the checkpoint configurations."""

from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from t5x.checkpoint.legacy_manager import is_tensorflow
from t5x.checkpoint.orbax import OrbaxCheckpointManagerInterface
from t5x.checkpoint.settings import RestoreCheckpointConfig, SaveCheckpointConfig
from t5x.errors import UserError
from t5x.partition.base_partitioner import BasePartitioner


def restore(
    checkpoint_manager: Any,
    paths: Sequence[str],
    restore_cfg: RestoreCheckpointConfig | None,
    fallback_state: Mapping[str, Any] | None = None,
) -> Any:
    """Restores checkpoints of any layout through an orbax manager.

    Args:
        checkpoint_manager: OrbaxCheckpointManagerInterface or a compatible object.
        paths: checkpoints to restore.
        restore_cfg: transformations and strictness; None restores nothing.
        fallback_state: values for names that a checkpoint lacks.

    Returns:
        One train state for one path, a list for none or several; None without
        configuration.
    """
    if restore_cfg is None or paths is None:
        return None
    states = []
    for path in paths:
        logging.info("Initializing parameters from checkpoint %s.", path)
        fns = restore_cfg.state_transformation_fns
        if is_tensorflow(path, fns):
            state = checkpoint_manager.restore_from_tf_checkpoint(
                path, strict=restore_cfg.strict
            )
        else:
            state = checkpoint_manager.restore(
                path=path, state_transformation_fns=fns, fallback_state=fallback_state
            )
        states.append(state)
    return states[0] if len(states) == 1 else states


def create_orbax_checkpoint_manager(
    *,
    save_cfg: SaveCheckpointConfig | None = None,
    restore_cfg: RestoreCheckpointConfig | None = None,
    train_state: Any,
    partitioner: BasePartitioner,
    ds_iter: Any = None,
    model_dir: str | None = None,
) -> Any:
    """Creates the orbax manager that the configurations describe.

    The deletion rule comes from `save_cfg.checkpointer_cls`, so SaveBestCheckpointer
    works with orbax as well.

    Raises:
        UserError: the configurations name different `checkpoint_manager_cls`.
    """
    classes = [c.checkpoint_manager_cls for c in (save_cfg, restore_cfg) if c]
    if len(classes) == 2 and classes[0] is not classes[1]:
        raise UserError(
            "Must provide matching configurations of `checkpoint_manager_cls` in "
            f"`save_cfg` and `restore_cfg`, got {classes[0]} and {classes[1]}."
        )
    manager_cls = classes[0] if classes else OrbaxCheckpointManagerInterface
    save_dataset = bool(save_cfg and save_cfg.save_dataset)
    restore_dataset = bool(restore_cfg and restore_cfg.restore_dataset)
    settings: dict[str, Any] = {}
    if save_cfg is not None:
        settings = {
            "save_dtype": save_cfg.dtype,
            "keep": save_cfg.keep,
            "period": save_cfg.period,
            **_retention_settings(save_cfg, train_state, partitioner, model_dir),
        }
    manager = manager_cls(
        directory=model_dir,
        train_state=train_state,
        partitioner=partitioner,
        dataset_iterator=ds_iter if save_dataset or restore_dataset else None,
        restore_dtype=restore_cfg.dtype if restore_cfg else None,
        **settings,
    )
    # A fine-tuning run saves its data position but must not restore the position of the
    # pretraining.
    manager.restore_dataset = restore_dataset
    return manager


def _retention_settings(
    save_cfg: SaveCheckpointConfig,
    train_state: Any,
    partitioner: BasePartitioner,
    model_dir: str | None,
) -> dict[str, Any]:
    """Returns the non-basic settings in use, so that simpler managers still fit."""
    settings: dict[str, Any] = {}
    if save_cfg.checkpoint_steps:
        settings["checkpoint_steps"] = save_cfg.checkpoint_steps
    if save_cfg.keep_dataset_checkpoints:
        settings["keep_dataset_checkpoints"] = save_cfg.keep_dataset_checkpoints
    checkpointer = save_cfg.checkpointer_cls(
        train_state=train_state, partitioner=partitioner, checkpoints_dir=model_dir
    )
    rule = getattr(checkpointer, "retention", None)
    if rule is not None and rule.metric_name is not None:
        settings |= {
            "metric_name_to_monitor": rule.metric_name,
            "metric_mode": rule.metric_mode,
            "keep_checkpoints_without_metrics": rule.keep_without_metrics,
            "force_keep_period": rule.force_keep_period,
        }
    return settings
