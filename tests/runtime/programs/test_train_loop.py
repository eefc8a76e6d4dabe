"""Evaluations, actions, and stops of a run; a restart changes none of them."""

import functools
import os
import shutil
import signal
import threading
import time
from concurrent import futures
from types import MappingProxyType

import jax
import numpy as np
import pytest
from t5x import checkpoints, digests, trainer, utils
from t5x.errors import UserError
from t5x.trainer import PreemptionError
from t5x.training import run_record
from toy_run import same_params

from tests.support import grids

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
        # A finished run builds no evaluator.
        assert not log or log.pop() == "closed"
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


def stopping(patience=3, compare_to="best"):
    action = trainer.EarlyStoppingAction(
        ("task", "score"), mode="max", patience=patience, compare_to=compare_to
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


def test_a_run_that_stopped_early_goes_on_with_more_steps_alone(run, capfd):
    settings = {"period": 4, "values": VALUES}
    assert run(steps=12, **settings, **stopping())[0] == 10
    assert run(steps=12, **settings, **stopping()) == (10, [])
    assert run(steps=11, **settings, **stopping()) == (10, [])
    assert "step 10  this run is finished; nothing is left" in capfd.readouterr().err
    assert run(steps=14, **settings, **stopping()) == (14, [12, 14])


@pytest.mark.parametrize("stop_at", grids.first(2, [6, 8, 4, 10]))
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
    # With concurrent metrics actions do not run, and a message says so.
    assert run("other", **settings)[0] == 8
    assert "actions for TRAIN will not run" in capfd.readouterr().err


def test_unknown_action_keys(run_train, tmp_path):
    with pytest.raises(ValueError, match=r"actions keys must be one of .*\['EVAL'\]"):
        run_train(tmp_path, actions={"EVAL": []})


def test_training_goes_on_while_a_checkpoint_is_written(
    tmp_path, run_train, monkeypatch
):
    """The checkpoint of step 4 is not complete before batch 9 is drawn."""
    drawn = threading.Event()
    waited = []
    write = digests.write

    def write_late(root, *args):
        waited.append((root.name.partition(".")[0], drawn.wait(60)))
        write(root, *args)

    monkeypatch.setattr(digests, "write", write_late)
    folder = tmp_path / "run"
    _, whole = run_train(
        folder, steps=12, on_batch=lambda n: drawn.set() if n == 9 else None
    )
    assert waited == [(f"checkpoint_{step}", True) for step in (4, 8, 12)]
    # The checkpoint has the state of its step, although later steps donated it.
    run_train(tmp_path / "four", steps=4)
    saved, expected = (
        checkpoints.load_t5x_checkpoint(str(root), step=4)
        for root in (folder, tmp_path / "four")
    )
    jax.tree.map(np.testing.assert_array_equal, saved, expected)
    shutil.rmtree(folder / "checkpoint_12")
    shutil.rmtree(folder / "checkpoint_8")
    _, resumed = run_train(folder, steps=12)
    same_params(whole, resumed)


def test_a_save_that_fails_meanwhile_ends_the_run_soon(
    tmp_path, run_train, monkeypatch
):
    failed = threading.Event()
    drawn = []

    def full(*args):
        failed.set()
        raise OSError(28, "No space left on device")

    def on_batch(number):
        drawn.append(number)
        if number == 8:
            assert failed.wait(60)
            time.sleep(1)  # until the manager knows

    run_train(tmp_path, steps=2)
    monkeypatch.setattr(digests, "write", full)
    with pytest.raises(
        UserError, match="(?s)No space left on device. The checkpoint of step 2 is int"
    ):
        run_train(
            tmp_path,
            steps=402,
            stats_period=2,
            on_batch=on_batch,
            checkpoint_cfg=utils.CheckpointConfig(
                save=utils.SaveCheckpointConfig(period=100, checkpoint_steps=[6])
            ),
        )
    assert max(drawn) < 20
    assert [p.name for p in tmp_path.glob("checkpoint_*")] == ["checkpoint_2"]


def test_sigterm_waits_for_a_checkpoint_that_is_being_written(
    tmp_path, run_train, monkeypatch
):
    stopped = threading.Event()
    write = digests.write

    def write_late(root, *args):
        assert stopped.wait(60)
        write(root, *args)

    monkeypatch.setattr(digests, "write", write_late)

    def stop(number):
        if number == 6:
            terminate()
            stopped.set()

    with pytest.raises(PreemptionError, match="Everything up to step [567] is saved"):
        run_train(tmp_path, on_batch=stop)
    first, last = checkpoints.all_steps(tmp_path)
    assert first == 4
    assert last in (5, 6, 7)


def test_a_stop_noted_after_the_last_complete_checkpoint_is_decided_anew(
    run, tmp_path, monkeypatch
):
    """The run is killed between the evaluation of step 4 and its checkpoint."""
    settings = {**stopping(2, compare_to="previous"), "period": 2, "steps": 8}
    values = {2: 2.0, 4: 1.0}
    monkeypatch.setattr(run_record.RunRecord, "complete", lambda self, *_: None)
    assert run(values=values, **settings) == (4, [2, 4])
    shutil.rmtree(tmp_path / "run" / "checkpoint_4")
    # Another value at step 4, so the run need not stop there.
    values = {4: 3.0, 6: 4.0, 8: 5.0}
    assert run(values=values, **settings) == (8, [4, 6, 8])


class Sink:
    """Collects the values that a run sends."""

    def __init__(self, made, model_dir, config):
        self.logged, self.closed = [], 0
        made.append((self, model_dir))

    def log(self, step, scalars):
        assert not self.closed
        self.logged.append((step, scalars))

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("concurrent", [True, False])
def test_sinks_take_the_scalars_of_training_and_evaluation(run, tmp_path, concurrent):
    made = []
    run(
        values={2: 0.5, 4: 0.25},
        metric_sinks=[functools.partial(Sink, made)],
        concurrent_metrics=concurrent,
    )
    ((sink, folder),) = made
    assert sink.closed == 1 and folder == str(tmp_path / "run")
    losses = [step for step, scalars in sink.logged if "train/loss" in scalars]
    assert losses == [2, 4, 6, 8]
    name = "inference_eval/task/score"
    scores = [(step, found[name]) for step, found in sink.logged if name in found]
    assert scores == [(2, 0.5), (4, 0.25), (6, 0.0), (8, 0.0)]
