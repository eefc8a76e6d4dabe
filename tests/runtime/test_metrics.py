"""Metric objects: merge, compute, and fields set by the trainer."""

import jax
import jax.numpy as jnp
import pytest
from clu import metrics as clu_metrics
from jaxaug_base import metric_types
from t5x import metrics


def test_values_after_merge():
    total = metrics.Sum.from_model_output(jnp.array([1.0, 2.0])).merge(metrics.Sum(4.0))
    assert total.compute() == 7
    mean = metrics.AveragePerStep(total=6.0).merge(
        metrics.AveragePerStep.from_model_output(jnp.array([1.0, 1.0]), steps=3)
    )
    assert mean.compute() == 2
    rate = metrics.TimeRate(numerator=6.0).merge(metrics.TimeRate(numerator=2.0))
    assert rate.replace_duration(4.0).compute() == 2
    steps = metrics.StepsPerTime().merge(metrics.StepsPerTime.from_model_output(3))
    assert steps.replace_duration(2.0).compute() == 2
    seconds = metrics.Time().merge(metrics.Time())
    assert seconds.replace_duration(5.0).compute() == 5


def test_merge_inside_jit():
    merged = jax.jit(lambda a, b: a.merge(b))(
        metrics.AveragePerStep(total=jnp.array(1.0)),
        metrics.AveragePerStep(total=jnp.array(2.0)),
    )
    assert merged.compute() == 1.5


def test_trees_get_durations_and_steps():
    tree = {
        "rate": metrics.TimeRate(numerator=6.0),
        "speed": metrics.StepsPerTime(),
        "mean": metrics.AveragePerStep(total=6.0, steps=9),
        "sum": metrics.Sum(5.0),
        "accuracy": clu_metrics.Average(total=jnp.array(1.0), count=jnp.array(2.0)),
    }
    filled = metrics.set_time_metrics_duration(tree, 3.0)
    filled = metrics.set_step_metrics_num_steps(filled, 12)
    values = {name: float(metric.compute()) for name, metric in filled.items()}
    assert values == {"rate": 2, "speed": 4, "mean": 0.5, "sum": 5, "accuracy": 0.5}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (metrics.Time(), "Time: call replace_duration"),
        (metrics.TimeRate(numerator=1.0), "TimeRate: call replace_duration"),
        (metrics.StepsPerTime(), "StepsPerTime: call replace_duration"),
        (
            metrics.AveragePerStep(total=1.0, steps=None),
            "AveragePerStep: call replace_st",
        ),
        (metrics.AveragePerStep(), "AveragePerStep: set total"),
    ],
)
def test_missing_parts_are_named(metric, message):
    with pytest.raises(ValueError, match=message):
        metric.compute()


def test_merge_after_duration_is_refused():
    done = metrics.TimeRate(numerator=1.0).replace_duration(1.0)
    with pytest.raises(ValueError, match="merge before replace_duration"):
        done.merge(done)


def test_zeros_like_a_shape():
    shape = jax.eval_shape(lambda: metrics.AveragePerStep(total=jnp.ones((2,))))
    zeros = metrics.shape_obj_to_defined_obj(shape)
    assert isinstance(zeros, metrics.AveragePerStep)
    assert zeros.total.tolist() == [0, 0]
    assert zeros.steps == 0


def test_dict_of_sums():
    made = metrics.create_metrics_dict({"a": 1.0})
    assert metrics.is_metric_obj(made["a"])
    assert not metrics.is_time_metric(made["a"])
    assert made["a"].merge(metrics.Sum(2.0)).compute() == 3


@pytest.mark.parametrize("mask", [None, (1, 0, 1), ((1, 0), (1, 1), (0, 1))])
def test_metrics_without_clu_equal_those_of_clu(mask):
    values = jnp.array([[1.0, 2], [4, 8], [16, 32]])
    mask = None if mask is None else jnp.array(mask)
    found, expected = (
        kind.Average.from_model_output(values, mask)
        for kind in (metric_types, clu_metrics)
    )
    assert found.compute() == expected.compute()
    assert found.merge(found).count == expected.merge(expected).count
    stacked = [
        jax.tree.map(lambda x: jnp.stack([x, 3 * x]), m) for m in (found, expected)
    ]
    assert stacked[0].reduce().compute() == stacked[1].reduce().compute()
    logits, labels = values.T[None].repeat(3, 0), jnp.array([[0, 2], [2, 2], [1, 1]])
    rows = [
        kind.Accuracy.from_model_output(logits=logits, labels=labels, mask=mask)
        for kind in (metric_types, clu_metrics)
    ]
    assert rows[0].compute() == rows[1].compute()
    last = metric_types.LastValue.from_model_output(jnp.array(3.0))
    newer = metric_types.LastValue.from_model_output(jnp.array(5.0))
    assert last.merge(newer).compute_value().value == 5.0
    pair = jax.tree.map(lambda *x: jnp.stack(x), last, newer)
    assert pair.reduce().compute() == 4.0
