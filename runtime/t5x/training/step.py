"""One or several training steps, and an evaluation step: pure functions inside jit."""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxaug_base import clu_names as clu
from jaxtyping import Array, Float, PRNGKeyArray

from t5x import losses
from t5x import metrics as metrics_lib
from t5x.errors import UserError
from t5x.on_cpu.features import SMALL
from t5x.partition.partitioner import with_sharding_constraint
from t5x.state_utils import flatten
from t5x.training import nonfinite

PyTree = Any
Batch = Mapping[str, Any]
Metrics = dict[str, Any]


# Partitioned steps: from a train state and a batch.
PartitionedTrainCallable = Callable[[Any, Batch], tuple[Any, Metrics]]
PartitionedEvalCallable = Callable[[Any, Batch], Metrics]


def merge_trees(a: PyTree, b: PyTree) -> PyTree:
    """Merges two trees of clu metrics."""
    return jax.tree.map(
        lambda x, y: x.merge(y), a, b, is_leaf=metrics_lib.is_metric_obj
    )


merge_metrics = jax.jit(merge_trees)


class WeightMetricsComputer:
    """Metrics of weights and their updates, for `Trainer.weight_metrics_computer`."""

    def compute_metrics(
        self, gradients: PyTree, old_train_state: Any, new_train_state: Any
    ) -> Metrics:
        """Returns metrics named `<metric>` or `<metric>/<parameter>`.

        They are the root mean square of every weight (`weight_rms`), gradient, update,
        and relative update, the largest absolute weight (`weight_max`), and the
        gradient norm. The relative update of a zero weight counts as 0.
        """
        weights = new_train_state.params
        update = jax.tree.map(jnp.subtract, weights, old_train_state.params)
        relative = jax.tree.map(_relative, update, old_train_state.params)
        squares = [jnp.sum(jnp.square(g)) for g in jax.tree.leaves(gradients)]
        metrics = {"weight_gradient_norm": _per_step(jnp.sqrt(sum(squares)))}
        for name, tree, summary in (
            ("weight_rms", weights, _rms),
            ("weight_gradient_rms", gradients, _rms),
            ("weight_update_rms", update, _rms),
            ("weight_update_divided_by_weight_rms", relative, _rms),
            ("weight_max", weights, lambda x: jnp.max(jnp.abs(x))),
        ):
            for parameter, value in flatten(tree).items():
                metrics[f"{name}/{parameter}"] = _per_step(summary(value))
        return metrics


