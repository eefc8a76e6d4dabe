"""Periods and numbers of steps: the stops of a run, and values without sense."""

import pytest
from t5x.errors import UserError
from t5x.training.loop import make_schedule


def stops(schedule, step=None):
    step = schedule.first_step if step is None else step
    found = []
    while step < schedule.total_steps:
        step = schedule.next_stop(step)
        found.append(step)
    return found


def test_rounds_stats_and_single_steps():
    s = make_schedule(0, 10, eval_period=4, checkpoint_period=8, stats_period=3)
    assert s.unit == 4
    assert stops(s) == [3, 4, 7, 8, 10]
    assert [x for x in range(1, 11) if s.evaluates_at(x)] == [4, 8, 10]
    assert [x for x in range(1, 11) if s.saves_at(x)] == [8, 10]
    s = make_schedule(0, 10, checkpoint_steps=[7, 2])
    assert stops(s) == [2, 7, 10]
    assert [x for x in range(1, 11) if s.saves_at(x)] == [2, 7, 10]


@pytest.mark.parametrize("total", [107, 109, 110])
def test_evaluations_that_are_left(total):
    schedule = make_schedule(100, total, eval_period=3)
    for step in range(100, total + 2):
        later = [s for s in range(step + 1, total + 1) if schedule.evaluates_at(s)]
        assert schedule.evaluations_after(step) == len(later)
    assert make_schedule(100, total).evaluations_after(100) == 0


def test_periods_count_from_the_first_step():
    s = make_schedule(5, 17, eval_period=4, checkpoint_period=4)
    assert stops(s) == [9, 13, 17]
    assert stops(s, step=11) == [13, 17]
    assert s.evaluates_at(13)
    assert not s.evaluates_at(12)


RULE = "give a whole number of at least 0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eval_period": -5}, f"eval_period = -5: {RULE}; 0 means never."),
        ({"eval_period": 2.5}, f"eval_period = 2.5: {RULE}; 0 means never."),
        ({"checkpoint_period": 2.5},
         f"SaveCheckpointConfig.period = 2.5: {RULE}; 0 means never."),
        ({"gc_period": -1}, f"gc_period = -1: {RULE}; 0 means never."),
        ({"stats_period": 0.5}, f"stats_period = 0.5: {RULE}."),
        ({"checkpoint_steps": [3, -1]},
         f"SaveCheckpointConfig.checkpoint_steps = -1: {RULE}."),
    ],
)  # fmt: skip
def test_periods_that_are_no_numbers_of_steps(settings, message):
    with pytest.raises(UserError) as caught:
        make_schedule(0, 10, **settings)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value", "title", "end"),
    [
        ("steps", 10.5, "total_steps (TRAIN_STEPS)", "."),
        ("steps", "10", "total_steps (TRAIN_STEPS)", "."),
        ("eval_period", -5, "eval_period (EVAL_PERIOD)", "; 0 means never."),
        ("eval_steps", -1, "eval_steps", "."),
        ("relative_steps", -4, "relative_steps (TRAIN_STEPS_RELATIVE)", "."),
    ],
)
def test_numbers_of_steps_that_are_none(run_train, tmp_path, name, value, title, end):
    with pytest.raises(UserError) as caught:
        run_train(tmp_path / "run", **{name: value})
    assert str(caught.value) == f"train.{title} = {value!r}: {RULE}{end}"
    assert not (tmp_path / "run").exists()


def test_whole_numbers_may_be_written_as_floats(run_train, tmp_path):
    step, _ = run_train(tmp_path, steps=2e0, eval_period=2.0)
    assert (step, type(step)) == (2, int)


def test_periods_that_do_not_fit():
    with pytest.raises(
        ValueError, match="must all be multiples of each other: eval_per"
    ):
        make_schedule(0, 10, eval_period=5, checkpoint_period=2)
    assert make_schedule(0, 10).unit == 10
