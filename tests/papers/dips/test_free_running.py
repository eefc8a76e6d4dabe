"""The fraction of batches in which a decoder reads its own outputs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.dips import free_running, lstm

CONFIG = lstm.Config(
    vocab_size=17, emb_dim=5, hidden_dim=6, num_layers=2, bidirectional=True,
    dropout_rate=0.0,
)  # fmt: skip
BATCH = {
    "encoder_input_tokens": jnp.array([[5, 9, 2, 16, 1], [7, 1, 0, 0, 0]]),
    "decoder_input_tokens": jnp.array([[0, 4, 6, 1], [0, 2, 2, 15]]),
    "decoder_target_tokens": jnp.array([[4, 6, 1, 0], [2, 2, 15, 1]]),
    "decoder_loss_weights": jnp.array([[1.0, 1, 1, 0], [1, 1, 1, 1]]),
}


class Words:
    eos_id, vocab_size = 1, CONFIG.vocab_size


def model(teacher_forcing, **changes):
    module = lstm.Transducer(CONFIG.replace(**changes))
    return free_running.FreeRunningModel(
        module, Words(), Words(), None, teacher_forcing=teacher_forcing
    )


@pytest.fixture(scope="module")
def params():
    shapes = {name: BATCH[name].shape for name in BATCH}
    start = functools.partial(model(1.0).get_initial_variables, input_shapes=shapes)
    variables = jax.jit(start)(jax.random.PRNGKey(0))
    return jax.tree.map(lambda x: 4.0 * x, variables["params"])


@functools.cache
def computing(teacher_forcing):
    return jax.jit(model(teacher_forcing)._compute_logits)


def logits(params, teacher_forcing, key=3, batch=BATCH):
    compute = computing(teacher_forcing)
    return np.asarray(compute(params, batch, jax.random.PRNGKey(key)))


def test_the_free_decoder_reads_its_most_probable_words(params):
    found = logits(params, 0.0)
    inputs = np.zeros((2, 4), np.int32)
    for column in range(4):
        batch = {**BATCH, "decoder_input_tokens": jnp.asarray(inputs)}
        expected = logits(params, 1.0, batch=batch)
        np.testing.assert_allclose(found[:, column], expected[:, column], atol=1e-5)
        if column < 3:
            inputs[:, column + 1] = expected[:, column].argmax(-1)
    assert (inputs[:, 1:] != np.asarray(BATCH["decoder_input_tokens"])[:, 1:]).any()


def test_a_coin_for_every_batch(params):
    forced, free = logits(params, 1.0), logits(params, 0.0)
    kinds = []
    for key in range(40):
        found = logits(params, 0.75, key)
        kinds.append(np.allclose(found, forced, atol=1e-6))
        assert kinds[-1] or np.allclose(found, free, atol=1e-6)
    assert 20 < sum(kinds) < 40
    # Evaluation is always on the targets.
    loss, expected = (
        jax.jit(model(share).eval_fn)(params, BATCH)[0] for share in (0.0, 1.0)
    )
    assert loss == expected


def test_gradients_and_dropout_of_a_free_batch(params):
    def loss(params, key):
        dropping = model(0.0, dropout_rate=0.5)
        return dropping.loss_fn(params, BATCH, jax.random.PRNGKey(key))[0]

    values = jax.jit(jax.value_and_grad(loss))
    (one, grads), (other, _) = values(params, 1), values(params, 2)
    assert one != other
    assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(grads))


def test_no_probability():
    with pytest.raises(UserError, match=r"teacher_forcing = 1\.5: give a probability"):
        model(1.5)
