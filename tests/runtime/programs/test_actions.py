"""Actions of the trainer: early stopping, and the end of a run at NaN."""

import re

import clu.metrics
import clu.values
import numpy as np
import pytest
from t5x import trainer


class Step:
    def __init__(self, step):
        self.step = step


def stops(action, values, wrap=clu.values.Scalar):
    return [
        action.run(Step(i), {"task": {"metric": wrap(v)}}) for i, v in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("mode", "values", "atol", "rtol", "stop"),
    [
        ("min", [1, 0.9, 0.71], 0.2, 0.0, True),
        ("min", [1, 0.8, 0.6], 0.15, 0.0, False),
        ("min", [1, 0.8, 0.6], 0.1, 0.09, False),
        ("min", [1, 0.8, 0.6], 0.0, 0.3, True),
        ("min", [1, 0.8, 0.7, 0.6], 0.15, 0.0, True),
        ("min", [1, 1, 1], 0.0, 0.0, True),
        ("max", [3, 2, 1], 0.0, 0.0, True),
        ("max", [1, 2, 3], 0.0, 0.0, False),
        ("max", [1, 2], 0.0, 0.0, False),
        ("max", [0.5, 0.4, 0.45, 0.4, 0.45], 0.0, 0.0, False),
    ],
)
def test_early_stopping_against_the_previous_value(mode, values, atol, rtol, stop):
    action = trainer.EarlyStoppingAction(
        ("task", "metric"), mode=mode, patience=3, atol=atol, rtol=rtol
    )
    assert stops(action, values)[-1] is stop


def test_early_stopping_against_the_best_value():
    action = trainer.EarlyStoppingAction(
        ("task", "metric"), mode="max", patience=3, compare_to="best"
    )
    values = [0.3, 0.5, 0.4, 0.45, 0.5, 0.6]
    assert stops(action, values) == [False, False, False, False, True, False]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_early_stopping_takes_any_finite_value_for_an_improvement_on_none(bad):
    for mode, values in (("max", [0.3, 0.4, 0.5]), ("min", [0.5, 0.4, 0.3])):
        action = trainer.EarlyStoppingAction(
            ("task", "metric"), mode=mode, patience=3, compare_to="best"
        )
        assert stops(action, [bad, *values]) == [False] * 4
        action.set_state([])
        # NaN never counts as an improvement.
        assert stops(action, [*values, bad, bad, bad])[-3:] == [False, False, True]
        action = trainer.EarlyStoppingAction(("task", "metric"), mode=mode, patience=2)
        assert stops(action, [bad, values[0]])[-1] is False


def test_early_stopping_counts_calls_of_one_state():
    action = trainer.EarlyStoppingAction(("task", "metric"), mode="min", patience=3)
    metrics = {"task": {"metric": clu.values.Scalar(0.5)}}
    assert [action.run(Step(6), metrics) for _ in range(3)] == [False, False, True]


def test_early_stopping_goes_on_after_a_restart():
    def make():
        return trainer.EarlyStoppingAction(("task", "metric"), mode="max", patience=3)

    action, again = make(), make()
    assert not any(stops(action, [3.0, 2.0], wrap=float))
    again.set_state(action.get_state())
    # The evaluation of step 1 is repeated; the evaluation of step 2 is new.
    assert not again.run(Step(1), {"task": {"metric": 2.0}})
    assert again.run(Step(2), {"task": {"metric": 1.0}})


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"other": {"metric": 1.0}}, r"'task' is not evaluated; tasks: \['other'\]"),
        ({"task": {"m2": 1.0}}, r"metrics of 'task': \['m2'\]"),
        ({"task": {"metric": 3}}, "its metric is a int, not a scalar"),
    ],
)
def test_actions_that_find_nothing_say_so(metrics, message, caplog):
    for action in (
        trainer.EarlyStoppingAction(("task", "metric"), mode="min", patience=1),
        trainer.TerminateOnNanAction("task", "metric"),
    ):
        caplog.clear()
        assert action.run(Step(0), metrics) is False
        assert re.search(message, caplog.text)


@pytest.mark.parametrize(
    ("value", "stop"), [(1.0, False), (np.nan, True), (np.inf, True), (-np.inf, True)]
)
def test_terminate_on_nan(value, stop):
    action = trainer.TerminateOnNanAction("task", "metric")
    assert stops(action, [value]) == [stop]
