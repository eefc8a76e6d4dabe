"""The trainer: gradients, keys, and metrics."""

import types

import clu.metrics
import clu.values
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars
from t5x import metrics as metrics_lib
from t5x import trainer
from t5x.training import step
from toy_run import Numbers
from trainer_kit import TINY, close


def test_flax_mutables_go_through_the_step(state):
    class WithMutables:
        def loss_fn(self, params, batch, rng, mutables):
            loss = jnp.sum(params["kernel"]) * jnp.sum(batch["x"])
            metrics = metrics_lib.create_metrics_dict({"loss": loss})
            return loss, (metrics, {"count": mutables["count"] + 1})

    with_mutables = state.replace_flax_mutables({"count": jnp.zeros(())})
    for parts, expected in ((None, 1.0), (2, 2.0)):
        _, metrics, mutables = trainer.accumulate_grads_microbatched(
            WithMutables(),
            with_mutables,
            {"x": jnp.ones((4, 1))},
            jax.random.PRNGKey(0),
            parts,
        )
        assert float(mutables["count"]) == expected
        np.testing.assert_allclose(
            metrics["loss"].total, 4 * jnp.sum(state.params["kernel"]), rtol=1e-5
        )


def test_the_dropout_key_is_folded_from_the_absolute_step(make_trainer):
    """The second of two steps equals one step from its state with fold_in(rng, 1)."""
    t = make_trainer()
    batches = Numbers()
    t.train(batches, 1, start_step=0).result()
    before = jax.tree.map(jnp.copy, t.train_state)
    t.train(batches, 1).result()
    key = jax.random.fold_in(jax.random.PRNGKey(3), 1)
    batch = Numbers()
    batch.position = 1
    expected, _ = jax.jit(
        lambda s, b: trainer.train_with_lr(s, b, 1.0, key, TINY, None)
    )(before, next(batch))
    close(t.train_state.params, expected.params, rtol=1e-5, atol=1e-6)


def test_train_metrics_are_averages_over_the_interval(make_trainer, tmp_path):
    t = make_trainer()
    losses = []
    for _ in range(3):
        losses.append(float(t.train(Numbers(), 1).result()["loss"].value))
    t.close()
    t = make_trainer()
    repeated = iter([next(Numbers())] * 3)
    summary = t.train(repeated, 3).result()
    np.testing.assert_allclose(summary["loss"].value, np.mean(losses), rtol=1e-5)
    assert float(summary["learning_rate"].value) == pytest.approx((0.5 + 1.0 + 1.5) / 3)
    assert float(summary["learning_rate/current"].value) == 1.5
    assert float(summary["timing/seqs"].value) == 12
    rate = float(summary["timing/steps_per_second"].value)
    assert rate * float(summary["timing/seconds"].value) == pytest.approx(3)
    t.close()
    written = read_scalars(tmp_path / "train")
    assert written["loss"][3] == pytest.approx(np.mean(losses), rel=1e-5)
    assert "timing/uptime" in written


def test_several_steps_in_one_call_are_the_same_steps(make_trainer):
    """7 steps: two calls of three and one step, compared with seven single steps."""
    states, summaries = [], []
    for count in (1, 3):
        made = make_trainer(steps_per_call=count)
        batches = Numbers()
        made.compile_train(next(Numbers()))
        calls = []
        advance = made._advance
        made._advance = lambda s, b, *rest, to=calls, by=advance: (
            to.append(len(b)),
            by(s, b, *rest),
        )[1]
        summary = made.train(batches, 7, start_step=0).result()
        assert calls == ([1] * 7 if count == 1 else [3, 3, 1])
        assert batches.position == 7
        states.append(made.train_state)
        summaries.append({n: v.value for n, v in summary.items() if "/" not in n})
        losses_read = [
            float(getattr(loss() if callable(loss) else loss, "total", loss))
            for _, loss, _ in made.watch._windows[-1].steps
        ]
        summaries[-1]["each loss"] = losses_read
        assert [n for n, _, _ in made.watch._windows[-1].steps] == [*range(1, 8)]
    jax.tree.map(np.testing.assert_array_equal, *states)
    timed = [name for name in summaries[0] if "second" in name or "timing" in name]
    for name in summaries[0].keys() - set(timed):
        np.testing.assert_array_equal(summaries[0][name], summaries[1][name], name)


def test_small_models_take_several_steps_in_a_call(make_trainer, monkeypatch):
    assert make_trainer().steps_per_call == 10
    assert make_trainer(steps_per_call=1).steps_per_call == 1

    class Own(trainer.Trainer):
        _partitioned_train_step = property(lambda self: None)

    assert make_trainer(cls=Own).steps_per_call == 1
    large = {"base": np.broadcast_to(np.float32(0), step.SMALL)}
    assert make_trainer(mutables=large).steps_per_call == 1
    monkeypatch.setattr(step, "SMALL", 100)
    assert make_trainer().steps_per_call == 1


