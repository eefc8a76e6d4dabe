"""A run that is stopped anywhere and restarted equals an uninterrupted run."""

import os
import signal

import gin
import jax
import numpy as np
import pytest
from flax.linen import partitioning as flax_partitioning
from t5x import checkpoints, gin_utils, utils
from t5x.errors import UserError
from t5x.feed import datasets
from t5x.trainer import PreemptionError
from toy_run import Numbers, TinyModel, same_params

from tests.support import grids


def terminate_at(batch):
    """Sends SIGTERM when a batch is read."""

    def stop(number):
        if number == batch:
            os.kill(os.getpid(), signal.SIGTERM)

    return stop


def saving(restore=None, **settings):
    """Returns the settings of a run that saves at this period."""
    return utils.CheckpointConfig(
        save=utils.SaveCheckpointConfig(**settings), restore=restore
    )


def specific(path):
    return utils.RestoreCheckpointConfig(path=str(path), mode="specific")


@pytest.mark.parametrize("stop_at", grids.first(1, [3, 1, 5]))
def test_sigterm_saves_and_the_same_call_continues(tmp_path, run_train, stop_at, capfd):
    _, straight = run_train(tmp_path / "straight")

    with pytest.raises(PreemptionError, match="run the same command to continue"):
        run_train(tmp_path / "stopped", on_batch=terminate_at(stop_at))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    saved = checkpoints.all_steps(tmp_path / "stopped")
    step, resumed = run_train(tmp_path / "stopped")
    assert step == 8
    same_params(straight, resumed)
    assert saved == [s for s in saved if s < 8]
    # Periods continue to count from the first step of the run.
    assert 4 in checkpoints.all_steps(tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "unfinished_run.json").exists()


def test_without_data_positions_the_data_starts_again(tmp_path, run_train):
    save = saving(period=4, save_dataset=False)
    seen = []
    run_train(tmp_path, steps=4, checkpoint_cfg=save)
    run_train(tmp_path, steps=8, checkpoint_cfg=save, on_batch=seen.append)
    assert seen[:2] == [0, 1]


def test_checkpoint_of_the_first_step_only_where_asked(tmp_path, run_train):
    run_train(tmp_path / "a", steps=2, period=2)
    assert checkpoints.all_steps(tmp_path / "a") == [2]
    asked = saving(period=4, checkpoint_steps=[0, 3])
    run_train(tmp_path / "b", checkpoint_cfg=asked)
    assert checkpoints.all_steps(tmp_path / "b") == [0, 3, 4, 8]
    run_train(tmp_path / "c", steps=5, checkpoint_cfg=saving(checkpoint_steps=[3]))
    assert checkpoints.all_steps(tmp_path / "c") == [3, 5]


def test_no_checkpoints_at_all(tmp_path, run_train):
    step, state = run_train(tmp_path, steps=3, checkpoint_cfg=utils.CheckpointConfig())
    assert (step, int(state.step)) == (3, 3)
    assert checkpoints.all_steps(tmp_path) == []
    assert (tmp_path / "inference_eval").is_dir()


@pytest.fixture
def finetune(tmp_path, run_train):
    """Runs a fine-tuning from step 4 of another run."""
    run_train(tmp_path / "pretrained", steps=4)
    config = saving(specific(tmp_path / "pretrained" / "checkpoint_4"), period=4)

    def run(name, steps, **settings):
        return run_train(
            tmp_path / name, relative_steps=steps, checkpoint_cfg=config, **settings
        )

    return run


