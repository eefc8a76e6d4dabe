"""PerCVAE: inputs of each part, loss, annealing, and the effect of z on replies."""

import functools

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from t5x import decoding, optimizers, train_state
from t5x.training import step as training_step

from jaxaug.core.errors import UserError
from jaxaug_papers.pcc.dialogue import gru, percvae
from jaxaug_papers.pcc.dialogue.percvae_model import VariationalModel
from jaxaug_papers.pcc.dialogue.speakers import PARTNER, PERSONA, SELF

CONFIG = percvae.Config(
    vocab_size=24, markers=((20, PERSONA), (21, PARTNER), (22, SELF)), emb_dim=8,
    sentence_dim=6, context_dim=7, memory_dim=8, decoder_dim=16, latent_dim=4,
    bow_dim=12, hops=2,
)  # fmt: skip
NETWORK = percvae.Network(CONFIG)
INPUTS, TARGETS = 12, 5


class Words:
    """The interface of a vocabulary that the model uses."""

    eos_id = 1
    vocab_size = 24


def model(**options):
    greedy = functools.partial(decoding.temperature_sample, temperature=0.0)
    return VariationalModel(NETWORK, Words(), Words(), None, greedy, **options)


SHAPES = {
    "encoder_input_tokens": (2, INPUTS),
    "decoder_input_tokens": (2, TARGETS),
}


@functools.cache
def initial():
    variables = jax.eval_shape(
        lambda: model().get_initial_variables(jax.random.PRNGKey(0), SHAPES)
    )
    noise = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: (0.3 * noise.normal(size=x.shape)).astype(np.float32),
        dict(variables["params"]),
    )


def batch_of(rows):
    inputs = np.zeros((len(rows), INPUTS), np.int32)
    targets = np.zeros((len(rows), TARGETS), np.int32)
    for row, (source, target) in enumerate(rows):
        inputs[row, : len(source)] = source
        targets[row, : len(target)] = target
    return {
        "encoder_input_tokens": inputs,
        "decoder_input_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
        "decoder_target_tokens": targets,
        "decoder_loss_weights": (targets > 0).astype(np.int32),
    }


@functools.cache
def jitted(method, draws):
    def call(params, key, *args):
        rngs = {"latent": key} if draws else None
        return NETWORK.apply(
            {"params": params}, *args, enable_dropout=False, rngs=rngs, method=method
        )

    return jax.jit(call)


def condition(*sources):
    tokens = batch_of([(source, []) for source in sources])["encoder_input_tokens"]
    encoded = jitted("encode", False)(initial(), None, tokens)
    return np.asarray(encoded)[:, : -CONFIG.latent_dim]


FIRST = [20, 3, 4, 20, 5, 21, 6, 22, 7, 8, 21, 9]


def test_gru_equals_torch():
    layer = gru.Gru(3, 0.5)
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    reads = np.ones((2, 5), bool)
    params = layer.init(jax.random.PRNGKey(1), x, reads)["params"]
    theirs = torch.nn.GRU(4, 3, batch_first=True, bias=False)
    # torch's gates are reset, update, new; its reset gate multiplies h W, not h.
    into = np.array(params["input"]["kernel"])
    gates, new = (np.array(params[f"{name}_kernel"]) for name in ("gate", "new"))
    new[:] = np.diag(np.diag(new))  # Then the two are the same.
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(torch.from_numpy(into.T.copy()))
        hidden = np.concatenate([gates, new], axis=1).T.copy()
        theirs.weight_hh_l0.copy_(torch.from_numpy(hidden))
        expected = theirs(torch.from_numpy(x))[0].numpy()
    found, last = layer.apply({"params": {**params, "new_kernel": new}}, x, reads)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(last, expected[:, -1], atol=1e-6)
    # Unread positions keep the state, and forget positions reset it.
    reads[:, 3] = False
    forgets = np.zeros((2, 5), bool)
    forgets[:, 0] = True
    found, _ = layer.apply({"params": params}, x, reads, forgets)
    np.testing.assert_array_equal(found[:, 0], 0)
    np.testing.assert_array_equal(found[:, 3], found[:, 2])


