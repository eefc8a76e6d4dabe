"""The evaluator of paraphrases: its negative examples and its training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.dips import matching

CONFIG = matching.Config(vocab_size=20, emb_dim=16, hidden_dim=32, dropout_rate=0.0)


class Words:
    eos_id, vocab_size = 1, CONFIG.vocab_size


def model():
    return matching.MatchingModel(matching.Matcher(CONFIG), Words(), Words(), None)


def toy(rows, seed):
    """Returns three words, and the words with the same numbers in another list."""
    rng = np.random.default_rng(seed)
    words = np.stack([rng.permutation(8)[:3] + 3 for _ in range(rows)])
    ends = np.tile([1, 0], (rows, 1))
    return {
        "encoder_input_tokens": jnp.asarray(np.concatenate([words, ends], axis=1)),
        "decoder_target_tokens": jnp.asarray(np.concatenate([words + 8, ends], axis=1)),
    }


def initial(batch):
    shapes = {name: array.shape for name, array in batch.items()}
    start = functools.partial(model().get_initial_variables, input_shapes=shapes)
    return jax.jit(start)(jax.random.PRNGKey(0))["params"]


@pytest.mark.long
def test_it_learns_to_separate():
    own, params = model(), initial(toy(2, 0))
    optimizer = optax.adam(0.01)

    @jax.jit
    def step(params, state, batch, key):
        grads, _ = jax.grad(own.loss_fn, has_aux=True)(params, batch, key)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state

    evaluate = jax.jit(own.eval_fn)
    held_out, state = toy(100, 1), optimizer.init(params)
    _, before = evaluate(params, held_out)
    for number in range(250):
        key = jax.random.PRNGKey(number)
        params, state = step(params, state, toy(32, number + 2), key)
    _, after = evaluate(params, held_out)
    assert before["accuracy"].compute() < 0.6
    assert after["accuracy"].compute() > 0.8
    assert after["match/pairs"].compute() > 0.4 + after["match/others"].compute()
    # The score depends on word order and is a log probability.
    source = held_out["encoder_input_tokens"][:40]
    target = held_out["decoder_target_tokens"][:40]
    turned = target[:, jnp.array([2, 0, 1, 3, 4])]
    score = own.score_batch(
        params, {"encoder_input_tokens": source, "decoder_target_tokens": target}
    )
    match = jax.jit(own.match)
    logits = match(params, source, target)
    np.testing.assert_allclose(score, jnp.log(jax.nn.sigmoid(logits)), atol=1e-4)
    assert np.mean(logits > match(params, source, turned)) > 0.7


def test_padding_does_not_count():
    batch = toy(4, 5)
    params = initial(batch)
    left, right = batch.values()
    wider = [jnp.pad(side, ((0, 0), (0, 3))) for side in (left, right)]
    match = jax.jit(model().match)
    np.testing.assert_allclose(
        match(params, *wider), match(params, left, right), atol=1e-5
    )


def test_invalid_paraphrases():
    targets = toy(6, 3)["decoder_target_tokens"]
    other, mixed, shuffled = matching.others(targets, jax.random.PRNGKey(2))
    for row in range(6):
        assert other[row].tolist() in [t.tolist() for t in np.delete(targets, row, 0)]
    where = (mixed == targets) | (mixed == other)
    assert where.all() and (mixed != targets).any() and (mixed != other).any()
    np.testing.assert_array_equal(np.sort(shuffled, 1), np.sort(targets, 1))
    np.testing.assert_array_equal(shuffled[:, 3:], targets[:, 3:])
    assert (shuffled != targets).any()


def test_rejected_input():
    batch = toy(1, 0)
    params = jax.eval_shape(lambda: initial(batch))
    with pytest.raises(UserError, match="give batches of two pairs or more"):
        jax.eval_shape(model().loss_fn, params, batch, None)
    with pytest.raises(UserError, match="judges texts and writes none"):
        model().predict_batch(params, batch)