def modification_times(folder):
    """Returns each file below `folder` with the time of its last change.

    Reading changes a file's access time, so a whole `stat` would not do.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    return {(path, path.stat().st_mtime_ns) for path in files}


def test_a_finished_run_that_is_repeated_does_nothing(tmp_path, finetune, capfd):
    _, first = finetune("tuned", 6)
    written = modification_times(tmp_path / "tuned")
    capfd.readouterr()
    step, again = finetune("tuned", 6, use_orbax=False)
    assert step == 10
    same_params(first, again)
    err = capfd.readouterr().err
    assert "train.use_orbax = False has no effect" in err
    assert "step 10  this run is finished; nothing is left to do. Give more st" in err
    assert f"Results are in {tmp_path}/tuned\n" in err
    after = modification_times(tmp_path / "tuned")
    assert {path.name for path, _ in after ^ written} <= {"model-info.txt"}


def test_more_relative_steps_count_from_the_first_beginning(finetune):
    _, straight = finetune("straight", 8)
    assert finetune("tuned", 6)[0] == 10
    step, longer = finetune("tuned", 8)
    assert step == 12
    same_params(straight, longer)
    with pytest.raises(PreemptionError):
        finetune("tuned", 20, on_batch=terminate_at(14))
    assert finetune("tuned", 20)[0] == 24


def test_a_finished_run_without_its_note_began_with_the_initial_checkpoint(
    tmp_path, finetune
):
    finetune("tuned", 6)
    (tmp_path / "tuned" / "finished_run.json").unlink()
    assert finetune("tuned", 6)[0] == 10
    (tmp_path / "tuned" / "finished_run.json").unlink()
    assert finetune("tuned", 7)[0] == 11


@pytest.fixture
def same_generator():
    name = jax.config.jax_default_prng_impl
    yield
    jax.config.update("jax_default_prng_impl", name)


def test_a_seed_that_is_drawn_is_kept_over_a_restart(
    tmp_path, run_train, same_generator, monkeypatch
):
    seeds = iter([11, 11, 12, 13])
    monkeypatch.setattr(datasets, "fresh_seed", seeds.__next__)
    _, straight = run_train(tmp_path / "straight", random_seed=None)

    with pytest.raises(PreemptionError):
        run_train(tmp_path / "stopped", random_seed=None, on_batch=terminate_at(5))
    _, resumed = run_train(tmp_path / "stopped", random_seed=None)
    same_params(straight, resumed)
    assert next(seeds) == 12
    _, other = run_train(tmp_path / "other", random_seed=None)
    assert not np.array_equal(other.params["kernel"], straight.params["kernel"])


def test_data_that_ends_is_an_error(tmp_path, run_train):
    def end(number):
        if number == 5:
            raise StopIteration

    with pytest.raises(ValueError, match="data ended before step 6"):
        run_train(tmp_path, on_batch=end)


def test_fewer_steps_than_the_checkpoint(tmp_path, run_train):
    run_train(tmp_path, steps=4)
    with pytest.raises(ValueError, match=r"total_steps \(2\) < checkpoint step \(4\)"):
        run_train(tmp_path, steps=2)


def test_a_model_that_lacks_parameters_of_the_run_is_refused(tmp_path, run_train):
    class Wider(TinyModel):
        def get_initial_variables(self, rng, input_shapes, input_types=None):
            variables = super().get_initial_variables(rng, input_shapes, input_types)
            params = {**variables["params"], "extra": {"bias": np.ones(3, np.float32)}}
            axes = variables["params_axes"]
            extra = {"bias_axes": flax_partitioning.AxisMetadata(("embed",))}
            return {"params": params, "params_axes": {**axes, "extra": extra}}

    run_train(tmp_path, steps=4, model=Wider())
    message = rf"{tmp_path} has .* \(1\): target/extra/bias\. .* another MODEL_DIR"
    with pytest.raises(UserError, match=message):
        run_train(tmp_path)
    # It may be the initial checkpoint of another run.
    config = saving(specific(tmp_path / "checkpoint_4"), period=4)
    step, _ = run_train(tmp_path / "other", checkpoint_cfg=config)
    assert step == 8


def test_other_settings_are_listed_at_a_restart(tmp_path, run_train, capfd):
    def run(steps, rate):
        with gin.unlock_config():
            gin.clear_config()
            gin.parse_config(f"""
                TRAIN_STEPS = {steps}
                RATE = {rate}
                get_gin_config_str.show_provenance = False
                sum_fn.var1 = %RATE
            """)
        write = gin_utils.summarize_gin_config
        run_train(tmp_path, steps=steps, summarize_config_fn=write)
        return capfd.readouterr().err

    try:
        assert "->" not in run(2, 0.5)
        err = run(4, 0.25)
        assert f"up to step 2 this run had other settings (in {tmp_path}/confi" in err
        changed, _, harmless = err.partition("\nstep 2  new lengths, periods")
        assert changed.endswith("\n  RATE: 0.5 -> 0.25")
        assert ":\n  TRAIN_STEPS: 2 -> 4\n" in harmless
        err = run(6, 0.25)
        assert "warning" not in err
        assert "  TRAIN_STEPS: 4 -> 6\n" in err
    finally:
        with gin.unlock_config():
            gin.clear_config()


def test_a_run_keeps_the_shards_of_its_data(tmp_path, run_train):
    asked = []

    def get_dataset(cfg, shard, count, converter):
        asked.append((shard, count))
        return Numbers(shard=(shard, count))

    def run(name, **settings):
        return run_train(tmp_path / name, get_dataset_fn=get_dataset, **settings)[1]

    straight = run("straight")
    assert asked == [(0, 1)]
    run("stopped", steps=4, data_shards=2)
    with pytest.raises(UserError, match=r"train.data_shards = 4, .* one of 2 shards"):
        run("stopped", data_shards=4)
    asked.clear()
    same_params(run("stopped"), straight)
    assert asked == [(0, 2), (1, 2)]