def test_memory_and_context_read_their_parts():
    size = CONFIG.memory_dim
    base, persona, old, latest, order = condition(
        FIRST,
        [20, 3, 4, 20, 10, 21, 6, 22, 7, 8, 21, 9],
        [20, 3, 4, 20, 5, 21, 11, 22, 7, 8, 21, 9],
        [20, 3, 4, 20, 5, 21, 6, 22, 7, 8, 21, 10],
        [20, 3, 4, 20, 5, 21, 6, 22, 8, 7, 21, 9],
    )
    assert not np.allclose(persona[:size], base[:size])
    np.testing.assert_allclose(persona[size:], base[size:])
    # Only the last two utterances are read; the last one queries the memory.
    np.testing.assert_allclose(old, base)
    assert not np.allclose(latest[:size], base[:size])
    assert not np.allclose(latest[size:], base[size:])
    np.testing.assert_allclose(order[:size], base[:size])
    assert not np.allclose(order[size:], base[size:])
    # The order of traits does not affect the memory.
    swapped = condition([20, 5, 20, 3, 4, 21, 6, 22, 7, 8, 21, 9])[0]
    np.testing.assert_allclose(swapped, base, atol=1e-6)


def test_no_persona_and_padding():
    bare, padded = condition([21, 6, 7], [20, 21, 6, 7])
    np.testing.assert_allclose(bare, padded, atol=1e-6)
    assert np.isfinite(condition([20, 3], [21])).all()


def test_divergence():
    rng = np.random.default_rng(0)
    one, other = (
        percvae.Gaussian(*rng.normal(size=(2, 3, 4)).astype(np.float32))
        for _ in range(2)
    )

    def normal(gaussian):
        mean, log_variance = map(torch.from_numpy, gaussian)
        return torch.distributions.Normal(mean, (0.5 * log_variance).exp())

    kl = torch.distributions.kl_divergence(normal(one), normal(other)).sum(-1)
    np.testing.assert_allclose(percvae.divergence(one, other), kl, rtol=1e-5)
    np.testing.assert_allclose(percvae.divergence(one, one), 0, atol=1e-6)


ROWS = [(FIRST, [12, 13, 1]), ([20, 3, 21, 9, 1], [14, 1]), ([], [])]


def test_loss_is_the_bound_and_the_bag():
    params, batch = initial(), batch_of(ROWS)
    variational = model(full_kl_steps=10, bow_weight=0.5)
    args = [batch[f"{n}_tokens"] for n in ("encoder_input", "decoder_input")]
    targets = batch["decoder_target_tokens"]
    outcome = jitted("reconstruct", False)(params, None, *args, targets)
    weights = batch["decoder_loss_weights"]

    def cross_entropy(logits):
        logs = jax.nn.log_softmax(logits)
        if logs.ndim == 2:
            return -np.sum(np.take_along_axis(np.asarray(logs), targets, 1) * weights)
        return -np.sum(
            np.take_along_axis(np.asarray(logs), targets[..., None], 2)[..., 0]
            * weights
        )

    kl = float(outcome.divergence[:2].sum())
    words, bag = cross_entropy(outcome.logits), cross_entropy(outcome.bag_logits)
    loss, found = jax.jit(variational.eval_fn)(params, batch)
    assert float(loss) == pytest.approx(words + kl + 0.5 * bag, rel=1e-5)
    assert found["kl"].compute() == pytest.approx(kl / 2, rel=1e-5)
    assert found["bow_loss"].compute() == pytest.approx(bag / 5, rel=1e-5)
    assert found["cross_ent_loss"].compute() == pytest.approx(words, rel=1e-5)
    # The score covers the loss except for the divergence from the prior.
    score = jax.jit(variational.score_batch)(params, batch)
    assert score.shape == (3,) and float(score[2]) == 0


