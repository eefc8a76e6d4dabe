"""Policy gradient on rewards: hand-computed parts, and training that raises rewards."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.dips import lstm, rewarded

CONFIG = lstm.Config(
    vocab_size=6, emb_dim=8, hidden_dim=16, num_layers=1, bidirectional=True,
    dropout_rate=0.1,
)  # fmt: skip
SOURCES = jnp.array([[3, 1, 0], [4, 1, 0], [5, 1, 0]])
LENGTH = 2


class Words:
    eos_id, vocab_size = 1, CONFIG.vocab_size


class Judge:
    """Scores a text as a paraphrase if it begins with the word of its source."""

    def match(self, params, sources, texts):
        return jnp.where(texts[:, 0] == sources[:, 0], params, -params)


def model(**options):
    judge = rewarded.Evaluator(Judge(), jnp.float32(3.0))
    return rewarded.RewardedModel(
        lstm.Transducer(CONFIG),
        Words(),
        Words(),
        None,
        **{"evaluator": judge} | options,
    )


# The targets teach the wrong word, so the rewards must dominate.
TARGETS = jnp.array([[4, 1], [5, 1], [3, 1]])
BATCH = {
    "encoder_input_tokens": SOURCES,
    "decoder_input_tokens": jnp.pad(TARGETS, ((0, 0), (1, 0)))[:, :-1],
    "decoder_target_tokens": TARGETS,
    "decoder_loss_weights": jnp.ones(TARGETS.shape),
}


@pytest.fixture(scope="module")
def params():
    shapes = {name: BATCH[name].shape for name in BATCH}
    start = functools.partial(model().get_initial_variables, input_shapes=shapes)
    return jax.jit(start)(jax.random.PRNGKey(0))["params"]


def expected_reward(own, params):
    """The expectation over all texts: a first word, then the end or another word."""
    total, mass = 0.0, 0.0
    log_prob = jax.jit(own._log_prob)
    for first, second in itertools.product(range(1, 6), range(6)):
        if (first == 1) != (second == 0):
            continue
        texts = jnp.tile(jnp.array([first, second]), (len(SOURCES), 1))
        chance = np.exp(log_prob(params, SOURCES, texts))
        total += chance * np.asarray(own.reward(SOURCES, texts))
        mass += chance
    np.testing.assert_allclose(mass, 1.0, atol=1e-4)
    return float(np.mean(total))


@pytest.mark.long
def test_it_raises_the_expected_reward(params):
    own = model(samples=4, likelihood_weight=0.01)
    optimizer = optax.adam(0.02)

    @jax.jit
    def step(params, state, key):
        grads, metrics = jax.grad(own.loss_fn, has_aux=True)(params, BATCH, key)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, metrics["reward"].compute()

    before, state = expected_reward(own, params), optimizer.init(params)
    rewards = []
    for number in range(150):
        params, state, reward = step(params, state, jax.random.PRNGKey(number))
        rewards.append(float(reward))
    after = expected_reward(own, params)
    assert before < 0.4 and after > 0.85
    assert np.mean(rewards[:5]) < 0.5 and np.mean(rewards[-20:]) > 0.8


@pytest.mark.long
def test_drawn_texts_have_the_chances_of_the_model(params):
    own = model()
    scaled = jax.tree.map(lambda x: 2.0 * x, params)
    sources = jnp.tile(SOURCES[:1], (6000, 1))
    texts = np.asarray(
        jax.jit(own.draw, static_argnums=2)(
            scaled, sources, LENGTH, jax.random.PRNGKey(3)
        )
    )
    assert (texts[texts[:, 0] == 1, 1] == 0).all() and (texts[:, 0] > 0).all()
    for text in ([3, 1], [4, 5], [1, 0]):
        chance = np.exp(own._log_prob(scaled, SOURCES[:1], jnp.array([text])))
        share = (texts == text).all(axis=1).mean()
        np.testing.assert_allclose(share, chance[0], atol=0.02)


def test_the_baseline_is_the_mean_of_the_others():
    own = model(samples=3)
    found = own._advantage(jnp.array([1.0, 0.0, 0.5, 0.2, 0.2, 0.2]))
    np.testing.assert_allclose(found, [0.75, -0.75, 0.0, 0.0, 0.0, 0.0], atol=1e-6)


def test_the_likelihood_has_its_weight(params):
    key = jax.random.PRNGKey(1)
    losses = [
        float(jax.jit(model(likelihood_weight=w).loss_fn)(params, BATCH, key)[0])
        for w in (0.0, 0.5, 1.0)
    ]
    assert losses[2] - losses[0] == pytest.approx(2 * (losses[1] - losses[0]), rel=1e-4)
    assert losses[2] - losses[0] > 1.0


def test_rejected_input(params):
    with pytest.raises(UserError, match="samples = 1: give 2 or more"):
        model(samples=1)
    with pytest.raises(UserError, match=r"likelihood_weight = -1: give 0 or more"):
        model(likelihood_weight=-1)
    with pytest.raises(UserError, match="evaluator is None: training needs one"):
        loss_fn = model(evaluator=None).loss_fn
        jax.eval_shape(loss_fn, params, BATCH, jax.random.PRNGKey(0))


def test_another_vocabulary_is_refused(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)

    class Named(Words):
        file = str(tmp_path / "a")

    judge = rewarded.Evaluator(Judge(), 1.0, str(tmp_path / "b"))
    with pytest.raises(UserError, match="the generator has .*, which is another one"):
        rewarded.RewardedModel(
            lstm.Transducer(CONFIG), Named(), Named(), None, evaluator=judge
        )
