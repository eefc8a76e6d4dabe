"""`python -m t5x.eval`: evaluates checkpoints as configured by gin."""

if __name__ == "__main__":
    # Before imports that take seconds.
    import sys

    from t5x.start import macros

    macros.check(sys.argv)

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from absl import logging
from etils import epath
from jaxaug_base import libraries
from jaxaug_base.files import replacing

from t5x import checkpoints as checkpoints_lib
from t5x import checks, distributed
from t5x.checkpoint import state_init
from t5x.checkpoint.settings import RestoreCheckpointConfig, with_absolute_path
from t5x.errors import UserError
from t5x.feed import datasets as datasets_lib
from t5x.feed import registered
from t5x.feed.iterators import batches_of
from t5x.feed.registered import DatasetConfig
from t5x.inference.evaluator import EvaluatorConstructor, InferenceEvaluator
from t5x.logs.metrics_writer import to_host
from t5x.logs.progress import Work, announce
from t5x.start import gin_config, program
from t5x.training.loop import report


def evaluate(
    *,
    model: Any,
    dataset_cfg: DatasetConfig,
    restore_checkpoint_cfg: RestoreCheckpointConfig,
    partitioner: Any,
    output_dir: str,
    inference_evaluator_cls: EvaluatorConstructor | None = None,
    training_evaluator_cls: Callable[..., Any] | None = None,
    summarize_config_fn: Callable[..., None] = gin_config.summarize_gin_config,
    train_state_initializer_cls: Callable[..., Any] = state_init.TrainStateInitializer,
    train_eval_get_dataset_fn: Callable[
        ..., Mapping[str, Any]
    ] = datasets_lib.get_training_eval_datasets,
    fallback_init_rng: int | None = None,
    use_orbax: bool = True,
    eval_steps: int = 20,
    trim_padding: bool = True,
) -> None:
    """Evaluates one checkpoint, or all in a folder, by decoding or scoring.

    With restore mode 'all', checkpoints listed in `<output_dir>/eval.<task>.ckpt` are
    skipped, because they were evaluated earlier.

    Args:
        output_dir: results go to `<output_dir>/inference_eval`.
        inference_evaluator_cls: evaluator; None means `seqio.Evaluator`.
        training_evaluator_cls: trainer that also evaluates with teacher forcing, or
            None.
        summarize_config_fn: called with model_dir, summary_writer (None), and step.
        fallback_init_rng: seed for parameters that the checkpoint lacks, if
            RestoreCheckpointConfig.fallback_to_scratch is set.
        use_orbax: without effect; gin files of T5X set it.
        eval_steps: batches for `training_evaluator_cls`.
        trim_padding: see `runner.get_infer_fn`.

    Raises:
        UserError: there is nothing to evaluate, or no such checkpoint.
    """
    if dataset_cfg.module:
        registered.import_module(dataset_cfg.module)
    output_dir = checks.output_folder("evaluate.output_dir", output_dir)
    libraries.keep_in(output_dir, jax.process_index())
    summarize_config_fn(model_dir=output_dir, summary_writer=None, step=0)
    evaluator = InferenceEvaluator(
        dataset_cfg,
        inference_evaluator_cls,
        model,
        partitioner,
        log_dir=output_dir,
        trim_padding=trim_padding,
    )
    if not evaluator.eval_tasks:
        raise UserError(
            f"{dataset_cfg.name!r} has no metrics for evaluation, or no split "
            f"{dataset_cfg.split!r}."
        )
    initializer = train_state_initializer_cls(
        optimizer_def=None,  # The optimizer state is not read.
        init_fn=model.get_initial_variables,
        input_shapes={
            name: (dataset_cfg.batch_size, *shape)
            for name, shape in evaluator.model_feature_shapes.items()
        },
        partitioner=partitioner,
    )
    state_init.log_model_info(
        os.path.join(output_dir, "model-info.txt"),
        initializer.global_train_state_shape,
        partitioner,
    )
    trainer: Any = None
    datasets: Mapping[str, Any] = {}
    if training_evaluator_cls is not None:
        layout = partitioner.get_data_layout(dataset_cfg.batch_size)
        datasets = train_eval_get_dataset_fn(
            dataset_cfg,
            layout.shard_id,
            layout.num_shards,
            eval_steps,
            model.FEATURE_CONVERTER_CLS,
        )
        trainer = training_evaluator_cls(
            model=model,
            train_state=None,
            partitioner=partitioner,
            train_state_axes=initializer.train_state_axes,
            eval_names=list(datasets),
            summary_dir=output_dir,
            rng=jax.random.PRNGKey(0),  # This argument and the next two are unused.
            learning_rate_fn=None,
            num_microbatches=None,
        )
    restore_cfg = with_absolute_path(restore_checkpoint_cfg)
    done_file = epath.Path(output_dir) / f"eval.{dataset_cfg.name}.ckpt"
    init_rng = (
        None if fallback_init_rng is None else jax.random.PRNGKey(fallback_init_rng)
    )
    restore_cfg, paths = _checkpoints_to_evaluate(restore_cfg, done_file)
    each = evaluator.num_examples
    work = Work("evaluation", None if each is None else each * len(paths))
    evaluator.on_done = work.add
    for path in paths:
        train_state, _ = state_init.create_checkpoint_manager_and_restore(
            initializer, partitioner, restore_cfg, path, init_rng
        )
        if train_state is None:
            raise UserError(f"Failed to restore checkpoint {path}.")
        step = int(to_host(train_state.step))
        announce(f"step {step:,}  evaluating {path}")
        if trainer is not None:
            trainer.train_state = train_state
            trainer.eval({name: batches_of(ds) for name, ds in datasets.items()})
        metrics = evaluator.evaluate(train_state, initializer.train_state_axes).result()
        report(step, "inference eval", metrics or {})
        distributed.sync_global_devices(f"step_{step}:complete")
        if jax.process_index() == 0:
            _note_evaluated(done_file, os.fspath(path))
    evaluator.close()
    announce(f"finished; results are in {os.path.join(output_dir, 'inference_eval')}")


