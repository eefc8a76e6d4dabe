"""When a run evaluates, acts and stops, and that a restart changes none of it."""

import functools
import os
import signal
from concurrent import futures
from types import MappingProxyType

import numpy as np
import pytest
from t5x import checkpoints, trainer, utils
from t5x.trainer import PreemptionError
from t5x.training.schedule import make_schedule

CONFIG = utils.DatasetConfig("numbers", {"inputs": 6}, "train", 4, False, 0)


class Evaluator:
    """An inference evaluator whose metric comes from a list, by step."""

    model_feature_shapes = MappingProxyType({"encoder_input_tokens": (6,)})
    eval_tasks = ("task",)

    def __init__(self, log, values, on_evaluate, **kwargs):
        self.log, self.values, self.on_evaluate = log, values, on_evaluate
        self.kwargs = kwargs

    def evaluate(self, *, compute_metrics, step, predict_fn, **_):
        assert compute_metrics
        ds = [(i, {"encoder_input_tokens": np.full(6, i + 2)}) for i in range(3)]
        assert [i for i, _ in predict_fn(ds)] == [0, 1, 2]
        self.on_evaluate(step)
        self.log.append(step)
        future = futures.Future()
        future.set_result({"task": {"score": float(self.values.get(step, 0.0))}})
        return future, {}

    def close(self):
        self.log.append("closed")


@pytest.fixture
def run(run_train, tmp_path):
    """Runs with an evaluation every 2 steps; returns (step, steps evaluated)."""

    def run(folder="run", values=None, on_evaluate=lambda step: None, **kwargs):
        log = []
        evaluator = functools.partial(Evaluator, log, values or {}, on_evaluate)
        settings = {
            "eval_period": 2,
            "infer_eval_dataset_cfg": CONFIG,
            "inference_evaluator_cls": evaluator,
            **kwargs,
        }
        try:
            step, _ = run_train(tmp_path / folder, **settings)
        except PreemptionError:
            step = "preempted"
        assert log.pop() == "closed"
        return step, log

    return run


def terminate(*args):
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("concurrent", [True, False])
def test_evaluates_every_period_and_at_the_end(run, concurrent):
    assert run(steps=7, period=2, concurrent_metrics=concurrent) == (7, [2, 4, 6, 7])


def test_evaluation_before_training(run):
    assert run(steps=2, run_eval_before_training=True) == (2, [0, 2])
    assert run(steps=2, run_eval_before_training=True) == (2, [2])


def test_an_interrupted_run_evaluates_at_the_same_steps(run, tmp_path):
    def stop(number):
        if number == 5:
            terminate()

    first, before = run(steps=12, period=6, on_batch=stop)
    assert first == "preempted"
    assert max(checkpoints.all_steps(tmp_path / "run")) < 6
    last, after = run(steps=12, period=6)
    assert last == 12
    assert before + after == [2, 4, 6, 8, 10, 12]


def test_an_interrupted_evaluation_is_repeated(run, tmp_path):
    def stop(step):
        if step == 4:
            terminate()

    assert run(steps=6, period=2, on_evaluate=stop) == ("preempted", [2])
    assert checkpoints.all_steps(tmp_path / "run") == [2, 4]
    assert run(steps=6, period=2) == (6, [4, 6])
    # The same for the last one.
    assert run(steps=8, period=2, on_evaluate=lambda s: s == 8 and terminate())[0] == (
        "preempted"
    )
    assert run(steps=8, period=2) == (8, [8])
    assert run(steps=8, period=2) == (8, [])


def stopping(patience=3):
    action = trainer.EarlyStoppingAction(
        ("task", "score"), mode="max", patience=patience, compare_to="best"
    )
    return {"actions": {"INFER_EVAL": [action]}, "concurrent_metrics": False}


VALUES = {2: 0.3, 4: 0.5, 6: 0.4, 8: 0.45, 10: 0.5, 12: 0.9}


