"""The stages of a training run before its loop."""

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from absl import logging
from etils import epath

from t5x import checkpoints as checkpoints_lib
from t5x import state_utils, variables
from t5x.checkpoint import state_init
from t5x.checkpoint.folders import tf_checkpoint_paths
from t5x.checkpoint.settings import (
    CheckpointConfig,
    RestoreCheckpointConfig,
    SaveCheckpointConfig,
)
from t5x.errors import UserError
from t5x.feed import datasets as datasets_lib
from t5x.feed import iterators, registered
from t5x.feed.data_config import DatasetConfig
from t5x.inference.evaluator import EvaluatorConstructor, InferenceEvaluator
from t5x.logs.progress import announce
from t5x.paths import with_absolute_path
from t5x.training import run_record
from t5x.training.actions import ActionMode, BaseAction
from t5x.training.trainer import BaseTrainer


class LazyConverter:
    """A model's feature converter class, looked up when it is first used.

    The class comes from seqio, which a `get_dataset_fn` of one's own may do without.
    """

    def __init__(self, model: Any):
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._model.FEATURE_CONVERTER_CLS(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model.FEATURE_CONVERTER_CLS, name)


def converter_of(model: Any) -> Any:
    """The model's feature converter class; imports seqio only where it is needed."""
    return (
        model.FEATURE_CONVERTER_CLS if "seqio" in sys.modules else LazyConverter(model)
    )


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
    """(key of initialisation, key of dropout)."""
    if use_hardware_rng or random_seed is None:
        variables.set_hardware_rng_ops()
    if random_seed is None:
        random_seed = record.get("random_seed") or datasets_lib.fresh_seed()
        record.update(random_seed=random_seed)
    logging.info("Seed of initialisation and dropout: %d", random_seed)
    init_rng, trainer_rng = jax.random.split(jax.random.PRNGKey(random_seed), 2)
    return init_rng, trainer_rng


def is_in(path: str | None, folder: str) -> bool:
    """Whether a checkpoint lies directly in a folder."""
    return path is not None and os.path.normpath(
        os.path.dirname(os.path.normpath(path))
    ) == os.path.normpath(folder)


def first_step_of(record: run_record.RunRecord, step: int, resumed: bool) -> int:
    """Step at which the run began; notes the beginning of a new run."""
    first_step = record.get("first_step") if resumed else None
    if first_step is None or first_step > step:
        first_step = step
        record.update(first_step=step, evaluated_step=None, actions={}, stop=False)
    return first_step


def with_seed(cfg: DatasetConfig, record: run_record.RunRecord) -> DatasetConfig:
    """Fixes the seed of the data for the whole run, over restarts."""
    if cfg.seed is not None:
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
    """Compares vocabularies where the data comes from a registered task."""
    if verify is None or not hasattr(model, "input_vocabulary"):
        return
    if get_dataset_fn is not datasets_lib.get_dataset and not _is_registered(cfg):
        return
    verify(cfg, model)


def _is_registered(cfg: DatasetConfig) -> bool:
    try:
        registered.task_or_mixture(cfg)
    except (UserError, ImportError):
        return False
    return True


def _resuming_fns(
    restore_cfg: RestoreCheckpointConfig | None, model_dir: str
) -> list[Callable[..., Any]]:
    """What happens to a checkpoint of the run itself before it is taken over."""
    fns: list[Callable[..., Any]] = [
        functools.partial(fn, is_resuming=True)
        for fn in (restore_cfg.state_transformation_fns if restore_cfg else ())
    ]
    # TensorFlow's layout admits no functions, and is read strictly anyway.
    if not tf_checkpoint_paths(model_dir):
        fns.append(functools.partial(_refuse_surplus, model_dir))
    return fns


