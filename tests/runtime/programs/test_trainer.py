"""The trainer: gradients, keys, metrics, and actions."""

import functools
import re
import types

import clu.metrics
import clu.values
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars
from t5x import losses, models, partitioning, trainer
from t5x import metrics as metrics_lib
from t5x.checkpoint import state_init
from t5x.errors import UserError
from t5x.training import several_steps
from toy_run import Numbers, TinyModel, same_params

TINY = TinyModel()
KEY = jax.random.PRNGKey(1)


def close(a, b, rtol=1e-4, atol=1e-5):
    """Asserts that two trees hold nearly the same numbers."""
    same = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)
    jax.tree.map(same, a, b)


def same_metrics(found, expected):
    close(found["loss"].total, expected["loss"].total)
    for name in ("accuracy", "loss_per_nonpadding_target_token"):
        close(found[name].compute(), expected[name].compute())


class NoDropout:
    """Calls the model's loss without a key, so that parts of a batch add up."""

    def __init__(self, model):
        self._model = model

    def loss_fn(self, params, batch, dropout_rng):
        return self._model.loss_fn(params, batch, None)


@pytest.fixture
def state():
    return make_state(TINY, Numbers())


def make_state(model, batches):
    return make_initializer(model, batches).from_scratch(jax.random.PRNGKey(0))


def make_initializer(model, batches):
    spec = batches.element_spec
    return state_init.TrainStateInitializer(
        model.optimizer_def,
        model.get_initial_variables,
        {k: v.shape for k, v in spec.items()},
        partitioning.PjitPartitioner(num_partitions=1),
        {k: v.dtype for k, v in spec.items()},
    )


