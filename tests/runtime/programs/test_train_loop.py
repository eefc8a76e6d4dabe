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
import jax.numpy as jnp
import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars
from t5x import checkpoints, digests, trainer, utils
from t5x.errors import UserError
from t5x.trainer import PreemptionError
from t5x.training import run_record
from t5x.training.schedule import make_schedule
from toy_run import Numbers, TinyModel, same_params

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
    # With concurrent metrics actions do not run, and a message says so.
    assert run("other", **settings)[0] == 8
    assert "actions for TRAIN will not run" in capfd.readouterr().err


def test_unknown_action_keys(run_train, tmp_path):
    with pytest.raises(ValueError, match=r"actions keys must be one of .*\['EVAL'\]"):
        run_train(tmp_path, actions={"EVAL": []})


# ---- non-finite steps ----


@pytest.fixture
def poisoned():
    """Returns settings of a run with a NaN loss or gradient in these batches."""

    def make(*numbers, gradient_only=False):
        class Poisoned(TinyModel):
            def loss_fn(self, params, batch, dropout_rng):
                bad = batch["decoder_loss_weights"][0, 0] == 2
                batch = {**batch, "decoder_loss_weights": jnp.ones((4, 6))}
                loss, metrics = super().loss_fn(params, batch, dropout_rng)
                factor = jnp.where(bad, jnp.nan, 1.0)
                if gradient_only:
                    # The derivative of sqrt is infinite at 0.
                    zero = jnp.where(bad, 0.0, 1.0) * params["kernel"][0, 0]
                    return loss + jnp.sqrt(jnp.abs(zero)), metrics
                metrics["loss"] = metrics["loss"].replace(total=loss * factor)
                return loss * factor, metrics

        class Batches(Numbers):
            def __next__(self):
                number = self.position
                batch = super().__next__()
                batch["decoder_loss_weights"] += number in numbers
                return batch

        return {
            "model": Poisoned(),
            "get_dataset_fn": lambda *args: Batches(),
            "stats_period": 2,
        }

    return make


BATCHES = (
    "The batches hold decoder_input_tokens int32[4, 6], decoder_loss_weights int32[4, "
    "6], decoder_target_tokens int32[4, 6], encoder_input_tokens int32[4, 6]. Usual "
    "causes: a learning rate that is too high, bfloat16 activations, or targets "
    "without any token. Change that, or let up to N such steps in a row be skipped "
    "with trainer.Trainer.max_skipped_steps = N, and run the command again."
)


def test_a_nan_loss_ends_the_run_and_keeps_the_good_checkpoint(
    run_train, tmp_path, poisoned
):
    with pytest.raises(UserError) as caught:
        run_train(tmp_path / "run", **poisoned(6), steps=16)
    assert str(caught.value) == (
        "The training loss is nan at step 7. Training stops, and this state is not "
        f"saved. The last good checkpoint is {tmp_path}/run/checkpoint_4. {BATCHES}"
    )
    assert checkpoints.all_steps(tmp_path / "run") == [4]
    # After the cause is removed, the run continues from there.
    _, mended = run_train(tmp_path / "run", steps=16)
    _, straight = run_train(tmp_path / "straight", steps=16)
    same_params(mended, straight)


def test_a_nan_in_the_last_steps_ends_the_run_without_checkpoints_too(
    run_train, tmp_path, poisoned
):
    with pytest.raises(UserError) as caught:
        run_train(
            tmp_path, **poisoned(7), steps=8, checkpoint_cfg=utils.CheckpointConfig()
        )
    assert str(caught.value) == (
        "The training loss is nan at step 8. Training stops, and this state is not "
        f"saved. {tmp_path} holds no checkpoint to go back to. {BATCHES}"
    )


def test_parameters_that_are_not_finite_are_not_saved(run_train, tmp_path, poisoned):
    with pytest.raises(UserError) as caught:
        run_train(tmp_path, **poisoned(7, gradient_only=True), steps=8)
    assert str(caught.value) == (
        "Parameters are not finite after step 8: kernel. Training stops, and this "
        f"state is not saved. The last good checkpoint is {tmp_path}/checkpoint_4. "
        f"{BATCHES}"
    )
    assert checkpoints.all_steps(tmp_path) == [4]


def test_an_interruption_does_not_save_what_is_not_finite(
    run_train, tmp_path, poisoned
):
    settings = poisoned(4)
    batches = settings["get_dataset_fn"]()

    def stop_before(step):
        return step == 5

    class Stopped(trainer.Trainer):
        preempted = property(lambda self: stop_before, lambda self, value: None)

    trainer_cls = functools.partial(
        Stopped, learning_rate_fn=lambda step: 0.01, num_microbatches=None
    )
    settings["get_dataset_fn"] = lambda *args: batches
    with pytest.raises(UserError, match="The training loss is nan at step 5. Training"):
        run_train(tmp_path, **settings, trainer_cls=trainer_cls)
    assert checkpoints.all_steps(tmp_path) == [4]


