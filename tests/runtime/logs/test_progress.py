"""The progress line covers the time since the previous line."""

import io

import jax.numpy as jnp
import pytest
from clu import metrics as clu_metrics
from t5x.logs import progress
from t5x.training import loop


class Clock:
    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(progress.time, "perf_counter", lambda: self.now)


def accumulated(total, count):
    average = clu_metrics.Average
    return {
        "loss_per_nonpadding_target_token": average(
            total=jnp.asarray(total), count=jnp.asarray(count)
        )
    }


def test_line_averages_since_the_line_before(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    line = progress.Progress(100, 1000, stream)
    clock.now = 5.0
    line.update(120, accumulated(99.0, 1))  # too early: nothing is printed
    clock.now = 10.0
    line.update(200, accumulated(300.0, 100))
    clock.now = 30.0
    line.update(300, accumulated(400.0, 200))
    assert stream.getvalue().splitlines() == [
        "step 200/1,000 (20%)  loss 3  10.0 steps/s  ETA 1m20s",
        "step 300/1,000 (30%)  loss 1  5.0 steps/s  ETA 2m20s",
    ]


def test_new_interval_starts_from_zero(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    line = progress.Progress(0, 100, stream)
    clock.now = 10.0
    line.update(10, accumulated(100.0, 10))
    line.pause(10)
    clock.now = 50.0  # an evaluation
    line.resume(10)
    clock.now = 60.0
    line.update(20, accumulated(40.0, 20))
    assert "loss 2  1.0 steps/s" in stream.getvalue().splitlines()[1]


def test_intervals_shorter_than_the_period_share_a_line(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    line = progress.Progress(0, 100, stream)
    for start in (0, 8, 16):
        line.resume(start)
        for step in range(start + 1, start + 9):  # one second per step
            clock.now += 1.0
            line.update(step, accumulated(6.0 * (step - start), step - start))
        line.pause(start + 8)
        clock.now += 30.0  # another pause
    assert stream.getvalue().splitlines() == [
        "step 10/100 (10%)  loss 6  1.0 steps/s  ETA 1m30s",
        "step 20/100 (20%)  loss 6  1.0 steps/s  ETA 1m20s",
    ]


def test_another_step_than_the_one_before_starts_anew(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    line = progress.Progress(0, 100, stream)
    clock.now = 9.0
    line.pause(9)
    line.resume(40)  # restored
    clock.now = 12.0
    line.update(45, {})
    assert stream.getvalue() == ""
    clock.now = 19.0
    line.update(50, {})
    assert stream.getvalue() == "step 50/100 (50%)  1.0 steps/s  ETA 50s\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12.4, "12s"), (75, "1m15s"), (4000, "1h06m"), (3599.6, "1h00m")],
)
def test_format_seconds(seconds, text):
    assert progress.format_seconds(seconds) == text


def test_the_time_left_includes_evaluations(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    plan = loop.make_schedule(0, 100, eval_period=40)
    line = progress.Progress(0, 100, stream, plan.evaluations_after)
    assert line.left(0) is None
    clock.now = 20.0
    line.update(20, {})
    clock.now = 40.0
    line.pause(40)
    assert line.left(40, 90.0) == 60 + 2 * 90
    clock.now = 100.0  # after an evaluation of a minute
    line.resume(40)
    clock.now = 110.0
    line.update(50, {})
    clock.now = 140.0
    line.pause(80)
    clock.now = 170.0  # half a minute
    line.resume(80)
    clock.now = 180.0
    line.update(90, {})
    assert stream.getvalue().splitlines() == [
        "step 20/100 (20%)  1.0 steps/s  ETA 1m20s  + 3 evaluations",
        "step 50/100 (50%)  1.0 steps/s  ETA 2m50s",
        "step 90/100 (90%)  1.0 steps/s  ETA 55s",
    ]


def test_work_shows_the_time_left_for_the_whole_command(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    work = progress.Work("inference", 1000, stream=stream)
    work.skip_to(200)
    clock.now = 5.0
    work.add(50)  # too early: nothing is printed
    clock.now = 10.0
    work.add(50)
    work.skip_to(100)  # done already
    clock.now = 40.0
    work.add(300)
    assert stream.getvalue().splitlines() == [
        "inference: 300/1,000 examples (30%)  10.0 examples/s  ETA 1m10s",
        "inference: 600/1,000 examples (60%)  10.0 examples/s  ETA 40s",
    ]


def test_work_that_more_work_follows(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    after = {100.0: 20.0}
    work = progress.Work("evaluation", 100, lambda s: after.get(s), stream)
    clock.now = 10.0
    work.add(10)
    clock.now = 40.0
    work.add(10)
    assert stream.getvalue().splitlines() == [
        "evaluation: 10/100 examples (10%)  1.0 examples/s  ETA 1m50s",
        "evaluation: 20/100 examples (20%)  0.5 examples/s",
    ]


def test_work_of_unknown_length(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    for total in (None, 15):  # A total that is exceeded is ignored.
        clock.now = 0.0
        work = progress.Work("inference", total, stream=stream)
        clock.now = 10.0
        work.add(20)
    line = "inference: 20 examples  2.0 examples/s"
    assert stream.getvalue().splitlines() == [line, line]
