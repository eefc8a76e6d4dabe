"""The trainer: runs steps, keeps the train state and the metrics.

To write a trainer of your own, subclass `BaseTrainer` and give it the two partitioned
steps; `Trainer` is the standard one.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

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


class BaseTrainerConstructor(Protocol):
    """`trainer_cls`: called by keyword."""

    def __call__(
        self,
        model: Any,
        train_state: Any,
        partitioner: Any,
        eval_names: Sequence[str],
        summary_dir: str | None,
        train_state_axes: Any,
        rng: PRNGKeyArray,
    ) -> BaseTrainer: ...


class Trainer(BaseTrainer):
    """Training at a scheduled learning rate, optionally in microbatches."""

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
        """As `BaseTrainer`, and:

        Args:
            learning_rate_fn: step -> learning rate, traced inside the step.
            num_microbatches: parts of a batch whose gradients are summed, or None.
            weight_metrics_computer: adds metrics about weights, or None.
            max_skipped_steps: steps in a row that have no effect where their loss or
                gradients are not finite; the metric `nonfinite_steps` counts them. One
                more ends the run. 0 skips none.
            normalize_over_batch: where the loss normalizing factor depends on the batch,
                take that of the whole batch and not, as T5X does, that of each
                microbatch.
            steps_per_call: steps that the devices are asked for at a time, where so many
                are left before the next evaluation, checkpoint or summary; SIGTERM
                waits for all of them. None leaves it to the size of the model, see
                `several_steps.by_size`.
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
            # A subclass with a step of its own is to take that one.
            step = type(self)._partitioned_train_step
            is_ours = step is Trainer._partitioned_train_step
            state = self.train_state
            # The base of an adapter lies among the mutables.
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