def _relative(
    update: Float[Array, "*shape"], weight: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    return jnp.where(weight != 0, update / jnp.where(weight != 0, weight, 1), 0)


def _rms(x: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(jnp.square(x)))


def _per_step(value: Float[Array, ""]) -> Any:
    return metrics_lib.AveragePerStep.from_model_output(value)


def _normalized_over(model: Any, batch: Batch) -> tuple[Any, Batch]:
    """Returns a model that divides the loss of any part by the factor of this batch."""
    factor, weights = losses.get_loss_normalizing_factor_and_weights(
        model._loss_normalizing_factor, batch
    )
    fixed = copy.copy(model)
    fixed._loss_normalizing_factor = factor
    return fixed, {**batch, "decoder_loss_weights": weights}


def accumulate_grads_microbatched(
    model: Any,
    train_state: Any,
    batch: Batch,
    dropout_rng: PRNGKeyArray,
    num_microbatches: int | None,
    data_partition_spec: Any = None,
    normalize_over_batch: bool = False,
) -> tuple[PyTree, Metrics, Any]:
    """Returns gradients and metrics of a batch, computed in equal parts in sequence.

    Gradients, losses, and metrics of the parts are summed in float32. With a special
    loss normalizing factor, the loss of each part is divided by that part's factor (as
    in T5X). N parts then yield about N times the gradients of the batch. If the train
    state has flax mutables, `loss_fn` gets them as an extra argument, and its auxiliary
    result is (metrics, mutables).

    Args:
        num_microbatches: number of parts, or None for the whole batch at once.
        data_partition_spec: sharding of a part; default ('data',).
        normalize_over_batch: whether to divide the loss by the special factor of the
            whole batch. The result is then the same as for the undivided batch.

    Returns:
        (gradients, metrics, flax mutables or None).

    Raises:
        UserError: the batch size is not divisible by the number of parts.
    """
    if data_partition_spec is None:
        data_partition_spec = PartitionSpec("data")
    mutables = train_state.flax_mutables or None

    def metrics_and_grads(part: Batch, rng: PRNGKeyArray, mutables: Any) -> Any:
        extra = () if mutables is None else (mutables,)
        grads, aux = jax.grad(model.loss_fn, has_aux=True)(
            train_state.params, part, rng, *extra
        )
        metrics, mutables = (aux, None) if mutables is None else aux
        return grads, metrics, mutables

    if num_microbatches is None or num_microbatches <= 1:
        return metrics_and_grads(batch, dropout_rng, mutables)

    batch_size = next(iter(batch.values())).shape[0]
    if batch_size % num_microbatches:
        raise UserError(
            f"Batch size ({batch_size}) must be divisible by Trainer.num_microbatches "
            f"({num_microbatches})."
        )
    rows = batch_size // num_microbatches
    factor = getattr(model, "_loss_normalizing_factor", None)
    if normalize_over_batch and losses.special_factor(factor) is not None:
        model, batch = _normalized_over(model, batch)

    def one_part(number: Any, rng: PRNGKeyArray, mutables: Any) -> Any:
        part = {
            name: with_sharding_constraint(
                jax.lax.dynamic_slice_in_dim(value, number * rows, rows),
                data_partition_spec,
            )
            for name, value in batch.items()
        }
        grads, metrics, mutables = metrics_and_grads(part, rng, mutables)
        # Metrics may hold Python numbers, which have no shape to merge by.
        return grads, jax.tree.map(jnp.asarray, metrics), mutables

    def body(number: Any, carry: Any) -> Any:
        rng, total, metrics, mutables = carry
        rng, part_rng = jax.random.split(rng)
        grads, part_metrics, mutables = one_part(number, part_rng, mutables)
        total = jax.tree.map(jnp.add, total, grads)
        # The initial zeros are not a neutral element of every metric.
        metrics = jax.lax.cond(
            number == 0,
            lambda: part_metrics,
            lambda: merge_trees(metrics, part_metrics),
        )
        return rng, total, metrics, mutables

    _, metric_shapes, _ = jax.eval_shape(one_part, 0, dropout_rng, mutables)
    start = (
        dropout_rng,
        jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), train_state.params),
        {k: metrics_lib.shape_obj_to_defined_obj(v) for k, v in metric_shapes.items()},
        mutables,
    )
    _, grads, metrics, mutables = jax.lax.fori_loop(0, num_microbatches, body, start)
    return grads, metrics, mutables


def apply_grads(
    train_state: Any,
    grad_accum: PyTree,
    metrics: Metrics,
    learning_rate: Float[Array, ""],
    weight_metrics_computer: WeightMetricsComputer | None,
    other_state_variables: Mapping[str, Any] | None = None,
) -> tuple[Any, Metrics]:
    """Updates the train state and adds the learning rate to the metrics, in place.

    `other_state_variables` are additional keyword arguments of `apply_gradient`.
    """
    new_state = train_state.apply_gradient(
        grad_accum, learning_rate=learning_rate, **(other_state_variables or {})
    )
    rate = jnp.asarray([learning_rate])
    metrics["learning_rate"] = clu.metrics.Average.from_model_output(rate)
    metrics["learning_rate/current"] = clu.metrics.LastValue.from_model_output(rate)
    if weight_metrics_computer is not None:
        metrics.update(
            weight_metrics_computer.compute_metrics(grad_accum, train_state, new_state)
        )
    return new_state, metrics


