"""The standard trainer: runs steps, and keeps the train state and the metrics.

To write your own trainer, subclass `BaseTrainer` and define the two partitioned steps.
"""

import abc
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxaug_base import clu_names as clu
from jaxtyping import PRNGKeyArray

from t5x import checks, losses
from t5x.distributed import multihost_assert_equal
from t5x.errors import UserError
from t5x.feed.iterators import shard_batch
from t5x.logs.metrics_writer import SKIPPED_STEPS, MetricsManager, to_host
from t5x.logs.progress import Progress, announce
from t5x.logs.sinks import MetricSink
from t5x.training.learning_rate import LearningRateCallable
from t5x.training.nonfinite import LOSS, Watch, Window
from t5x.training.step import (
    Batch,
    Metrics,
    PartitionedEvalCallable,
    PartitionedTrainCallable,
    WeightMetricsComputer,
    by_size,
    eval_step,
    merge_all,
    merge_metrics,
    readings_of,
    scan_steps,
    train_with_lr,
)


class PreemptionError(Exception):
    """Training was interrupted and the state should be saved at once."""


# One running call and one waiting call keep the devices busy. A longer queue would
# delay interruptions and messages, and hold more batches in memory.
_QUEUED_CALLS = 2


class BaseTrainer(abc.ABC):
    """Runs training and evaluation steps. Use as a context manager, or call `close()`.

    Attributes:
        train_metrics_manager: metrics of training, under `<summary_dir>/train`.
        eval_metrics_managers: the same for each evaluation dataset, under
            `<summary_dir>/training_eval/<first 113 characters of the name>`.
        stop_training: set to True to end training after the current round.
        progress: progress display during training, or None.
        preempted: called before every step with its number; True interrupts training.
        watch: detects a loss that is not finite.
        steps_per_call: steps per call to the devices, if at least that many remain
            before the next stop. It is 1 in trainers without
            `_partitioned_train_steps`.
    """

    steps_per_call = 1

    def __init__(
        self,
        model: Any,
        train_state: Any,
        partitioner: Any,
        eval_names: Sequence[str],
        summary_dir: str | None,
        train_state_axes: Any,
        rng: PRNGKeyArray,
    ):
        """Sets up a trainer."""
        self._model = model
        self._train_state_axes = train_state_axes
        self._base_rng = rng
        self._partitioner = partitioner
        self._compiled_train_step: Any = None
        self._compiled_train_steps: Any = None
        self._compiled_eval_steps: dict[str, Any] = {}
        self._compiled_eval_step_cache: dict[Any, Any] = {}
        self._train_state_mutex = threading.RLock()
        self._train_state = train_state
        self._created = time.time()
        self.stop_training = False
        self.progress: Progress | None = None
        self.watch = Watch()
        self.preempted: Callable[[int], bool] = lambda step: False
        self.train_metrics_manager = MetricsManager("train", summary_dir=summary_dir)
        self.eval_metrics_managers = {
            name: MetricsManager(f"training_eval/{name[:113]}", summary_dir=summary_dir)
            for name in eval_names
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits until all metrics are written."""
        self.train_metrics_manager.close()
        for manager in self.eval_metrics_managers.values():
            manager.close()

    def send_metrics_to(self, sinks: Sequence[MetricSink]) -> None:
        """Sends what the metrics managers write from now on to `sinks` too."""
        managers = [self.train_metrics_manager, *self.eval_metrics_managers.values()]
        for manager in managers:
            manager.sinks = sinks

    def _get_step_rng(self, step: Any) -> PRNGKeyArray:
        return jax.random.fold_in(self._base_rng, step)

    @property
    def train_state(self) -> Any:
        """The current train state; waits while training runs in another thread."""
        with self._train_state_mutex:
            return self._train_state

    @train_state.setter
    def train_state(self, train_state: Any) -> None:
        with self._train_state_mutex:
            self._train_state = train_state

    def train(
        self, batch_iter: Iterator[Batch], num_steps: int, start_step: int | None = None
    ) -> futures.Future:
        """Runs `num_steps` steps and keeps the next step queued on the devices.

        Args:
            start_step: step number of the state, if known.

        Returns:
            Future of the averaged metrics: name -> clu value.

        Raises:
            PreemptionError: training was interrupted. The state after the last finished
                step is kept, and its metrics are written.
            UserError: the data ended.
        """
        metrics: Any = None
        readings: list[tuple[int, Any, Any]] = []
        queued: list[Any] = []
        with self._train_state_mutex:
            state = self._train_state
            if start_step is None:
                start_step = int(to_host(state.step))
            step, last = start_step, start_step + num_steps
            self.train_metrics_manager.start_duration_timer()
            if self.progress is not None:
                self.progress.resume(step)
            try:
                while step < last:
                    if len(queued) == _QUEUED_CALLS:
                        jax.block_until_ready(queued.pop(0))
                    # The remainder before the end is taken step by step.
                    count = self.steps_per_call
                    count = count if last - step >= count else 1
                    if self._stops_before(step, count):
                        raise PreemptionError(f"interrupted after step {step}")
                    with jax.profiler.StepTraceAnnotation("train", step_num=step):
                        batches = [
                            _next_batch(batch_iter, step + n) for n in range(count)
                        ]
                        if not readings:
                            self.watch.describe(batches[0])
                        state, metrics, read = self._advance(
                            state, batches, metrics, step
                        )
                    readings += read
                    queued.append(metrics)
                    step += count
                    if self.progress is not None:
                        self.progress.update(step, metrics)
            finally:
                # The step donates the old state, which is therefore lost even after an
                # error.
                self._train_state = state
                summary = self._write_train_summary(metrics, step, step - start_step)
                self.watch.add(Window(start_step, step, summary, readings))
                if self.progress is not None:
                    self.progress.pause(step)
        return summary

    def _advance(
        self, state: Any, batches: list[Batch], metrics: Any, step: int
    ) -> tuple[Any, Metrics, list[tuple[int, Any, Any]]]:
        """Queues a step per batch; returns (state, summed metrics, readings)."""
        if len(batches) > 1:
            many = self._compiled_train_steps or self._partitioned_train_steps
            state, stacked = many(state, batches)
            metrics = merge_all(metrics, stacked)
            read = readings_of(step, stacked, LOSS, SKIPPED_STEPS)
            return state, metrics, read
        one = self._compiled_train_step or self._partitioned_train_step
        state, update = one(state, batches[0])
        reading = step + 1, update.get(LOSS, 0.0), update.get(SKIPPED_STEPS, 0)
        if metrics is not None:
            update = merge_metrics(metrics, update)
        return state, update, [reading]

    def _stops_before(self, step: int, count: int) -> bool:
        # Processes agree on one step, so each of them must check every step.
        asked = count if jax.process_count() > 1 else 1
        return any(self.preempted(step + number) for number in range(asked))

    def _write_train_summary(
        self, metrics: Metrics | None, step: int, num_steps: int
    ) -> futures.Future:
        if metrics is not None:
            uptime = jnp.asarray([time.time() - self._created])
            metrics["timing/uptime"] = clu.metrics.LastValue.from_model_output(uptime)
        return self.train_metrics_manager.write_metrics_summary(
            metrics, step, num_steps
        )

    def compile_train(self, batch: Batch) -> None:
        """Compiles the train step for batches of this shape (values do not matter).

        If `steps_per_call` is above 1, this compiles the call of several steps. A
        single step is then compiled on first use.
        """
        tick = time.time()
        if self.steps_per_call > 1:
            self._compiled_train_steps = self._partitioner.compile(
                self._partitioned_train_steps,
                self.train_state,
                [batch] * self.steps_per_call,
            )
        else:
            self._compiled_train_step = self._partitioner.compile(
                self._partitioned_train_step, self.train_state, batch
            )
        self.train_metrics_manager.write_scalar(
            "timing/compilation_seconds", time.time() - tick, self.train_state.step
        )

    def eval(self, batch_iters: Mapping[str, Iterable[Batch]]) -> dict[str, Any]:
        """Evaluates with teacher forcing; writes and returns the metrics by dataset.

        Raises:
            UserError: a dataset has no batch.
        """
        train_state = self.train_state
        summaries = {}
        for name, batches in batch_iters.items():
            logging.info("Evaluating: %s.", name)
            step_fn = self._compiled_eval_steps.get(name, self._partitioned_eval_step)
            manager = self.eval_metrics_managers[name]
            manager.start_duration_timer(block_on=train_state)
            metrics: Any = None
            num_steps = 0
            unequal = "Processes have different numbers of evaluation batches."
            for batch in batches:
                num_steps += 1
                multihost_assert_equal(np.array(num_steps), unequal)
                update = step_fn(train_state, shard_batch(batch, self._partitioner))
                metrics = update if metrics is None else merge_metrics(metrics, update)
            multihost_assert_equal(np.array(-1), unequal)
            if metrics is None:
                raise UserError(
                    f"The evaluation data {name!r} has no batch: the split is empty, "
                    f"or has fewer examples than the batch size."
                )
            summaries[name] = manager.write_metrics_summary(
                metrics, train_state.step, num_steps
            )
        return {name: summary.result() for name, summary in summaries.items()}

    def compile_eval(self, batches: Mapping[str, Batch]) -> None:
        """Compiles the evaluation step for a batch of each dataset.

        Datasets whose batches have equal shapes share one compilation.
        """
        for name, batch in batches.items():
            tick = time.time()
            key = tuple(sorted((k, v.shape, str(v.dtype)) for k, v in batch.items()))
            if key not in self._compiled_eval_step_cache:
                host_batch = {k: np.asarray(v) for k, v in batch.items()}
                self._compiled_eval_step_cache[key] = self._partitioner.compile(
                    self._partitioned_eval_step,
                    self.train_state,
                    shard_batch(host_batch, self._partitioner),
                )
            self._compiled_eval_steps[name] = self._compiled_eval_step_cache[key]
            self.eval_metrics_managers[name].write_scalar(
                "timing/compilation_seconds", time.time() - tick, self.train_state.step
            )

    @property
    @abc.abstractmethod
    def _partitioned_train_step(self) -> PartitionedTrainCallable:
        """Partitioned function (train state, batch) -> (train state, metrics)."""

    @property
    def _partitioned_train_steps(self) -> Any:
        """Partitioned function of several steps, of trainers with `steps_per_call`.

        (train state, list of batches) -> (train state, stacked metrics).
        """
        raise NotImplementedError(f"{type(self).__name__} takes one step at a time")

    @property
    @abc.abstractmethod
    def _partitioned_eval_step(self) -> PartitionedEvalCallable:
        """Partitioned function (train state, batch) -> metrics."""


def _next_batch(batch_iter: Iterator[Batch], step: int) -> Batch:
    try:
        return next(batch_iter)
    except StopIteration:
        raise UserError(
            f"The training data ended before step {step + 1}. Let it repeat "
            f"(num_epochs = None), or lower the number of training steps."
        ) from None


# `trainer_cls`, called with the arguments of `BaseTrainer` by keyword.
BaseTrainerConstructor = Callable[..., BaseTrainer]


class Trainer(BaseTrainer):
    """Trains with a learning-rate schedule, optionally in microbatches."""

    def __init__(
        self,
        model: Any,
        train_state: Any,
        partitioner: Any,
        eval_names: Sequence[str],
        summary_dir: str | None,
        train_state_axes: Any,
        rng: PRNGKeyArray,
        learning_rate_fn: LearningRateCallable,
        num_microbatches: int | None,
        weight_metrics_computer: WeightMetricsComputer | None = None,
        max_skipped_steps: int = 0,
        normalize_over_batch: bool = False,
        steps_per_call: int | None = None,
    ):
        """Sets up a trainer; see `BaseTrainer` for the other arguments.

        Args:
            num_microbatches: parts of a batch whose gradients are summed, or None.
            max_skipped_steps: consecutive steps that may be skipped because their loss
                or gradients are not finite; 0 skips none. One more ends the run. The
                metric `nonfinite_steps` counts them.
            normalize_over_batch: whether a loss normalizing factor that depends on the
                batch is computed over the whole batch. By default it is computed per
                microbatch, as in T5X.
            steps_per_call: steps per call to the devices, if at least that many remain
                before the next evaluation, checkpoint, or summary. SIGTERM waits for
                all of them. None chooses by model size; see `step.by_size`.
        """
        if steps_per_call is not None:
            checks.whole_number("Trainer.steps_per_call", steps_per_call, least=1)
        max_skipped_steps = checks.whole_number(
            "Trainer.max_skipped_steps", max_skipped_steps, least=0
        )
        if num_microbatches is not None:
            num_microbatches = checks.whole_number(
                "Trainer.num_microbatches", num_microbatches, least=0, hint=", or None"
            )
        if not normalize_over_batch:
            _warn_of_parts(model, num_microbatches or 1)
        self._normalize_over_batch = normalize_over_batch
        self._learning_rate_fn = learning_rate_fn
        self._num_microbatches = num_microbatches
        self._weight_metrics_computer = weight_metrics_computer
        super().__init__(
            model=model,
            train_state=train_state,
            partitioner=partitioner,
            eval_names=eval_names,
            summary_dir=summary_dir,
            train_state_axes=train_state_axes,
            rng=rng,
        )
        self.watch = Watch(max_skipped_steps)
        if steps_per_call is None:
            # A subclass with its own step must be called step by step.
            step = type(self)._partitioned_train_step
            is_ours = step is Trainer._partitioned_train_step
            state = self.train_state
            # The base model of an adapter is stored in the mutables.
            arrays = state.params, state.flax_mutables
            steps_per_call = by_size(arrays) if is_ours else 1
        self.steps_per_call = steps_per_call

    def _train_step(self, train_state: Any, batch: Batch) -> tuple[Any, Metrics]:
        return train_with_lr(
            train_state,
            batch,
            learning_rate=self._learning_rate_fn(train_state.step),
            dropout_rng=self._get_step_rng(train_state.step),
            model=self._model,
            num_microbatches=self._num_microbatches,
            weight_metrics_computer=self._weight_metrics_computer,
            data_partition_spec=self._partitioner.data_partition_spec,
            skip_nonfinite=self.watch.max_skipped_steps > 0,
            normalize_over_batch=self._normalize_over_batch,
        )

    def _partitioned_train(self, function: Callable[..., Any]) -> Any:
        return self._partitioner.partition(
            function,
            in_axis_resources=(
                self._train_state_axes,
                self._partitioner.data_partition_spec,
            ),
            out_axis_resources=(self._train_state_axes, None),
            donate_argnums=(0,),
        )

    @functools.cached_property
    def _partitioned_train_step(self) -> PartitionedTrainCallable:  # type: ignore[override]
        return self._partitioned_train(self._train_step)

    @functools.cached_property
    def _partitioned_train_steps(self) -> Any:  # type: ignore[override]
        return self._partitioned_train(scan_steps(self._train_step))

    @functools.cached_property
    def _partitioned_eval_step(self) -> PartitionedEvalCallable:  # type: ignore[override]
        return self._partitioner.partition(
            functools.partial(eval_step, self._model),
            in_axis_resources=(
                self._train_state_axes,
                self._partitioner.data_partition_spec,
            ),
            out_axis_resources=None,
        )


def _warn_of_parts(model: Any, number: int) -> None:
    factor = losses.special_factor(getattr(model, "_loss_normalizing_factor", None))
    if number > 1 and factor is not None:
        announce(
            f"warning: the loss of each of the {number} microbatches is divided by its "
            f"own LOSS_NORMALIZING_FACTOR = '{factor.name}', as in T5X, so loss and "
            f"gradients are about {number} times those of the whole batch; "
            "trainer.Trainer.normalize_over_batch = True takes the factor of the whole "
            "batch."
        )