def test_terminate_on_nan_stops_after_its_round_and_saves_nothing(
    run_train, tmp_path, poisoned
):
    with pytest.raises(UserError, match="The training loss is nan at step 1. Training"):
        run_train(
            tmp_path,
            **poisoned(0),
            actions={"TRAIN": [trainer.TerminateOnNanAction("train")]},
            concurrent_metrics=False,
        )
    assert checkpoints.all_steps(tmp_path) == []


def test_a_start_that_is_not_finite(run_train, tmp_path):
    class Broken(TinyModel):
        def get_initial_variables(self, *args, **kwargs):
            variables = super().get_initial_variables(*args, **kwargs)
            params = {**variables["params"]}
            params["kernel"] = params["kernel"] * jnp.nan
            return {**variables, "params": params}

    with pytest.raises(UserError) as caught:
        run_train(tmp_path, model=Broken())
    assert str(caught.value) == (
        "Parameters are not finite before the first step, at step 0: kernel. Give "
        "another checkpoint to RestoreCheckpointConfig.path, or, where the run starts "
        "from scratch, mend the model's initialisers."
    )


def skipping(number):
    return functools.partial(
        trainer.Trainer,
        learning_rate_fn=lambda step: 0.01,
        num_microbatches=None,
        max_skipped_steps=number,
    )


@pytest.mark.parametrize("gradient_only", [False, True])
def test_skipped_steps_have_no_effect(
    run_train, tmp_path, poisoned, capfd, gradient_only
):
    settings = poisoned(1, 4, 5, gradient_only=gradient_only)
    params = {}
    for steps in (1, 2, 4, 6, 8):
        step, state = run_train(
            tmp_path, **settings, trainer_cls=skipping(2), steps=steps, period=1
        )
        assert (step, int(state.step)) == (steps, steps)
        params[steps] = np.asarray(state.params["kernel"])
        assert np.isfinite(params[steps]).all()
    np.testing.assert_array_equal(params[1], params[2])
    np.testing.assert_array_equal(params[4], params[6])
    assert not np.array_equal(params[2], params[4])
    assert not np.array_equal(params[6], params[8])
    assert (
        "warning: skipped 1 of the steps 2 to 2, whose loss or gradients were not "
        "finite: 2\n"
    ) in capfd.readouterr().err


def test_skipped_steps_are_counted_and_left_out_of_averages(
    run_train, tmp_path, poisoned
):
    settings = {"steps": 6, "period": 6}
    run_train(
        tmp_path / "a", **{**poisoned(1, 4, 5), **settings}, trainer_cls=skipping(2)
    )
    run_train(
        tmp_path / "b", **{**poisoned(), **settings, "stats_period": 1, "steps": 1}
    )
    a, b = (read_scalars(tmp_path / name / "train") for name in "ab")
    assert a["nonfinite_steps"] == {2: 1, 4: 0, 6: 2}
    assert "nonfinite_steps" not in b
    for name in ("loss", "loss_per_nonpadding_target_token", "accuracy"):
        assert a[name][2] == pytest.approx(b[name][1], rel=1e-6)
        assert np.isnan(a[name][6])
    assert a["learning_rate"][6] == pytest.approx(0.01)


def test_too_many_skipped_steps_end_the_run(run_train, tmp_path, poisoned):
    with pytest.raises(UserError) as caught:
        run_train(
            tmp_path, **poisoned(5, 6, 7), trainer_cls=skipping(2), steps=12, period=4
        )
    assert str(caught.value).startswith(
        "Loss or gradients were not finite in 3 steps in a row, up to step 8; "
        "Trainer.max_skipped_steps = 2. Training stops, and this state is not saved. "
        f"The last good checkpoint is {tmp_path}/checkpoint_4. The batches hold "
    )


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
        (
            {"checkpoint_period": 2.5},
            f"SaveCheckpointConfig.period = 2.5: {RULE}; 0 means never.",
        ),
        ({"gc_period": -1}, f"gc_period = -1: {RULE}; 0 means never."),
        ({"stats_period": 0.5}, f"stats_period = 0.5: {RULE}."),
        (
            {"checkpoint_steps": [3, -1]},
            f"SaveCheckpointConfig.checkpoint_steps = -1: {RULE}.",
        ),
    ],
)
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
