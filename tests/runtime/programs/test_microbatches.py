"""Microbatches: gradients and metrics of a batch in parts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import losses, models, trainer
from toy_run import Numbers
from trainer_kit import KEY, TINY, close, same_metrics

from tests.support import grids


class NoDropout:
    """Calls the model's loss without a key, so that parts of a batch add up."""

    def __init__(self, model):
        self._model = model

    def loss_fn(self, params, batch, dropout_rng):
        return self._model.loss_fn(params, batch, None)


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


@pytest.mark.parametrize("factor", grids.first(1, FACTORS))
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
    err = capfd.readouterr().err
    for part in (
        "4 microbatches", "LOSS_NORMALIZING_FACTOR = 'NUM_REAL_TARGET_TOKENS'",
        "trainer.Trainer.normalize_over_batch = True",
    ):  # fmt: skip
        assert (part in err) == warns


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
