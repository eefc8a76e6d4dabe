"""The stages of a training run before its loop."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath

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
from t5x.feed import datasets as datasets_lib
from t5x.feed import iterators, registered
from t5x.feed.registered import DatasetConfig
from t5x.feed.shards import DataShards, number_of_shards
from t5x.inference.evaluator import (
    BackgroundEvaluator,
    EvaluatorConstructor,
    InferenceEvaluator,
)
from t5x.logs.progress import announce
from t5x.partition.partitioner import DataLayout
from t5x.train_state import set_hardware_rng_ops
from t5x.training import run_record
from t5x.training.actions import ActionMode, BaseAction
from t5x.training.trainer import BaseTrainer


def first_step_of(
    record: run_record.RunRecord,
    step: int,
    resumed: bool,
    restore_cfg: RestoreCheckpointConfig | None,
) -> int:
    """Returns the step at which the run began; records the start of a new run.

    If the record is lost, the start is the checkpoint that `restore_cfg` names.
    """
    noted = record.get("first_step") if resumed else None
    if noted is not None and noted <= step:
        return noted
    initial = None
    if resumed and restore_cfg is not None and restore_cfg.path:
        _, paths = state_init.get_first_valid_restore_config_and_paths(
            [with_absolute_path(restore_cfg)]
        )
        initial = folders.step_of(paths[0]) if paths else None
    if initial is not None and initial < step:
        record.update(first_step=initial, evaluated_step=step)
        return initial
    record.update(first_step=step, evaluated_step=None, actions={}, stop=False)
    return step


def last_step(
    first_step: int, step: int, total: int, relative: int, source: Any
) -> int:
    """Returns the step at which the run ends; `relative`, if above 0, replaces `total`.

    Raises:
        UserError: the run is already past its end.
    """
    if relative:
        total = first_step + relative
    if total < step:
        raise UserError(
            f"Unexpected total_steps ({total}) < checkpoint step ({step}) of {source}: "
            "give more steps (TRAIN_STEPS counts from 0, TRAIN_STEPS_RELATIVE from the "
            "initial checkpoint), or use another MODEL_DIR."
        )
    return total


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

    Without one, the first two are None. `resumed` says whether it is the run's own.
    """

    settings: RestoreCheckpointConfig | None
    path: str | None
    resumed: bool

    @property
    def data_shards(self) -> int | None:
        """Number of shards of the restored data position, or None."""
        if self.path is None or self.settings is None:
            return None
        if not self.settings.restore_dataset:
            return None
        return data_position.saved_shards(folders.locate(self.path).root)


