"""The standard trainer: runs steps, and keeps the train state and the metrics.

To write your own trainer, subclass `BaseTrainer` and define the two partitioned steps.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import PRNGKeyArray

from t5x import checks, losses
from t5x.logs.progress import announce
from t5x.training import several_steps
from t5x.training.base_trainer import BaseTrainer
from t5x.training.learning_rate import LearningRateCallable
from t5x.training.nonfinite import Watch
from t5x.training.step import (
    Batch,
    Metrics,
    PartitionedEvalCallable,
    PartitionedTrainCallable,
    WeightMetricsComputer,
    eval_step,
    train_with_lr,
)

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
            learning_rate_fn: step -> learning rate, traced inside the step.
            num_microbatches: parts of a batch whose gradients are summed, or None.
            weight_metrics_computer: adds metrics about weights, or None.
            max_skipped_steps: consecutive steps that may be skipped because their loss
                or gradients are not finite; 0 skips none. One more ends the run. The
                metric `nonfinite_steps` counts them.
            normalize_over_batch: whether a loss normalizing factor that depends on the
                batch is computed over the whole batch. By default it is computed per
                microbatch, as in T5X.
            steps_per_call: steps per call to the devices, if at least that many remain
                before the next evaluation, checkpoint, or summary. SIGTERM waits for
                all of them. None chooses by model size; see `several_steps.by_size`.
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
            steps_per_call = several_steps.by_size(arrays) if is_ours else 1
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
        def train_step(train_state: Any, batch: Batch) -> tuple[Any, Metrics]:
            return self._train_step(train_state, batch)

        return self._partitioned_train(train_step)

    @functools.cached_property
    def _partitioned_train_steps(self) -> Any:  # type: ignore[override]
        return self._partitioned_train(several_steps.scan_steps(self._train_step))

    @functools.cached_property
    def _partitioned_eval_step(self) -> PartitionedEvalCallable:  # type: ignore[override]
        def partitioned_eval_step(train_state: Any, batch: Batch) -> Metrics:
            return eval_step(self._model, train_state, batch)

        return self._partitioner.partition(
            partitioned_eval_step,
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