def toy(rng, rows):
    """Replies have one of four first words, so that z carries information."""
    topics = rng.integers(2, 6, rows)
    kinds = rng.integers(0, 4, rows)
    return batch_of(
        [
            ([20, topic, 21, 19, 1], [10 + kind, 4 + topic, 14 + kind, 1])
            for topic, kind in zip(topics.tolist(), kinds.tolist(), strict=True)
        ]
    )


@functools.cache
def trained():
    """The train step of the runtime trains the model and carries the update count."""
    variational = model(full_kl_steps=120, loss_normalizing_factor=24.0)
    optimizer = optimizers.OptaxWrapper(optax.adam(1e-2))
    variables = jax.jit(
        lambda: variational.get_initial_variables(jax.random.PRNGKey(0), SHAPES)
    )()
    variables = {**variables, "params": initial()}
    state = train_state.FlaxOptimTrainState.create(optimizer, variables)

    @jax.jit
    def step(state, batch, key):
        grads, found, mutables = training_step.accumulate_grads_microbatched(
            variational, state, batch, key, None
        )
        return state.apply_gradient(grads, 0.0, flax_mutables=mutables), found

    rng, seen = np.random.default_rng(1), []
    for number in range(160):
        key = jax.random.fold_in(jax.random.PRNGKey(2), number)
        state, found = step(state, toy(rng, 24), key)
        seen.append({n: float(found[n].compute()) for n in ("kl", "kl_weight")})
        seen[-1]["words"] = float(found["cross_ent_loss"].compute())
    return variational, state, seen


@pytest.mark.long
def test_it_learns_and_the_latent_variable_is_used():
    _, state, seen = trained()
    assert seen[-1]["words"] < 0.5 * seen[0]["words"]
    assert np.mean([one["kl"] for one in seen[-20:]]) > 0.3
    weights = [one["kl_weight"] for one in seen]
    assert weights[0] == 0 and weights[60] == pytest.approx(0.5) and weights[-1] == 1
    assert int(state.flax_mutables["annealing"]["step"]) == 160


@pytest.mark.long
def test_replies_differ_with_z():
    variational, state, _ = trained()
    batch = batch_of([([20, 3, 21, 19, 1], [12, 7, 14, 1])] * 16)
    predict = jax.jit(variational.predict_batch)
    replies = np.asarray(predict(state.params, batch, jax.random.PRNGKey(5)))
    assert len({tuple(row) for row in replies.tolist()}) > 1
    again = np.asarray(predict(state.params, batch, jax.random.PRNGKey(5)))
    np.testing.assert_array_equal(replies, again)
    mean = np.asarray(predict(state.params, batch))
    assert len({tuple(row) for row in mean.tolist()}) == 1


@pytest.mark.long
def test_greedy_steps_equal_the_whole_reply():
    variational, state, _ = trained()
    batch = toy(np.random.default_rng(4), 6)
    found = np.asarray(jax.jit(variational.predict_batch)(state.params, batch))
    fed = {**batch, "decoder_input_tokens": np.pad(found, ((0, 0), (1, 0)))[:, :-1]}
    logits = jax.jit(variational._compute_logits)(state.params, fed)
    np.testing.assert_array_equal(np.argmax(logits, -1)[:, :3], found[:, :3])


def test_variables_have_axes_and_a_counter():
    variables = jax.eval_shape(
        lambda: model().get_initial_variables(jax.random.PRNGKey(0), SHAPES)
    )
    assert set(variables) == {
        "params",
        "params_axes",
        "annealing",
        "annealing_axes",
    }
    state = train_state.InferenceState.create(variables)
    assert flax.core.unfreeze(state.as_logical_axes().flax_mutables) == {
        "annealing": {"step": jax.sharding.PartitionSpec()}
    }
    assert state.flax_mutables["annealing"]["step"].dtype == jnp.int32  # fmt: skip


def test_refused():
    with pytest.raises(UserError, match="full_kl_steps = -1: give 0 or more"):
        model(full_kl_steps=-1)
    with pytest.raises(UserError, match="pack = False"):
        NETWORK.apply(
            {"params": initial()},
            np.ones((1, 3), np.int32),
            np.ones((1, 3), np.int32),
            method="encode",
        )