def train_with_lr(
    train_state: Any,
    batch: Batch,
    learning_rate: Float[Array, ""],
    dropout_rng: PRNGKeyArray,
    model: Any,
    num_microbatches: int | None,
    weight_metrics_computer: WeightMetricsComputer | None = None,
    data_partition_spec: Any = None,
    skip_nonfinite: bool = False,
    normalize_over_batch: bool = False,
) -> tuple[Any, Metrics]:
    """Runs one training step at the given learning rate; returns (new state, metrics).

    For the arguments see `accumulate_grads_microbatched`. With `skip_nonfinite` a step
    with a non-finite loss or gradient has no effect (`nonfinite.skip_nonfinite_step`).
    """
    grads, metrics, mutables = accumulate_grads_microbatched(
        model,
        train_state,
        batch,
        dropout_rng,
        num_microbatches,
        data_partition_spec,
        normalize_over_batch,
    )
    new_state, metrics = apply_grads(
        train_state,
        grads,
        metrics,
        learning_rate,
        weight_metrics_computer,
        other_state_variables={"flax_mutables": mutables} if mutables else None,
    )
    if not skip_nonfinite:
        return new_state, metrics
    return nonfinite.skip_nonfinite_step(train_state, new_state, grads, metrics)


def eval_step(model: Any, train_state: Any, batch: Batch) -> Metrics:
    """Returns the metrics of one batch with teacher forcing."""
    extra = (train_state.flax_mutables,) if train_state.flax_mutables else ()
    _, metrics = model.eval_fn(train_state.params, batch, *extra)
    return metrics


Step = Callable[[Any, Batch], tuple[Any, Metrics]]


def by_size(arrays: Any) -> int:
    """Returns 10 steps per call on a CPU if all arrays of a step are small, else 1."""
    size = sum(leaf.size for leaf in jax.tree.leaves(arrays))
    return 10 if size < SMALL and jax.default_backend() == "cpu" else 1


def scan_steps(step: Step) -> Callable[[Any, Sequence[Batch]], tuple[Any, Metrics]]:
    """Returns a function that takes one step for each of several batches.

    Returns:
        (train state, batches) -> (train state, metrics with a leading step axis).
    """

    def body(state: Any, batch: Batch) -> tuple[Any, Metrics]:
        state, metrics = step(state, batch)
        # Metrics may hold Python numbers, which cannot be stacked.
        return state, jax.tree.map(jnp.asarray, metrics)

    def steps(state: Any, batches: Sequence[Batch]) -> tuple[Any, Metrics]:
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        return jax.lax.scan(body, state, stacked)

    return steps


@jax.jit
def merge_all(total: Metrics | None, stacked: Metrics) -> Metrics:
    """Merges the metrics of a stack of steps into a total, in step order.

    The sums and their order are the same as for single steps, so the result is
    bit-identical.
    """
    for number in range(len(jax.tree.leaves(stacked)[0])):
        update = _at(number, stacked)
        total = update if total is None else merge_trees(total, update)
    assert total is not None
    return total


def readings_of(
    first: int, stacked: Metrics, loss: str, skipped: str
) -> list[tuple[int, Any, Any]]:
    """Returns (number after the step, loss, skipped) per step; see `nonfinite.Window`.

    `loss` and `skipped` are names of metrics; a missing metric reads as 0.
    """
    count = len(jax.tree.leaves(stacked)[0])

    def reading(number: int, name: str) -> Any:
        # Each slice costs a device call, and the readings are rarely needed.
        return functools.partial(_at, number, stacked.get(name, 0))

    return [
        (first + number + 1, reading(number, loss), reading(number, skipped))
        for number in range(count)
    ]


def _at(number: int, stacked: Any) -> Any:
    return jax.tree.map(lambda x: x[number] if jnp.ndim(x) else x, stacked)