def _refuse_surplus(model_dir: str, stored: Any, target: Any) -> Any:
    """Returns `stored`, unless it has parameters that the model lacks.

    A run that goes on with a part of its model would do so without a word.
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


def restore_or_init(
    initializer: Any,
    partitioner: Any,
    checkpoint_cfg: CheckpointConfig,
    model_dir: str,
    train_iter: Any,
    init_rng: jax.Array,
    use_orbax: bool,
) -> tuple[Any, Any, str | None]:
    """(train state, checkpoint manager or None, path restored from or None)."""
    save_cfg, restore_cfg = checkpoint_cfg.save, checkpoint_cfg.restore
    candidates = [
        RestoreCheckpointConfig(
            path=model_dir,
            mode="latest",
            dtype=save_cfg.dtype if save_cfg else "float32",
            checkpointer_cls=save_cfg.checkpointer_cls
            if save_cfg
            else checkpoints_lib.Checkpointer,
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
                "Restore checkpoint config may only have a single path in training, got "
                f"{list(restore_cfg.path)}."
            )
    valid_cfg, paths = state_init.get_first_valid_restore_config_and_paths(candidates)
    if len(paths) > 1:
        raise UserError(f"Multiple restore paths not permitted in training: {paths}")
    train_state, manager = None, None
    wants_saves = save_cfg and (save_cfg.period or save_cfg.checkpoint_steps)
    if valid_cfg is not None or wants_saves:
        train_state, manager = state_init.create_checkpoint_manager_and_restore(
            initializer,
            partitioner,
            valid_cfg,
            paths[0] if paths else None,
            init_rng,
            save_checkpoint_cfg=save_cfg,
            model_dir=model_dir,
            ds_iter=train_iter,
            use_orbax=use_orbax,
        )
    if train_state is None:
        return initializer.from_scratch(init_rng), manager, None
    return train_state, manager, os.fspath(paths[0]) if paths else None


def make_evaluator(
    cfg: DatasetConfig | None,
    evaluator_cls: EvaluatorConstructor | None,
    model: Any,
    partitioner: Any,
    model_dir: str,
    verify: Callable[[DatasetConfig], None],
) -> InferenceEvaluator | None:
    epath.Path(model_dir, "inference_eval").mkdir(parents=True, exist_ok=True)
    if cfg is None:
        return None
    verify(cfg)
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
            f"warning: no task of {cfg.name!r} has metrics and a split {cfg.split!r}: "
            "no inference evaluation"
        )
        return None
    return evaluator


def compile_train_step(
    trainer: BaseTrainer, train_iter: Any, partitioner: Any, data_layout: Any
) -> None:
    rows = data_layout.batch_size // data_layout.num_shards
    spec = {
        name: jax.ShapeDtypeStruct((rows, *s.shape[1:]), s.dtype)
        for name, s in train_iter.element_spec.items()
    }
    batch = {
        k: jax.device_get(v)
        for k, v in datasets_lib.get_zeros_batch_like_spec(spec).items()
    }
    trainer.compile_train(iterators.shard_batch(batch, partitioner))


def warm_up(first_batch_ready: Any, trainer: BaseTrainer, step: int) -> None:
    """Waits for the first batch, which was read while the step was compiled."""
    tick = time.time()
    first_batch_ready.result()
    trainer.train_metrics_manager.write_scalar(
        "timing/train_iter_warmup", time.time() - tick, step
    )


class Saver:
    """Saves checkpoints of a run as its config says.

    Calling it starts a save, which may go on while training does; `wait` ends it.
    """

    def __init__(self, manager: Any, save_cfg: SaveCheckpointConfig):
        self._manager = manager
        self._fns = save_cfg.state_transformation_fns

    def __call__(self, train_state: Any) -> None:
        """Starts to save a state, whose buffers may be donated afterwards.

        Raises:
            UserError: the file system refused this save or the one before.
        """
        self._manager.save(train_state, self._fns)

    def check(self) -> None:
        """Raises the error of a save that has failed meanwhile; does not wait."""
        # Checkpoint managers of one's own may do without.
        getattr(self._manager, "check_for_errors", lambda: None)()

    def wait(self) -> None:
        """Waits until the last checkpoint is complete.

        Raises:
            UserError: the file system refused it.
        """
        self._manager.wait_until_finished()


def make_saver(manager: Any, save_cfg: SaveCheckpointConfig | None) -> Saver | None:
    """The saver of a run; None if it saves nothing."""
    if manager is None or not save_cfg:
        return None
    if not (save_cfg.period or save_cfg.checkpoint_steps):
        return None
    return Saver(manager, save_cfg)
