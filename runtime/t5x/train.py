"""`python -m t5x.train`: trains a model as configured by gin."""

if __name__ == "__main__":
    # Before imports that take seconds.
    import sys

    from t5x.start import macros

    macros.check(sys.argv)

import contextlib
import functools
import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
import jax
from jaxaug_base import libraries

from t5x import checks, distributed, peers
from t5x.checkpoint import state_init
from t5x.checkpoint.settings import CheckpointConfig
from t5x.feed import datasets as datasets_lib
from t5x.feed import vocabularies
from t5x.feed.datasets import class_of
from t5x.feed.registered import DatasetConfig
from t5x.inference.evaluator import EvaluatorConstructor
from t5x.logs.metrics_writer import to_host
from t5x.logs.progress import Progress, announce
from t5x.logs.sinks import MetricSink
from t5x.start import config_changes, program
from t5x.training import loop, run_record, setup
from t5x.training.actions import BaseAction
from t5x.training.loop import make_schedule
from t5x.training.run_record import PreemptionGuard
from t5x.training.trainer import BaseTrainerConstructor


def train(
    *,
    model: Any,
    train_dataset_cfg: DatasetConfig,
    train_eval_dataset_cfg: DatasetConfig | None,
    infer_eval_dataset_cfg: DatasetConfig | None,
    checkpoint_cfg: CheckpointConfig,
    partitioner: Any,
    trainer_cls: BaseTrainerConstructor,
    model_dir: str,
    total_steps: int,
    eval_steps: int,
    eval_period: int,
    relative_steps: int | None = None,
    stats_period: int | None = None,
    random_seed: int | None,
    use_hardware_rng: bool = False,
    summarize_config_fn: Callable[[str, Any, int], None],
    inference_evaluator_cls: EvaluatorConstructor | None = None,
    get_dataset_fn: Callable[..., Any] = datasets_lib.get_dataset,
    concurrent_metrics: bool = True,
    actions: Mapping[str, Sequence[BaseAction]] | None = None,
    train_eval_get_dataset_fn: Callable[
        ..., Mapping[str, Any]
    ] = datasets_lib.get_training_eval_datasets,
    run_eval_before_training: bool = False,
    train_state_initializer_cls: Callable[..., Any] = state_init.TrainStateInitializer,
    use_orbax: bool = True,
    verify_matching_vocabs_fn: Callable[..., None]
    | None = vocabularies.verify_matching_vocabs,
    gc_period: int = 0,
    data_shards: int | None = None,
    metric_sinks: Sequence[Callable[..., MetricSink]] = (),
) -> tuple[int, Any]:
    """Trains a model; evaluates and saves it during training and at the end.

    On SIGTERM it saves everything and raises PreemptionError. Started again with the
    same arguments, it continues as if it had not been interrupted.

    Args:
        train_dataset_cfg: training data.
        train_eval_dataset_cfg: data for evaluation with teacher forcing, or None.
        infer_eval_dataset_cfg: data for evaluation by decoding, or None.
        checkpoint_cfg: settings of restoring and saving; either part may be None.
        model_dir: folder of checkpoints, metrics, and results.
        total_steps: step at which training ends.
        eval_steps: batches of an evaluation with teacher forcing.
        eval_period: steps between evaluations, from the first step of the run.
        relative_steps: steps to train from the start of the run; replaces total_steps.
        stats_period: steps over which training metrics are averaged; default: the
            shortest of the other periods.
        random_seed: seed of initialization and dropout; None draws one and uses the
            fast generator.
        use_hardware_rng: whether to use the fast generator, whose numbers depend on the
            sharding.
        get_dataset_fn: returns the training data, see `datasets.GetDatasetCallable`.
        concurrent_metrics: whether to compute inference metrics while training
            continues. Actions for TRAIN and INFER_EVAL need False.
        actions: 'TRAIN' | 'TRAIN_EVAL' | 'INFER_EVAL' -> actions.
        run_eval_before_training: whether to evaluate the initial model too.
        use_orbax: without effect; False in a gin file of T5X gives a warning.
        gc_period: steps between garbage collections; 0 leaves them to Python.
        data_shards: number of shards of the training data; default: one per process
            that feeds distinct rows. A run keeps its number on any number of processes.
            Runs with the same number see the same batches.
        metric_sinks: constructors of additional metric sinks, called with `model_dir`
            and `config`; see `t5x.logs.sinks`.

    Returns:
        (last step, last train state).

    Raises:
        UserError: a setting is wrong; the message says how to correct it.
        PreemptionError: training was interrupted, and everything is saved.
    """
    total_steps = checks.whole_number(
        "train.total_steps (TRAIN_STEPS)", total_steps, least=0
    )
    eval_steps = checks.whole_number("train.eval_steps", eval_steps or 0, least=0)
    eval_period = checks.whole_number(
        "train.eval_period (EVAL_PERIOD)", eval_period or 0, 0, "; 0 means never"
    )
    relative_steps = checks.whole_number(
        "train.relative_steps (TRAIN_STEPS_RELATIVE)", relative_steps or 0, least=0
    )
    if data_shards is not None:
        checks.whole_number("train.data_shards", data_shards, least=1)
    if not use_orbax:
        announce(
            "warning: train.use_orbax = False has no effect: all checkpoints are "
            "written with orbax"
        )
    model_dir = checks.output_folder("train.model_dir (MODEL_DIR)", model_dir)
    libraries.keep_in(model_dir, jax.process_index())
    action_map = setup.parse_actions(actions, concurrent_metrics)
    save_cfg = checkpoint_cfg.save
    feature_converter_cls = class_of(model)
    verify = functools.partial(
        setup.verify_vocabs, verify_matching_vocabs_fn, get_dataset_fn, model
    )
    with PreemptionGuard() as guard, contextlib.ExitStack() as stack:
        stack.enter_context(guard.interruptible())
        stack.enter_context(run_record.only_run_in(model_dir))
        peers.advise(functools.partial(loop.how_to_go_on, model_dir))
        record = run_record.RunRecord(model_dir)
        distributed.sync_global_devices("run_record")
        sinks: list[MetricSink] = []
        if jax.process_index() == 0:
            for construct in metric_sinks:
                sinks.append(construct(model_dir=model_dir, config=gin.config_str()))
                stack.callback(sinks[-1].close)
        found = setup.find_checkpoint(checkpoint_cfg, model_dir)
        resumed = found.resumed
        if not resumed:
            record.begin_anew()

        # ---- Randomness ----
        init_rng, trainer_rng = setup.make_rngs(random_seed, use_hardware_rng, record)

        # ---- Data ----
        verify(train_dataset_cfg)
        layout = partitioner.get_data_layout(train_dataset_cfg.batch_size)
        train_iter = setup.open_train_data(
            train_dataset_cfg,
            layout,
            get_dataset_fn,
            feature_converter_cls,
            partitioner,
            record,
            data_shards,
            found,
        )
        stack.callback(train_iter.close)
        train_eval_datasets: Mapping[str, Any] = {}
        if train_eval_dataset_cfg is not None:
            verify(train_eval_dataset_cfg)
            train_eval_datasets = train_eval_get_dataset_fn(
                train_eval_dataset_cfg,
                layout.shard_id,
                layout.num_shards,
                eval_steps,
                feature_converter_cls,
            )

        # ---- Train state, the first there is: 1. newest checkpoint in model_dir,
        # ---- 2. checkpoint_cfg.restore, 3. from scratch ----
        tick = time.time()
        initializer = train_state_initializer_cls(
            optimizer_def=model.optimizer_def,
            init_fn=model.get_initial_variables,
            input_shapes={
                name: (layout.batch_size, *spec.shape[1:])
                for name, spec in train_iter.element_spec.items()
            },
            input_types={n: spec.dtype for n, spec in train_iter.element_spec.items()},
            partitioner=partitioner,
        )
        source = found.path
        train_state, manager = None, None
        if found.settings is not None or setup.saves(save_cfg):
            train_state, manager = state_init.create_checkpoint_manager_and_restore(
                initializer,
                partitioner,
                found.settings,
                source,
                init_rng,
                save_checkpoint_cfg=save_cfg,
                model_dir=model_dir,
                ds_iter=train_iter,
            )
        if train_state is None:
            train_state = initializer.from_scratch(init_rng)
        if manager is not None:
            stack.callback(manager.close)
        first_batch_ready = train_iter.peek_async()
        step = int(to_host(train_state.step))
        init_seconds = time.time() - tick
        what = f"restored {source}" if source else "initialised from scratch"
        announce(f"step {step:,}  {what} ({init_seconds:.1f}s)")
        state_init.log_model_info(
            os.path.join(model_dir, "model-info.txt"),
            initializer.global_train_state_shape,
            partitioner,
        )

        # ---- Schedule ----
        first_step = setup.first_step_of(record, step, resumed, checkpoint_cfg.restore)
        total_steps = setup.last_step(
            first_step, step, total_steps, relative_steps, source
        )
        is_finished = resumed and record.is_finished(step, total_steps)
        if is_finished and not run_eval_before_training:
            announce(
                f"step {step:,}  this run is finished; nothing is left to do. Give "
                f"more steps to train further. Results are in {model_dir}"
            )
            return step, train_state
        record.reopen()
        evaluates = bool(train_eval_dataset_cfg or infer_eval_dataset_cfg)
        schedule = make_schedule(
            first_step,
            total_steps,
            eval_period=eval_period if evaluates else 0,
            checkpoint_period=save_cfg.period if save_cfg else 0,
            gc_period=gc_period,
            stats_period=stats_period,
            checkpoint_steps=save_cfg.checkpoint_steps if save_cfg else (),
        )

        # ---- Trainer and evaluator ----
        trainer = trainer_cls(
            model=model,
            train_state=train_state,
            partitioner=partitioner,
            eval_names=list(train_eval_datasets),
            summary_dir=model_dir,
            train_state_axes=initializer.train_state_axes,
            rng=trainer_rng,
        )
        del train_state  # The first step donates it.
        stack.callback(trainer.close)
        if sinks:
            trainer.send_metrics_to(sinks)
        if resumed:
            config_changes.report(model_dir, step)
        metrics = trainer.train_metrics_manager
        summarize_config_fn(model_dir, metrics.summary_writer, step)
        metrics.write_scalar("timing/init_or_restore_seconds", init_seconds, step)
        evaluator = setup.make_evaluator(
            infer_eval_dataset_cfg,
            inference_evaluator_cls,
            model,
            partitioner,
            model_dir,
            verify,
        )
        if evaluator is not None:
            stack.enter_context(evaluator)
        if resumed:
            loop.restore_actions(action_map, record)
            # A stop that was recorded after this checkpoint is decided again.
            is_current = step >= (record.get("evaluated_step") or 0)
            trainer.stop_training = is_current and bool(record.get("stop"))
        evaluation = loop.Evaluation(
            trainer=trainer,
            train_state_axes=initializer.train_state_axes,
            train_eval_datasets=train_eval_datasets,
            evaluator=evaluator,
            concurrent_metrics=concurrent_metrics,
            actions=action_map,
            record=record,
            sinks=sinks,
        )
        if run_eval_before_training:
            evaluation.run(step)
        if step < total_steps:
            until_stop = schedule.next_stop(step) - step
            setup.compile_train_step(
                trainer, train_iter, partitioner, layout, until_stop
            )
            tick = time.time()
            first_batch_ready.result()  # It was read while the step compiled.
            metrics.write_scalar("timing/train_iter_warmup", time.time() - tick, step)
        guard.finish_steps()

        # ---- Loop ----
        if gc_period:
            gc.disable()
            stack.callback(gc.enable)
        trainer.preempted = guard.before_step
        if evaluator is not None:
            trainer.preempted = evaluator.before_step(guard.before_step)
        trainer.progress = Progress(
            step, total_steps, evaluations=schedule.evaluations_after
        )
        stack.callback(trainer.progress.close)
        step = loop.TrainLoop(
            trainer=trainer,
            evaluation=evaluation,
            schedule=schedule,
            record=record,
            batches=train_iter,
            manager=manager if setup.saves(save_cfg) else None,
            save_fns=save_cfg.state_transformation_fns if save_cfg else (),
            saved_step=step if resumed else None,
            model_dir=model_dir,
        ).run(step, guard)
        record.complete(step, total_steps)
    distributed.sync_global_devices("complete")
    announce(f"step {step:,}  finished; results are in {model_dir}")
    return step, trainer.train_state


if __name__ == "__main__":
    program.define_flags()
    program.run(lambda: train)