def test_early_stopping_saves_and_leaves(run, tmp_path, capfd):
    settings = {"steps": 12, "period": 4, "values": VALUES}
    assert run(**settings, **stopping()) == (10, [2, 4, 6, 8, 10])
    assert checkpoints.all_steps(tmp_path / "run") == [4, 8, 10]
    err = capfd.readouterr().err
    assert "step 10  stopping early, as an action asked for it" in err
    assert "step 4  inference eval of task: score 0.5" in err


@pytest.mark.parametrize("stop_at", [4, 6, 8, 10])
def test_early_stopping_stops_at_the_same_step_after_an_interruption(run, stop_at):
    settings = {"steps": 12, "period": 4, "values": VALUES}

    def stop(number):
        if number == stop_at:
            terminate()

    first = run(**settings, **stopping(), on_batch=stop)
    if first[0] == "preempted":
        assert run(**settings, **stopping())[0] == 10
    else:  # it was read ahead, and stopped before
        assert first[0] == 10


def test_actions_for_training_metrics(run, tmp_path, capfd):
    class StopAt(trainer.BaseAction):
        def __init__(self):
            self.seen = []

        def run(self, train_state, metrics_by_task):
            self.seen.append(float(metrics_by_task["train"]["loss"].value))
            return int(train_state.step) == 4

    action = StopAt()
    settings = {"steps": 8, "period": 8, "actions": {"TRAIN": [action]}}
    assert run(**settings, concurrent_metrics=False)[0] == 4
    assert len(action.seen) == 2
    assert checkpoints.all_steps(tmp_path / "run") == [4]
    # With concurrent metrics they do not run, which is said.
    assert run("other", **settings)[0] == 8
    assert "actions for TRAIN will not run" in capfd.readouterr().err


def test_unknown_action_keys(run_train, tmp_path):
    with pytest.raises(ValueError, match=r"actions keys must be one of .*\['EVAL'\]"):
        run_train(tmp_path, actions={"EVAL": []})


def test_a_nan_loss_is_explained(run_train, tmp_path, tiny_model, capfd):
    class Diverging(type(tiny_model)):
        def loss_fn(self, params, batch, dropout_rng):
            loss, metrics = super().loss_fn(params, batch, dropout_rng)
            metrics["loss"] = metrics["loss"].replace(total=loss * np.nan)
            return loss, metrics

    run_train(tmp_path, model=Diverging(), steps=2)
    err = capfd.readouterr().err
    assert "the training loss is nan between steps 0 and 2" in err
    assert "TerminateOnNanAction" in err


def test_a_batch_that_the_mesh_does_not_divide(run_train, tmp_path):
    from t5x import partitioning

    class FourWide(partitioning.PjitPartitioner):
        data_mesh_size = 3

    with pytest.raises(
        ValueError, match=r"Batch size \(4\) must be divisible by the dat"
    ):
        run_train(tmp_path, partitioner=FourWide(num_partitions=1))


def test_a_full_disk_is_one_message(run_train, tmp_path, monkeypatch):
    import orbax.checkpoint as ocp

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    run_train(tmp_path, steps=4)
    monkeypatch.setattr(ocp.PyTreeCheckpointHandler, "async_save", full)
    with pytest.raises(ValueError, match="(?s)No space left.*step 4 is intact"):
        run_train(tmp_path, steps=8)
    monkeypatch.undo()
    assert run_train(tmp_path, steps=8)[0] == 8


# ---- the schedule ----


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


def test_periods_count_from_the_first_step():
    s = make_schedule(5, 17, eval_period=4, checkpoint_period=4)
    assert stops(s) == [9, 13, 17]
    assert stops(s, step=11) == [13, 17]
    assert s.evaluates_at(13)
    assert not s.evaluates_at(12)


def test_periods_that_do_not_fit():
    with pytest.raises(
        ValueError, match="must all be multiples of each other: eval_per"
    ):
        make_schedule(0, 10, eval_period=5, checkpoint_period=2)
    assert make_schedule(0, 10).unit == 10