def find_checkpoint(checkpoint_cfg: CheckpointConfig, model_dir: str) -> Found:
    """Finds the newest checkpoint of the run itself, or else the configured one."""
    save_cfg, restore_cfg = checkpoint_cfg.save, checkpoint_cfg.restore
    fns = restore_cfg.state_transformation_fns if restore_cfg else ()
    candidates = [
        RestoreCheckpointConfig(
            path=model_dir,
            mode="latest",
            dtype=save_cfg.dtype if save_cfg else "float32",
            checkpoint_manager_cls=save_cfg.checkpoint_manager_cls
            if save_cfg
            else checkpoints_lib.OrbaxCheckpointManagerInterface,
            restore_dataset=bool(save_cfg and save_cfg.save_dataset),
            state_transformation_fns=[
                *(functools.partial(fn, is_resuming=True) for fn in fns),
                functools.partial(_refuse_surplus, model_dir),
            ],
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
            "(RestoreCheckpointConfig.path is the folder of a run, or, in mode "
            "'specific', of a checkpoint)"
        )
    path = os.fspath(paths[0]) if paths else None
    return Found(valid_cfg, path, resumed=valid_cfg is candidates[0])


def saves(save_cfg: SaveCheckpointConfig | None) -> bool:
    """Returns whether a run with these settings saves checkpoints."""
    return bool(save_cfg and (save_cfg.period or save_cfg.checkpoint_steps))


def parse_actions(
    actions: Mapping[str, Sequence[BaseAction]] | None, concurrent_metrics: bool
) -> dict[ActionMode, Sequence[BaseAction]]:
    actions = actions or {}
    known = [mode.name for mode in ActionMode]
    unknown = sorted(set(actions) - set(known))
    if unknown:
        raise UserError(f"actions keys must be one of {known}, but got: {unknown}")
    for name in ("TRAIN", "INFER_EVAL"):
        if concurrent_metrics and actions.get(name):
            announce(
                f"warning: actions for {name} will not run; they need "
                "train.concurrent_metrics = False"
            )
    return {ActionMode[name]: list(value) for name, value in actions.items()}


def make_rngs(
    random_seed: int | None, use_hardware_rng: bool, record: run_record.RunRecord
) -> tuple[jax.Array, jax.Array]:
    """Returns (initialization key, dropout key)."""
    if use_hardware_rng or random_seed is None:
        set_hardware_rng_ops()
    if random_seed is None:
        random_seed = record.get("random_seed") or datasets_lib.fresh_seed()
        record.update(random_seed=random_seed)
    logging.info("Seed of initialisation and dropout: %d", random_seed)
    init_rng, trainer_rng = jax.random.split(jax.random.PRNGKey(random_seed), 2)
    return init_rng, trainer_rng


def with_seed(cfg: DatasetConfig, record: run_record.RunRecord) -> DatasetConfig:
    """Fixes the data seed for the whole run, including restarts."""
    if cfg.seed is not None:
        datasets_lib.require_same_seed(cfg)
        return cfg
    seed = record.get("data_seed") or datasets_lib.fresh_seed()
    record.update(data_seed=seed)
    return dataclasses.replace(cfg, seed=seed)


def verify_vocabs(
    verify: Callable[..., None] | None,
    get_dataset_fn: Callable[..., Any],
    model: Any,
    cfg: DatasetConfig,
) -> None:
    """Compares vocabularies if the data comes from a registered task."""
    if verify is None or not hasattr(model, "input_vocabulary"):
        return
    if (
        get_dataset_fn is not datasets_lib.get_dataset
        and registered.find(cfg, get_dataset_fn) is None
    ):
        return
    verify(registered.resolved(cfg, get_dataset_fn), model)


def open_train_data(
    cfg: DatasetConfig,
    layout: DataLayout,
    get_dataset_fn: Callable[..., Any],
    feature_converter_cls: Any,
    partitioner: Any,
    record: run_record.RunRecord,
    asked: int | None,
    found: Found,
) -> iterators.PrefetchIterator:
    """Opens the training data of this process, in the shards of the first start."""
    cfg = with_seed(cfg, record)
    count = number_of_shards(
        asked,
        found.data_shards,
        record.get("data_shards"),
        layout.batch_size,
        layout.num_shards,
    )
    record.update(data_shards=count)
    if count != layout.num_shards:
        logging.info(
            "The training data is read in %d shards by %d parts of the processes.",
            count,
            layout.num_shards,
        )
    return iterators.prepare_shards(
        lambda shard: get_dataset_fn(cfg, shard, count, feature_converter_cls),
        DataShards(
            count=count,
            batch_size=layout.batch_size,
            part=layout.shard_id,
            parts=layout.num_shards,
            saves=layout.is_first_host_in_replica_set,
        ),
        partitioner,
    )


def make_evaluator(
    cfg: DatasetConfig | None,
    evaluator_cls: EvaluatorConstructor | None,
    model: Any,
    partitioner: Any,
    model_dir: str,
    verify: Callable[[DatasetConfig], None],
) -> BackgroundEvaluator | None:
    """Returns an evaluator built in the background, or None if evaluation is off.

    In multi-process runs it is built synchronously: user-defined evaluators may run
    collectives, which must not interleave with the collectives of the training step.
    """
    epath.Path(model_dir, "inference_eval").mkdir(parents=True, exist_ok=True)
    if cfg is None:
        return None
    verify(cfg)

    def build() -> InferenceEvaluator | None:
        evaluator = InferenceEvaluator(
            infer_eval_dataset_cfg=cfg,
            inference_evaluator_cls=evaluator_cls,
            model=model,
            partitioner=partitioner,
            log_dir=model_dir,
            verify_matching_vocabs_fn=None,
        )
        if not evaluator.eval_tasks:
            announce(
                f"warning: no task of {cfg.name!r} has metrics and a split "
                f"{cfg.split!r}: no inference evaluation"
            )
            return None
        return evaluator

    evaluator = BackgroundEvaluator(build)
    if jax.process_count() > 1:
        evaluator.join()
    return evaluator


def compile_train_step(
    trainer: BaseTrainer,
    train_iter: Any,
    partitioner: Any,
    data_layout: Any,
    steps: int,
) -> None:
    """Compiles the train step, or single steps if the first stop comes too early."""
    if steps < trainer.steps_per_call:
        trainer.steps_per_call = 1
    rows = data_layout.batch_size // data_layout.num_shards
    batch = {
        name: np.zeros((rows, *s.shape[1:]), s.dtype)
        for name, s in train_iter.element_spec.items()
    }
    trainer.compile_train(iterators.shard_batch(batch, partitioner))
