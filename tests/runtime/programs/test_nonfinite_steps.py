"""Losses, gradients, and parameters that are not finite."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars
from t5x import checkpoints, trainer, utils
from t5x.errors import UserError
from toy_run import Numbers, TinyModel, same_params

from tests.support import grids


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


def test_a_nan_loss_ends_the_run_and_keeps_the_good_checkpoint(
    run_train, tmp_path, poisoned
):
    message = (
        rf"nan at step 7\. .* checkpoint is {tmp_path}/run/checkpoint_4\. .* "
        r"decoder_input_tokens int32\[4, 6\], .*Trainer.max_skipped_steps = N"
    )
    with pytest.raises(UserError, match=message):
        run_train(tmp_path / "run", **poisoned(6), steps=16)
    assert checkpoints.all_steps(tmp_path / "run") == [4]
    # After the cause is removed, the run continues from there.
    _, mended = run_train(tmp_path / "run", steps=16)
    _, straight = run_train(tmp_path / "straight", steps=16)
    same_params(mended, straight)


def test_a_nan_in_the_last_steps_ends_the_run_without_checkpoints_too(
    run_train, tmp_path, poisoned
):
    none = utils.CheckpointConfig()
    with pytest.raises(UserError, match=f"nan at step 8.*{tmp_path} holds no checkp"):
        run_train(tmp_path, **poisoned(7), steps=8, checkpoint_cfg=none)


def test_parameters_that_are_not_finite_are_not_saved(run_train, tmp_path, poisoned):
    with pytest.raises(UserError, match="not finite after step 8: kernel.*point_4"):
        run_train(tmp_path, **poisoned(7, gradient_only=True), steps=8)
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


def test_a_start_that_is_not_finite(run_train, tmp_path):
    class Broken(TinyModel):
        def get_initial_variables(self, *args, **kwargs):
            variables = super().get_initial_variables(*args, **kwargs)
            params = {**variables["params"]}
            params["kernel"] = params["kernel"] * jnp.nan
            return {**variables, "params": params}

    with pytest.raises(UserError, match="at step 0: kernel.*RestoreCheckpointConfig.p"):
        run_train(tmp_path, model=Broken())


def skipping(number):
    return functools.partial(
        trainer.Trainer,
        learning_rate_fn=lambda step: 0.01,
        num_microbatches=None,
        max_skipped_steps=number,
    )


@pytest.mark.parametrize("gradient_only", grids.first(1, [True, False]))
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
    settings = {**poisoned(5, 6, 7), "trainer_cls": skipping(2)}
    message = rf"3 steps .*step 8; Trainer.max_skipped_steps = 2\..*{tmp_path}/checkp"
    with pytest.raises(UserError, match=message):
        run_train(tmp_path, **settings, steps=12, period=4)