def test_two_steps_at_most_are_queued(make_trainer, monkeypatch):
    """A stopped run would otherwise wait for all queued steps."""
    made = make_trainer(steps_per_call=1)
    advance, wait, events, results = made._advance, jax.block_until_ready, [], []

    def spy(*arguments):
        events.append(f"queue {len(results)}")
        results.append(advance(*arguments))
        return results[-1]

    def waits(values):
        known = [number for number, each in enumerate(results) if each[1] is values]
        events.extend(f"wait for {number}" for number in known)
        return wait(values)

    monkeypatch.setattr(made, "_advance", spy)
    monkeypatch.setattr(jax, "block_until_ready", waits)
    made.train(Numbers(), 4, 0).result()
    assert events[:6] == [
        "queue 0", "queue 1", "wait for 0", "queue 2", "wait for 1", "queue 3",
    ]  # fmt: skip


def test_several_steps_are_watched_one_by_one(make_trainer):
    """A non-finite loss is found at its own step, inside a call."""
    made = make_trainer(steps_per_call=4)
    batches = [next(Numbers()) for _ in range(4)]
    weights = batches[2]["decoder_loss_weights"]
    batches[2] = batches[2] | {"decoder_loss_weights": weights * np.nan}
    made.train(iter(batches), 4, start_step=10)
    assert made.watch.find() == "The training loss is nan at step 13"


def test_an_interruption_keeps_the_finished_steps(make_trainer, tmp_path):
    t = make_trainer()
    t.preempted = lambda step: step == 2
    with pytest.raises(trainer.PreemptionError, match="after step 2"):
        t.train(Numbers(), 5)
    assert int(t.train_state.step) == 2
    t.close()
    assert list(read_scalars(tmp_path / "train")["loss"]) == [2]


def test_eval_averages_over_batches(make_trainer, tmp_path):
    t = make_trainer()
    source = Numbers()
    batches = [next(source) for _ in range(3)]
    name = "a" * 120
    t.compile_eval({name: batches[0], "b": batches[0]})
    found = t.eval({name: batches, "b": batches[:1]})
    expected = [float(TINY.eval_fn(t.train_state.params, b)[0]) for b in batches]
    assert float(found[name]["loss"].value) == pytest.approx(
        np.mean(expected), rel=1e-5
    )
    assert float(found["b"]["loss"].value) == pytest.approx(expected[0], rel=1e-5)
    t.close()
    folder = tmp_path / "training_eval" / ("a" * 113)
    assert read_scalars(folder)["loss"][0] == pytest.approx(np.mean(expected), rel=1e-5)


def test_eval_without_batches(make_trainer):
    with pytest.raises(ValueError, match="'b' has no batch"):
        make_trainer().eval({"b": []})


def test_weight_metrics(make_trainer):
    t = make_trainer(weight_metrics_computer=trainer.WeightMetricsComputer())
    before = np.asarray(t.train_state.params["kernel"]).copy()
    summary = t.train(Numbers(), 1).result()
    after = np.asarray(t.train_state.params["kernel"])
    rms = lambda x: np.sqrt(np.mean(np.square(x)))
    values = {k: float(v.value) for k, v in summary.items() if k.startswith("weight_")}
    assert values["weight_rms/kernel"] == pytest.approx(rms(after), rel=1e-4)
    assert values["weight_max/kernel"] == pytest.approx(np.abs(after).max(), rel=1e-4)
    assert values["weight_update_rms/kernel"] == pytest.approx(
        rms(after - before), rel=1e-3
    )
    assert values["weight_gradient_norm"] > 0
    assert "weight_update_divided_by_weight_rms/embedding" in values
    assert "weight_gradient_rms/embedding" in values


def test_the_relative_update_of_a_weight_that_was_zero_counts_as_zero():
    before, after = np.array([0.0, 0.0, 2.0, 4.0]), np.array([0.0, 1.0, 3.0, 2.0])
    states = [
        types.SimpleNamespace(params={"w": jnp.array(x)}) for x in (before, after)
    ]
    found = trainer.WeightMetricsComputer().compute_metrics({"w": after}, *states)
    relative = found["weight_update_divided_by_weight_rms/w"].compute()
    np.testing.assert_allclose(relative, np.sqrt(np.mean([0, 0, 0.25, 0.25])))


def test_scalars_texts_and_histograms_reach_the_file(tmp_path):
    manager = trainer.MetricsManager("x", str(tmp_path))
    manager.write_scalar("a/b", jnp.float32(1.5), jnp.int32(3))
    manager.summary_writer.write_texts(3, {"config": "# text"})
    manager.summary_writer.write_histograms(3, {"h": np.arange(10.0)})
    manager.summary_writer.write_images(3, {"i": np.zeros((4, 4, 3), np.float32)})
    with pytest.raises(TypeError, match="cannot write videos"):
        manager.summary_writer.write_videos(3, {"v": np.zeros(1)})
    manager.close()
    assert read_scalars(tmp_path / "x") == {"a/b": {3: 1.5}}
    data = next((tmp_path / "x").glob("*tfevents*")).read_bytes()
    assert b"config" in data and b"# text" in data


def test_an_error_while_writing_is_not_lost(tmp_path):
    class Broken(clu.metrics.Metric):
        def compute(self):
            raise RuntimeError("cannot compute")

    manager = trainer.MetricsManager("x", None)
    manager.write_metrics_summary({"m": Broken()}, 1, 1)
    with pytest.raises(RuntimeError, match="cannot compute"):
        manager.flush()
    manager.close()
