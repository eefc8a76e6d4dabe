"""The stages of a training run before its loop."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
import jax
from absl import logging
from etils import epath

from t5x import variables
from t5x.checkpoint.settings import SaveCheckpointConfig
from t5x.errors import UserError
from t5x.feed import datasets as datasets_lib
from t5x.feed import iterators, registered
from t5x.feed.data_config import DatasetConfig
from t5x.feed.shards import DataShards, number_of_shards
from t5x.inference.background import BackgroundEvaluator
from t5x.inference.evaluator import EvaluatorConstructor, InferenceEvaluator
from t5x.logs.progress import announce
from t5x.logs.sinks import MetricSink
from t5x.partition.base_partitioner import DataLayout
from t5x.training import resume, run_record
from t5x.training.actions import ActionMode, BaseAction
from t5x.training.base_trainer import BaseTrainer


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
        variables.set_hardware_rng_ops()
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
    found: resume.Found,
) -> iterators.PrefetchIterator:
    """Opens the training data of this process, in the shards with which the run began.

    Args:
        cfg: dataset configuration.
        layout: rows of this process.
        get_dataset_fn, feature_converter_cls: see `datasets.GetDatasetCallable`.
        partitioner: partitioner of the batches.
        record: record of the run.
        asked: number of shards in the configuration, or None.
        found: checkpoint from which the run starts.

    Raises:
        UserError: the batch size is not divisible by the number of shards.
    """
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


def make_sinks(
    constructors: Sequence[Callable[..., MetricSink]],
    model_dir: str,
    stack: contextlib.ExitStack,
) -> list[MetricSink]:
    """Returns the additional metric sinks of process 0. `stack` closes them."""
    sinks: list[MetricSink] = []
    if jax.process_index() == 0:
        for construct in constructors:
            sinks.append(construct(model_dir=model_dir, config=gin.config_str()))
            stack.callback(sinks[-1].close)
    return sinks


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
    """Compiles the train step of the trainer.

    Args:
        trainer: compiles and keeps the step.
        train_iter: tells shapes and types of the batches.
        partitioner: partitioner of the batches.
        data_layout: rows of this process.
        steps: number of steps until the first stop. If it is below `steps_per_call`,
            single steps are compiled instead.
    """
    if steps < trainer.steps_per_call:
        trainer.steps_per_call = 1
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
    """Waits for the first batch, which is read while the step compiles."""
    tick = time.time()
    first_batch_ready.result()
    trainer.train_metrics_manager.write_scalar(
        "timing/train_iter_warmup", time.time() - tick, step
    )


class Saver:
    """Saves checkpoints of a run as configured.

    A call starts a save, which may overlap with training; `wait` waits for it.
    """

    def __init__(self, manager: Any, save_cfg: SaveCheckpointConfig):
        self._manager = manager
        self._fns = save_cfg.state_transformation_fns

    def __call__(self, train_state: Any) -> None:
        """Starts to save a state, whose buffers may be donated afterwards.

        Raises:
            UserError: the file system refused this save or the previous one.
        """
        self._manager.save(train_state, self._fns)

    def check(self) -> None:
        """Raises the error of a failed background save; does not wait."""
        # User-defined checkpoint managers may lack this method.
        getattr(self._manager, "check_for_errors", lambda: None)()

    def wait(self) -> None:
        """Waits until the last checkpoint is complete.

        Raises:
            UserError: the file system refused it.
        """
        self._manager.wait_until_finished()


def make_saver(manager: Any, save_cfg: SaveCheckpointConfig | None) -> Saver | None:
    """Returns the saver of a run, or None if the run saves nothing."""
    if manager is None or not save_cfg:
        return None
    if not (save_cfg.period or save_cfg.checkpoint_steps):
        return None
    return Saver(manager, save_cfg)