@pytest.fixture
def make_trainer(tmp_path):
    made = []

    def make(
        num_microbatches=None,
        model=TINY,
        cls=trainer.Trainer,
        mutables=None,
        **settings,
    ):
        initializer = make_initializer(TINY, Numbers())
        state = initializer.from_scratch(jax.random.PRNGKey(0))
        made.append(
            cls(
                model=model,
                train_state=state.replace(flax_mutables=mutables)
                if mutables
                else state,
                partitioner=partitioning.PjitPartitioner(num_partitions=1),
                eval_names=["a" * 120, "b"],
                summary_dir=str(tmp_path),
                train_state_axes=initializer.train_state_axes,
                rng=jax.random.PRNGKey(3),
                learning_rate_fn=lambda step: 0.5 * (step + 1.0),
                num_microbatches=num_microbatches,
                **settings,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("parts", [2, 4])
def test_microbatches_add_up_to_the_batch(state, parts):
    model, batch = NoDropout(TINY), next(Numbers())

    def run(number):
        return jax.jit(
            lambda s: trainer.accumulate_grads_microbatched(
                model, s, batch, KEY, number
            )
        )(state)

    whole, whole_metrics, _ = run(None)
    summed, metrics, mutables = run(parts)
    assert mutables is None
    assert {x.dtype for x in jax.tree.leaves(summed)} == {jnp.dtype("float32")}
    close(summed, whole)
    assert float(jnp.abs(summed["embedding"]).max()) > 0.1
    same_metrics(metrics, whole_metrics)


class Normalized(NoDropout):
    """Divides the loss of the tiny model by a factor that depends on the batch."""

    def __init__(self, model, factor):
        super().__init__(model)
        self._loss_normalizing_factor = factor

    def loss_fn(self, params, batch, dropout_rng):
        targets = batch["decoder_target_tokens"]
        logits = self._model.logits(params, batch)
        factor, weights = losses.get_loss_normalizing_factor_and_weights(
            self._loss_normalizing_factor, batch
        )
        loss, _, _ = losses.compute_weighted_cross_entropy(
            logits, targets, weights, loss_normalizing_factor=factor
        )
        metrics = models.compute_base_metrics(logits, targets, weights, loss, 0.0)
        return loss, metrics


FACTORS = ["NUM_REAL_TARGET_TOKENS", "NUM_TOTAL_TARGET_TOKENS", "AVERAGE_PER_SEQUENCE"]


@pytest.mark.parametrize("factor", FACTORS)
def test_a_special_factor_of_the_parts_or_of_the_batch(state, factor):
    model = Normalized(TINY, factor)
    # Parts of 7 and 11 tokens.
    lengths = np.array([[3], [4], [5], [6]])
    batch = next(Numbers()) | {"decoder_loss_weights": np.arange(6) < lengths}
    batch["decoder_loss_weights"] = batch["decoder_loss_weights"].astype(np.float32)

    def run(batch, number, **settings):
        return jax.jit(
            lambda batch: trainer.accumulate_grads_microbatched(
                model, state, batch, KEY, number, **settings
            )[:2]
        )(batch)

    whole, whole_metrics = run(batch, None)
    once, metrics = run(batch, 2, normalize_over_batch=True)
    close(once, whole, atol=1e-6)
    same_metrics(metrics, whole_metrics)
    # As in T5X: the sum of the parts, each with its own factor.
    parts = [
        run({k: v[rows : rows + 2] for k, v in batch.items()}, None)[0]
        for rows in (0, 2)
    ]
    summed, _ = run(batch, 2)
    close(summed, jax.tree.map(jnp.add, *parts), atol=1e-6)
    norm = lambda tree: float(jnp.linalg.norm(tree["kernel"]))
    assert 1.5 < norm(summed) / norm(whole) < 2.5
    assert model._loss_normalizing_factor == factor


@pytest.mark.parametrize("factor", FACTORS)
def test_a_part_without_target_tokens_contributes_nothing(state, factor):
    model = Normalized(TINY, factor)
    batch = next(Numbers())
    weights = np.ones((4, 6), np.float32)
    weights[2:] = 0
    batch |= {"decoder_loss_weights": weights}

    def grads(batch, number):
        return trainer.accumulate_grads_microbatched(model, state, batch, KEY, number)[
            0
        ]

    first = grads({k: v[:2] for k, v in batch.items()}, None)
    close(grads(batch, 2), first, atol=1e-6)
    empty = grads({k: v[2:] for k, v in batch.items()}, None)
    assert not any(np.any(x) for x in jax.tree.leaves(empty))


@pytest.mark.parametrize(
    ("factor", "parts", "once", "warns"),
    [
        ("num_real_target_tokens", 4, False, True),
        ("NUM_REAL_TARGET_TOKENS", 4, True, False),
        ("NUM_REAL_TARGET_TOKENS", None, False, False),
        (None, 4, False, False),
        (2.0, 4, False, False),
    ],
)
def test_a_special_factor_and_parts_are_announced(
    make_trainer, capfd, factor, parts, once, warns
):
    make_trainer(parts, model=Normalized(TINY, factor), normalize_over_batch=once)
    message = (
        "warning: the loss of each of the 4 microbatches is divided by its own "
        "LOSS_NORMALIZING_FACTOR = 'NUM_REAL_TARGET_TOKENS', as in T5X, so loss and "
        "gradients are about 4 times those of the whole batch; "
        "trainer.Trainer.normalize_over_batch = True takes the factor of the whole "
        "batch.\n"
    )
    assert capfd.readouterr().err == (message if warns else "")


@pytest.mark.parametrize("factor", FACTORS)
def test_a_trainer_normalizes_over_the_batch(make_trainer, factor):
    model = Normalized(TINY, factor)
    states = []
    for parts in (None, 2):
        t = make_trainer(parts, model=model, normalize_over_batch=True)
        t.train(Numbers(), 1).result()
        states.append(t.train_state)
    close(*states, rtol=1e-3)


@pytest.mark.parametrize("number", [-1, 1.5])
def test_numbers_of_skipped_steps_that_are_none(make_trainer, number):
    with pytest.raises(UserError) as caught:
        make_trainer(max_skipped_steps=number)
    assert str(caught.value) == (
        f"Trainer.max_skipped_steps = {number}: give a whole number of at least 0."
    )


def test_microbatches_use_keys_split_from_the_step_key(state):
    batch, key = next(Numbers()), jax.random.PRNGKey(5)
    grads, _, _ = trainer.accumulate_grads_microbatched(
        TINY, state, batch, key, num_microbatches=2
    )
    expected, rng = jax.tree.map(jnp.zeros_like, state.params), key
    for part in range(2):
        rng, part_key = jax.random.split(rng)
        rows = {k: v[part * 2 : part * 2 + 2] for k, v in batch.items()}
        loss = functools.partial(TINY.loss_fn, batch=rows, dropout_rng=part_key)
        grad, _ = jax.grad(loss, has_aux=True)(state.params)
        expected = jax.tree.map(jnp.add, expected, grad)
    close(grads, expected)


def test_a_batch_that_does_not_divide(state):
    with pytest.raises(
        ValueError, match=r"Batch size \(4\) must be divisible .* \(3\)"
    ):
        trainer.accumulate_grads_microbatched(
            TINY, state, next(Numbers()), jax.random.PRNGKey(0), 3
        )


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


def test_compiled_and_uncompiled_steps_agree(make_trainer):
    plain, compiled = make_trainer(), make_trainer()
    compiled.compile_train(next(Numbers()))
    plain.train(Numbers(), 2).result()
    compiled.train(Numbers(), 2).result()
    same_params(plain.train_state, compiled.train_state)


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
    large = {"base": np.broadcast_to(np.float32(0), several_steps.SMALL)}
    assert make_trainer(mutables=large).steps_per_call == 1
    monkeypatch.setattr(several_steps, "SMALL", 100)
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


# ---- actions ----


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "up"}, "mode = 'up'"),
        ({"mode": "min", "atol": -1}, "atol = -1"),
        ({"mode": "min", "rtol": -1}, "rtol = -1"),
        ({"mode": "min", "compare_to": "x"}, "compare_to = 'x'"),
    ],
)
def test_early_stopping_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        trainer.EarlyStoppingAction(("task", "metric"), **settings)