def _checkpoints_to_evaluate(
    cfg: RestoreCheckpointConfig, done_file: epath.Path
) -> tuple[RestoreCheckpointConfig, Sequence[str]]:
    if cfg.mode != "all":
        found, paths = state_init.get_first_valid_restore_config_and_paths([cfg])
        if not paths:
            raise UserError(f"No checkpoint found at {cfg.path} (mode {cfg.mode!r}).")
        assert found is not None
        return found, paths
    folders = [cfg.path] if isinstance(cfg.path, (str, os.PathLike)) else cfg.path
    available: set[str] = set()
    for folder in folders:
        if not epath.Path(folder).is_dir():
            raise UserError(
                f"Checkpoint path '{folder}' must be a valid directory when using "
                "restore mode 'all'."
            )
        available.update(
            os.fspath(checkpoints_lib.get_checkpoint_dir(folder, step))
            for step in checkpoints_lib.all_steps(folder)
        )
    if not available:
        raise UserError(f"No checkpoints in {folders}.")
    done = available & _evaluated(done_file)
    if done:
        logging.info("Evaluated before: %s", ", ".join(_by_step(done)))
        announce(f"skipping {len(done)} checkpoints listed in {done_file}")
    cfg.mode = "specific"
    return cfg, _by_step(available - done)


def _evaluated(done_file: epath.Path) -> set[str]:
    if not done_file.exists():
        return set()
    # Folder names may contain spaces, so split() would not do.
    return {line for line in done_file.read_text().split("\n") if line}


def _note_evaluated(done_file: epath.Path, path: str) -> None:
    text = "\n".join(_by_step({*_evaluated(done_file), path}))
    with replacing(done_file) as temporary:
        temporary.write_text(text)


def _by_step(paths: set[str]) -> list[str]:
    def step(path: str) -> int:
        found = re.search(r"(\d+)/?$", path)
        return int(found.group(1)) if found else -1

    return sorted(paths, key=lambda path: (step(path), path))


if __name__ == "__main__":
    program.define_flags()
    program.run(lambda: evaluate)
