"""The loop of a training run: rounds, checkpoints, evaluations, and actions."""

import bisect
import dataclasses
import functools
import gc
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from t5x import checkpoints, checks, distributed
from t5x.errors import UserError
from t5x.feed.datasets import get_zeros_batch_like_dataset
from t5x.feed.iterators import batches_of
from t5x.inference.evaluator import BackgroundEvaluator
from t5x.logs.metrics_writer import to_host
from t5x.logs.progress import Work, announce
from t5x.logs.sinks import MetricSink, scalars_of
from t5x.training.actions import ActionMapType, ActionMode
from t5x.training.nonfinite import nonfinite_parameters
from t5x.training.run_record import PreemptionGuard, RunRecord
from t5x.training.trainer import BaseTrainer, PreemptionError

_NEVER = "; 0 means never"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The stops of a run. Periods count from `first_step`; 0 means never.

    `first_step` is the step at which the run began, not where it was resumed. Every
    period is a multiple of a round of `unit` steps.
    """

    first_step: int
    total_steps: int
    eval_period: int
    checkpoint_period: int
    gc_period: int
    stats_period: int
    checkpoint_steps: tuple[int, ...]
    unit: int

    def next_stop(self, step: int) -> int:
        """Returns the next pause: a checkpoint, or end of a round or stats period."""
        rounds = (step - self.first_step) // self.unit + 1
        round_end = self.first_step + rounds * self.unit
        stop = min(round_end, self.total_steps, step + self.stats_period)
        later = bisect.bisect_right(self.checkpoint_steps, step)
        if later < len(self.checkpoint_steps):
            stop = min(stop, self.checkpoint_steps[later])
        return stop

    def _due(self, period: int, step: int) -> bool:
        return bool(period) and (
            step == self.total_steps or (step - self.first_step) % period == 0
        )

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation follows this step; the last step has one."""
        return self._due(self.eval_period, step)

    def evaluations_after(self, step: int) -> int:
        """Returns the number of evaluations after steps above `step`."""
        period = self.eval_period
        if not period or step >= self.total_steps:
            return 0
        done = max(step - self.first_step, 0) // period
        return -(-(self.total_steps - self.first_step) // period) - done

    def collects_at(self, step: int) -> bool:
        """Returns whether the garbage collector runs after this step."""
        return self._due(self.gc_period, step)

    def saves_at(self, step: int) -> bool:
        """Returns whether a checkpoint is due after this step (always the last)."""
        wanted = self.checkpoint_period or self.checkpoint_steps
        if wanted and step == self.total_steps:
            return True
        return self._due(self.checkpoint_period, step) or step in self.checkpoint_steps


def make_schedule(
    first_step: int,
    total_steps: int,
    *,
    eval_period: int | None = 0,
    checkpoint_period: int | None = 0,
    gc_period: int = 0,
    stats_period: int | None = None,
    checkpoint_steps: Sequence[int] | None = (),
) -> Schedule:
    """Checks the periods and returns the schedule.

    The round is the shortest of the evaluation, checkpoint, and gc periods, or the
    whole run if all are 0. `stats_period` defaults to the round.

    Raises:
        UserError: a period is not a multiple of the round, or not a whole number.
    """
    periods = {
        name: checks.whole_number(name, period or 0, least=0, hint=_NEVER)
        for name, period in (
            ("eval_period", eval_period),
            ("SaveCheckpointConfig.period", checkpoint_period),
            ("gc_period", gc_period),
        )
    }
    stats_period = checks.whole_number("stats_period", stats_period or 0, least=0)
    steps = [
        checks.whole_number("SaveCheckpointConfig.checkpoint_steps", step, least=0)
        for step in checkpoint_steps or ()
    ]
    unit = min((p for p in periods.values() if p), default=max(total_steps, 1))
    for name, period in periods.items():
        if period % unit:
            shortest = next(n for n, p in periods.items() if p == unit)
            raise UserError(
                f"Checkpoint period ({checkpoint_period}), eval period "
                f"({eval_period}), "
                f"and GC period ({gc_period}) must all be multiples of each other: "
                f"{name} = {period} is not a multiple of {shortest} = {unit}."
            )
    return Schedule(
        first_step=first_step,
        total_steps=total_steps,
        eval_period=periods["eval_period"],
        checkpoint_period=periods["SaveCheckpointConfig.period"],
        gc_period=periods["gc_period"],
        stats_period=stats_period or unit,
        checkpoint_steps=tuple(sorted(steps)),
        unit=unit,
    )


@dataclasses.dataclass
class Evaluation:
    """Both kinds of evaluation of a run, and the actions that follow them.

    `evaluator` may still be built in the background, or is None.
    """

    trainer: BaseTrainer
    train_state_axes: Any
    train_eval_datasets: Mapping[str, Any]
    evaluator: Any
    concurrent_metrics: bool
    actions: ActionMapType
    record: RunRecord
    sinks: Sequence[MetricSink] = ()
    _pending: list = dataclasses.field(default_factory=list)
    _compiled: bool = False

    def run(self, step: int) -> None:
        """Evaluates the current state, which belongs to `step`."""
        if self.train_eval_datasets:
            self._teacher_forced(step)
        if isinstance(self.evaluator, BackgroundEvaluator):
            self.evaluator = self.evaluator.join()
        if self.evaluator is not None:
            self._decoded(step)
        else:
            self._note(step)

    def _note(self, step: int) -> None:
        states = {
            mode.name: [_state_of(action) for action in actions]
            for mode, actions in self.actions.items()
        }
        self.record.update(
            evaluated_step=step, actions=states, stop=self.trainer.stop_training
        )

    def act(self, mode: ActionMode, metrics: Mapping[str, Any]) -> None:
        """Runs the actions of a mode on process 0; any of them may stop training."""
        actions, stop = self.actions.get(mode), False
        if not actions:
            return
        if jax.process_index() == 0:
            state = self.trainer.train_state
            for action in actions:
                stop |= bool(action.run(state, metrics_by_task=metrics))
        if distributed.broadcast_one_to_all(np.array(stop)):
            self.trainer.stop_training = True

    def _teacher_forced(self, step: int) -> None:
        if not self._compiled:
            self.trainer.compile_eval(
                {
                    name: get_zeros_batch_like_dataset(dataset)
                    for name, dataset in self.train_eval_datasets.items()
                }
            )
            self._compiled = True
        metrics = self.trainer.eval(
            {name: batches_of(ds) for name, ds in self.train_eval_datasets.items()}
        )
        report(step, "training eval", metrics, only=("loss", "accuracy"))
        self.act(ActionMode.TRAIN_EVAL, metrics)

    def _decoded(self, step: int) -> None:
        tick = time.time()
        self.wait()
        self._show_progress(step)
        future = self.evaluator.evaluate(
            self.trainer.train_state, self.train_state_axes
        )
        if self.concurrent_metrics:
            self._pending.append((step, future))
        else:
            metrics = self._scores(step, future)
            self.act(ActionMode.INFER_EVAL, metrics)
            self._note(step)
        self.trainer.train_metrics_manager.write_scalar(
            "timing/evaluate_seconds", time.time() - tick, step
        )

    def _show_progress(self, step: int) -> None:
        """Makes the evaluator show the time left for the whole run."""
        progress = getattr(self.trainer, "progress", None)
        if progress is None or not hasattr(self.evaluator, "on_done"):
            return
        after = functools.partial(progress.left, step)
        work = Work(f"step {step:,} evaluation", self.evaluator.num_examples, after)
        self.evaluator.on_done = work.add

    def wait(self) -> None:
        """Waits for pending metrics and raises their errors."""
        pending, self._pending = self._pending, []
        for step, future in pending:
            self._scores(step, future)
            self._note(step)

    def _scores(self, step: int, future: Any) -> Mapping[str, Any]:
        metrics = future.result() or {}
        report(step, "inference eval", metrics)
        for sink in self.sinks:
            for task, values in metrics.items():
                sink.log(step, scalars_of(f"inference_eval/{task}", values))
        return metrics


def _state_of(action: Any) -> Any:
    return action.get_state() if hasattr(action, "get_state") else None


def restore_actions(actions: ActionMapType, record: RunRecord) -> None:
    """Restores the state of actions from the record of an unfinished run."""
    for mode, states in (record.get("actions") or {}).items():
        for action, state in zip(
            actions.get(ActionMode[mode], []), states, strict=False
        ):
            if state is not None and hasattr(action, "set_state"):
                action.set_state(state)


# Maximum number of metrics per task in a message.
_REPORTED = 4


def report(
    step: int, title: str, metrics: Mapping[str, Any], only: tuple[str, ...] = ()
) -> None:
    """Prints one line per task with its first scalars; files hold all of them."""
    for task, values in metrics.items():
        scalars = []
        for name, value in values.items():
            number = getattr(value, "value", value)
            wanted = not only or name in only
            if (
                wanted
                and np.ndim(number) == 0
                and np.issubdtype(np.asarray(number).dtype, np.number)
            ):
                scalars.append(f"{name} {float(number):.4g}")
        if len(scalars) > _REPORTED:
            scalars[_REPORTED:] = [f"and {len(scalars) - _REPORTED} more"]
        if scalars:
            announce(f"step {step:,}  {title} of {task}: {', '.join(scalars)}")


def last_checkpoint(model_dir: str) -> str | None:
    """Returns the path of the newest checkpoint of a run, or None."""
    step = checkpoints.latest_step(model_dir)
    return None if step is None else checkpoints.get_checkpoint_dir(model_dir, step)


def how_to_go_on(model_dir: str) -> str:
    """Returns advice on how to continue an interrupted run."""
    found = last_checkpoint(model_dir)
    if found is None:
        return (
            f"{model_dir} holds no checkpoint: the same command, run again on all "
            "processes, begins anew."
        )
    return (
        f"The last checkpoint is {found}: run the same command again on all processes "
        f"to go on from it."
    )


@dataclasses.dataclass
class TrainLoop:
    """Trains from a step to the end of the schedule.

    `manager` saves checkpoints while training continues; None saves nothing.
    `saved_step` is the step of the existing checkpoint, or None.
    """

    trainer: BaseTrainer
    evaluation: Evaluation
    schedule: Schedule
    record: RunRecord
    batches: Any
    manager: Any
    save_fns: Sequence[Any]
    saved_step: int | None
    model_dir: str

    def run(self, step: int, guard: PreemptionGuard) -> int:
        """Trains until the end, or until `stop_training`; returns the last step.

        Raises:
            PreemptionError: training was stopped from outside, and everything is saved.
            UserError: the loss or a parameter is not finite; this state is not saved.
        """
        try:
            self._require_finite_start(step)
            self._catch_up(step, guard)
            while step < self.schedule.total_steps and not self.trainer.stop_training:
                step = self._round(step, guard)
            if self.trainer.stop_training and step < self.schedule.total_steps:
                announce(f"step {step:,}  stopping early, as an action asked for it")
                self._save(step)
            if step != self.saved_step:
                self._require_finite(step)
            self.evaluation.wait()
        except PreemptionError as error:
            self._emergency(error)
        # The wait comes last, because evaluations need not wait for a checkpoint.
        self._wait_for_saves()
        return step

    def _wait_for_saves(self) -> None:
        if self.manager is not None:
            self.manager.wait_until_finished()

    def _catch_up(self, step: int, guard: PreemptionGuard) -> None:
        """Saves and evaluates if an interrupted run still owed either at this step."""
        if step in self.schedule.checkpoint_steps:
            self._save(step)
        evaluated = self.record.get("evaluated_step")
        due = step > self.schedule.first_step and self.schedule.evaluates_at(step)
        if due and (evaluated is None or evaluated < step):
            with guard.interruptible():
                self.evaluation.run(step)

    def _round(self, step: int, guard: PreemptionGuard) -> int:
        stop = self.schedule.next_stop(step)
        summary = self.trainer.train(self.batches, stop - step, start_step=step)
        # The devices are busy with this round while the previous one is checked.
        self._require_sound(lag=1)
        if not self.evaluation.concurrent_metrics:
            self.evaluation.act(ActionMode.TRAIN, {"train": summary.result()})
        if self.schedule.collects_at(stop):
            gc.collect()
        # User-defined checkpoint managers may lack this method.
        getattr(self.manager, "check_for_errors", lambda: None)()
        if self.schedule.saves_at(stop):
            self._save(stop)
        if self.schedule.evaluates_at(stop):
            self._require_sound()
            with guard.interruptible():
                self.evaluation.run(stop)
        return stop

    def _require_sound(self, lag: int = 0) -> None:
        """Raises UserError if the loss of a step was not finite."""
        if found := self.trainer.watch.find(lag):
            raise UserError(self._explain(found))

    def _require_finite(self, step: int) -> None:
        """Raises UserError if the loss of a step or a parameter is not finite."""
        self._require_sound()
        if names := nonfinite_parameters(self.trainer.train_state.params):
            raise UserError(
                self._explain(f"Parameters are not finite after step {step:,}: {names}")
            )

    def _require_finite_start(self, step: int) -> None:
        names = nonfinite_parameters(self.trainer.train_state.params)
        if names is None:
            return
        if self.saved_step is None:
            advice = (
                "Give another checkpoint to RestoreCheckpointConfig.path, or, where "
                "the run starts from scratch, mend the model's initialisers."
            )
        else:
            folder = checkpoints.get_checkpoint_dir(self.model_dir, self.saved_step)
            advice = f"Move {folder} elsewhere to go on from the checkpoint before it."
        raise UserError(
            f"Parameters are not finite before the first step, at step {step:,}: "
            f"{names}. {advice}"
        )

    def _explain(self, found: str) -> str:
        # The newest checkpoint may still be on its way to the disk.
        self._wait_for_saves()
        newest = last_checkpoint(self.model_dir)
        good = (
            f"The last good checkpoint is {newest}."
            if newest
            else f"{self.model_dir} holds no checkpoint to go back to."
        )
        return (
            f"{found}. Training stops, and this state is not saved. {good} The batches "
            f"hold {self.trainer.watch.batch}. Usual causes: a learning rate that is "
            "too high, bfloat16 activations, or targets without any token. Change "
            "that, or let up to N such steps in a row be skipped with "
            "trainer.Trainer.max_skipped_steps = N, and run the command again."
        )

    def _save(self, step: int) -> None:
        if self.manager is None or step == self.saved_step:
            return
        state = jax.block_until_ready(self.trainer.train_state)
        self._require_finite(step)
        tick = time.time()
        # A run that resumes from this checkpoint does not write these metrics again.
        self.trainer.train_metrics_manager.flush()
        # The call returns when the arrays are copied; later steps may donate them. If
        # the run stops before the checkpoint is complete, the previous one remains.
        self.manager.save(state, self.save_fns)
        self.saved_step = step
        self.trainer.train_metrics_manager.write_scalar(
            "timing/checkpoint_seconds", time.time() - tick, step
        )
        logging.info("Saving the checkpoint of step %d.", step)

    def _emergency(self, error: PreemptionError) -> None:
        step = int(to_host(self.trainer.train_state.step))
        self._save(step)
        self.evaluation.wait()
        self._wait_for_saves()
        if self.manager is not None:
            advice = (
                f"Everything up to step {step:,} is saved in {self.model_dir}; run the "
                "same command to continue."
            )
        else:
            advice = (
                "No checkpoint was asked for (CheckpointConfig.save = None), so "
                "nothing is saved."
            )
        raise PreemptionError(f"Stopped at step {step:,}. {advice}") from error
