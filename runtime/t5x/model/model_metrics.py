"""Metrics computed from the logits of a training or evaluation step."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxtyping import Array, Bool, Float, Int

from t5x import metrics as metrics_lib
from t5x.metrics import MetricsMap


def compute_weighted_accuracy(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"] | None = None,
) -> Float[Array, ""]:
    """Returns the weighted number (not share) of correctly predicted positions."""
    if logits.ndim != targets.ndim + 1:
        raise ValueError(
            f"logits of shape {logits.shape} need targets with one axis less, but "
            f"targets have shape {targets.shape}"
        )
    correct = _hits(logits, targets)
    return jnp.sum(correct if weights is None else correct * weights)


def _hits(
    logits: Float[Array, "batch length vocab"], targets: Int[Array, "batch length"]
) -> Bool[Array, "batch length"]:
    """Marks positions whose best token is the target; False if its logit is NaN."""
    # argmax treats NaN as the largest number.
    of_target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jnp.argmax(logits, axis=-1) == targets) & ~jnp.isnan(of_target)


def compute_metrics(
    logits: Float[Array, "batch length vocab"],
    targets: Int[Array, "batch length"],
    weights: Float[Array, "batch length"] | None,
    loss: Float[Array, ""],
    weight_sum: Float[Array, ""],
    additional_metrics: Mapping[str, clu_metrics.Metric],
) -> MetricsMap:
    """Returns sums of loss, accuracy, weights, examples, and tokens, and extras."""
    sums: dict[str, metrics_lib.Scalar] = {
        "loss": loss,
        "accuracy": compute_weighted_accuracy(logits, targets, weights),
        "weight_sum": weight_sum,
        "num_examples": targets.shape[0],
        "num_tokens": targets.size,
    }
    return {**metrics_lib.create_metrics_dict(sums), **additional_metrics}


def count_packed_examples(segment_ids: Int[Array, "batch length"]) -> Int[Array, ""]:
    """Counts the examples in packed rows: runs of equal ids that are not 0."""
    segment_ids = segment_ids.astype(jnp.int32)
    starts = jnp.diff(segment_ids, axis=1, prepend=0) != 0
    return jnp.sum(starts & (segment_ids != 0))


def compute_base_metrics(
    logits: Float[Array, "batch length vocab"] | None,
    targets: Int[Array, "batch length"],
    mask: Float[Array, "batch length"] | None,
    loss: Float[Array, ""],
    z_loss: Float[Array, ""] | None = None,
    segment_ids: Mapping[str, Array] | None = None,
    correct: Bool[Array, "batch length"] | None = None,
) -> MetricsMap:
    """Returns the metrics of a training or evaluation step.

    Args:
        logits: logits of every target position; unused if `correct` is given.
        targets: token ids.
        mask: weights of the positions; None means 1 everywhere.
        loss: loss of the batch.
        z_loss: the part of the loss that is z-loss.
        segment_ids: for each feature, ids of packed examples (or a mask), 0 for
            padding.
        correct: whether the best token is the target; None computes it from the logits.
    """
    if correct is None:
        assert logits is not None, "accuracy needs the logits or the hits"
        correct = _hits(logits, targets)
    num_examples = jnp.asarray(targets.shape[0])
    num_tokens = jnp.asarray(targets.size)
    num_devices = jax.device_count()
    weighted_tokens = num_tokens if mask is None else jnp.sum(mask)
    per_step = metrics_lib.AveragePerStep
    rate = metrics_lib.TimeRate
    average = clu_metrics.Average
    metrics: dict[str, clu_metrics.Metric] = {
        "accuracy": clu_metrics.Accuracy(
            **vars(clu_metrics.Average.from_model_output(correct, mask=mask))
        ),
        "loss": per_step(total=loss),
        "loss_per_nonpadding_target_token": average(total=loss, count=weighted_tokens),
        "loss_per_all_target_tokens": average(total=loss, count=num_tokens),
        "timing/seconds": metrics_lib.Time(),
        "timing/seqs": metrics_lib.Sum(num_examples),
        "timing/steps_per_second": metrics_lib.StepsPerTime(),
        "timing/seqs_per_second": rate(numerator=num_examples),
        "timing/seqs_per_second_per_core": rate(numerator=num_examples / num_devices),
        "timing/target_tokens_per_second": rate(numerator=num_tokens),
        "timing/target_tokens_per_second_per_core": rate(
            numerator=num_tokens / num_devices
        ),
        "non_padding_fraction/loss_weights": average(
            total=weighted_tokens, count=num_tokens
        ),
    }
    if z_loss is not None:
        metrics |= {
            "z_loss": per_step(total=z_loss),
            "z_loss_per_all_target_tokens": average(total=z_loss, count=num_tokens),
            "cross_ent_loss": per_step(total=loss - z_loss),
            "cross_ent_loss_per_all_target_tokens": average(
                total=loss - z_loss, count=num_tokens
            ),
        }
    if segment_ids is not None:
        metrics |= _packing_metrics(segment_ids)
    return metrics


def _packing_metrics(segment_ids: Mapping[str, Array]) -> MetricsMap:
    metrics: MetricsMap = {}
    all_tokens = jnp.asarray(0)
    all_positions = jnp.asarray(0)
    for feature, ids in segment_ids.items():
        if ids is None or ids.shape[1] == 0:
            continue
        tokens = jnp.sum(ids != 0)
        positions = jnp.asarray(ids.size)
        metrics[f"effective_batch_size/{feature}"] = metrics_lib.AveragePerStep(
            total=count_packed_examples(ids)
        )
        metrics[f"non_padding_fraction/{feature}"] = clu_metrics.Average(
            total=tokens, count=positions
        )
        all_tokens += tokens
        all_positions += positions
    metrics["non_padding_fraction/overall"] = clu_metrics.Average(
        total=all_tokens, count=all_positions
    )
    return metrics
