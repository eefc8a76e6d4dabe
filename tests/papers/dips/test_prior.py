"""Decoding with a latent vector for every output."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.paraphrase import samplers
from jaxaug_papers.dips import prior

SIZE, VOCAB = 3, 6


def decode(ids, num, **options):
    """A model whose single word is the argmax of its latent vector."""
    rows = len(ids)
    seen = []

    def to_logits(state):
        latent = state.cache["decoder"]["latent"]
        jax.debug.callback(lambda x: seen.append(np.asarray(x)), latent)
        logits = jnp.pad(4.0 * latent, ((0, 0), (VOCAB - SIZE, 0)), constant_values=-9)
        ends = jnp.zeros((latent.shape[0], VOCAB)).at[:, 1].set(9.0)
        return jnp.where(state.cur_index[:, None] == 0, logits, ends), state.cache

    cache = {"decoder": {"latent": jnp.zeros((rows, SIZE))}}
    tokens, scores = prior.decode(
        jnp.zeros((rows, 3), jnp.int32), cache, to_logits, 1, num,
        decode_rng=jax.random.PRNGKey(4), input_ids=jnp.asarray(ids), **options,
    )  # fmt: skip
    jax.effects_barrier()
    return np.asarray(tokens), np.asarray(scores), seen


def test_every_output_has_a_separate_vector():
    tokens, scores, seen = decode([7, 9], 4)
    latent = seen[0].reshape(2, 4, SIZE)
    assert all((later == seen[0]).all() for later in seen)
    assert len(np.unique(latent.reshape(-1, SIZE), axis=0)) == 8
    for row in range(2):
        words = latent[row].argmax(axis=-1) + VOCAB - SIZE
        assert sorted(tokens[row, :, 0]) == sorted(words)
        assert (tokens[row, :, 1] == 1).all() and (np.diff(scores[row]) >= 0).all()
    # The vectors of an input depend neither on other rows nor on the number of outputs.
    _, _, alone = decode([9], 2)
    np.testing.assert_array_equal(alone[0], latent[1, :2])


def test_the_vectors_are_normal():
    _, _, seen = decode([3], 4000, spread=2.0)
    assert abs(seen[0].mean()) < 0.1 and abs(seen[0].std() - 2.0) < 0.1
    assert abs(np.corrcoef(seen[0].T)[0, 1]) < 0.06


def test_a_model_without_a_vector():
    with pytest.raises(
        UserError, match="'prior' draws a latent vector for each output"
    ):
        prior.decode(jnp.zeros((1, 3), jnp.int32), {"a": jnp.zeros((1, 2))}, None, 1)


def test_it_is_a_sampler_of_jaxaug():
    assert samplers.find("prior").complete({}) == {"spread": 1.0, "temperature": 0.0}
