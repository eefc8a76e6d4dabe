"""VAE-SVG: a hand-computed bound, and a toy task with two paraphrases per source."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxaug.core.errors import UserError
from jaxaug.models.text import registry
from jaxaug.paraphrase import decoder, samplers
from jaxaug_papers.dips import vae_svg
from tests.support import compiled

CONFIG = vae_svg.Config(
    vocab_size=12, emb_dim=8, hidden_dim=16, latent_dim=2, num_layers=2,
    dropout_rate=0.0, embedding_range=1.0,
)  # fmt: skip


class Words:
    eos_id, unk_id, vocab_size = 1, 2, CONFIG.vocab_size

    def encode(self, text):
        return [int(word) for word in text.split()]

    def decode(self, tokens):
        return " ".join(str(token) for token in tokens if token > 1)


def model(**options):
    network = vae_svg.Network(CONFIG)
    return vae_svg.VaeModel(network, Words(), Words(), None, **options)


def batch_of(sources, targets):
    targets = jnp.asarray(targets)
    return {
        "encoder_input_tokens": jnp.asarray(sources),
        "decoder_input_tokens": jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1],
        "decoder_target_tokens": targets,
        "decoder_loss_weights": (targets > 0).astype(jnp.float32),
    }


# Sources 5 to 8; what follows the source's own word in a paraphrase is 10 or 11.
TOY = batch_of(
    [[n, 1, 0] for n in (5, 6, 7, 8) for _ in (0, 1)],
    [[n, last, 1, 0] for n in (5, 6, 7, 8) for last in (10, 11)],
)


def initial(own):
    shapes = {name: TOY[name].shape for name in TOY}
    start = functools.partial(own.get_initial_variables, input_shapes=shapes)
    return jax.jit(start)(jax.random.PRNGKey(0))


@pytest.fixture(scope="module")
def trained():
    own = model(anneal_steps=600, word_dropout=0.3, free_bits=1.0)
    variables = initial(own)
    params, mutables = variables["params"], {"annealing": variables["annealing"]}
    optimizer = optax.adam(0.03)

    @jax.jit
    def step(params, mutables, state, key):
        grads, (metrics, mutables) = jax.grad(own.loss_fn, has_aux=True)(
            params, TOY, key, mutables
        )
        updates, state = optimizer.update(grads, state)
        kept = {name: metrics[name].compute() for name in ("kl", "kl_weight")}
        return optax.apply_updates(params, updates), mutables, state, kept

    state, history = optimizer.init(params), []
    for number in range(260):
        params, mutables, state, kept = step(
            params, mutables, state, jax.random.PRNGKey(number)
        )
        history.append(kept)
    return own, params, mutables, history


@pytest.mark.long
def test_its_vector_selects_one_of_both_paraphrases(trained):
    own, params, mutables, history = trained
    _, metrics = jax.jit(own.eval_fn)(params, TOY, mutables)
    assert metrics["accuracy"].compute() == 1.0
    assert metrics["kl"].compute() > 0.6  # One of two is 0.69 nats.
    assert [round(float(h["kl_weight"]), 4) for h in history[:2]] == [0.0017, 0.0033]
    assert history[-1]["kl_weight"] == pytest.approx(260 / 600)
    assert mutables["annealing"]["step"] == 260


def outputs(params, name, num, texts, **options):
    words = Words()
    own = registry.TextModel("toy", vae_svg.Network(CONFIG), params, words, words, True)
    sampler = samplers.find(name)
    decode = decoder.Decoder(
        own,
        sampler.build(num, sampler.complete(options)),
        num=num,
        max_length=4,
        seed=0,
    )
    sequences = [own.encode(text) for text in texts]
    places = tuple(range(len(texts)))
    found = decode.batch(sequences, decoder.Batch(places, len(texts), 3))
    return [[one.text for one in one_input] for one_input in found.values()]


@pytest.mark.long
def test_outputs_from_the_prior_are_both_paraphrases(trained):
    params = trained[1]
    found = outputs(params, "prior", 12, ["5", "8"])
    for source, texts in zip("58", found, strict=True):
        assert {f"{source} 10", f"{source} 11"} <= set(texts)
        right = [text in (f"{source} 10", f"{source} 11") for text in texts]
        assert np.mean(right) > 0.7
    # At the mean of the prior, all outputs are equal, as with a greedy decoder.
    (mean,) = outputs(params, "prior", 3, ["5"], spread=0.0)
    assert len(set(mean)) == 1 and [mean[:1]] == outputs(params, "greedy", 1, ["5"])
    (beam,) = outputs(params, "beam", 2, ["5"])
    assert len(set(beam)) == 2


def test_the_bound_by_hand():
    own = model(free_bits=0.3, loss_normalizing_factor=4.0)
    variables = initial(own)
    params = jax.tree.map(lambda x: 3.0 * x, variables["params"])
    mutables = {"annealing": variables["annealing"]}
    loss, metrics = jax.jit(own.eval_fn)(params, TOY, mutables)
    module = own.module
    sources, targets = TOY["encoder_input_tokens"], TOY["decoder_target_tokens"]
    posterior = compiled.apply(module, params, sources, targets, method="posterior")
    mean, deviation = posterior.mean, np.exp(0.5 * posterior.log_variance)
    each = -np.log(deviation) + (deviation**2 + mean**2) / 2 - 0.5
    encoded = compiled.apply(module, params, sources, method="encode")
    logits = module.apply(
        {"params": params}, encoded, TOY["encoder_input_tokens"],
        TOY["decoder_input_tokens"], False, False, mean, method="decode_tokens",
    )  # fmt: skip
    chosen = np.take_along_axis(
        np.asarray(jax.nn.log_softmax(logits)), np.asarray(targets)[..., None], -1
    )[..., 0]
    likelihood = np.sum(chosen * (targets > 0), axis=1)
    charged = 8 * np.sum(np.maximum(each.mean(axis=0), 0.3))
    np.testing.assert_allclose(loss, (charged - likelihood.sum()) / 4, rtol=1e-5)
    np.testing.assert_allclose(metrics["kl"].compute(), each.sum() / 8, rtol=1e-4)
    np.testing.assert_allclose(
        jax.jit(own.score_batch)(params, TOY), likelihood - each.sum(axis=1), rtol=1e-5
    )


def test_hidden_words_are_unknown_ones():
    params = initial(model())["params"]
    key = jax.random.PRNGKey(1)
    whole = model(word_dropout=1.0)._forward(params, TOY, key)[0]
    inputs = jnp.where(TOY["decoder_input_tokens"] > 0, Words.unk_id, 0)
    told = {**TOY, "decoder_input_tokens": inputs}
    expected = model()._forward(params, told, key)[0]
    np.testing.assert_array_equal(whole, expected)


def test_rejected_input():
    with pytest.raises(UserError, match=r"word_dropout = 2: give 0 or more, at most 1"):
        model(word_dropout=2)
    with pytest.raises(UserError, match=r"free_bits = -1: give 0 or more\."):
        model(free_bits=-1)
    own = model(loss_normalizing_factor="NUM_REAL_TARGET_TOKENS")
    variables = jax.eval_shape(lambda: initial(own))
    mutables = {"annealing": variables["annealing"]}
    with pytest.raises(UserError, match="give a number or None"):
        jax.eval_shape(own.eval_fn, variables["params"], TOY, mutables)
