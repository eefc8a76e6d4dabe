"""The most probable tokens of large vocabularies, found in two stages."""

import functools

import decode_kit
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decode_kit import EOS, first_ones, random_table

from jaxaug.decode import beam, beam_state, contract

run = functools.partial(decode_kit.run, beam.search)


@pytest.mark.parametrize("kind", ["random", "tied"])
@pytest.mark.parametrize("vocab", [3001, 4096])
def test_most_probable_of_a_large_vocabulary(vocab, kind):
    """Results equal a softmax over all tokens; finished beams offer padding."""
    rng = np.random.default_rng(vocab)
    logits = rng.normal(size=(2, 3, vocab)).astype(np.float32) * 3
    if kind == "tied":
        logits = np.round(logits)
    logits[1, 1] = np.where(np.arange(vocab) == 0, 0.0, contract.NEG_INF)
    before = np.array([[0, -1, -2], [-1, -0.5, contract.NEG_INF]], np.float32)

    @jax.jit
    def both(logits, before):
        peaks = jnp.max(logits, axis=-1)
        sums = jnp.log(jnp.sum(jnp.exp(logits - peaks[..., None]), axis=-1))
        shown = beam_state.Continuations(
            logits,
            peaks,
            sums,
            before,
            before,
            logits[..., :1],
            before,
            before[:, 0] > 0,
            EOS,
        )
        total = jax.nn.log_softmax(logits) + before[..., None]
        values, best = jax.lax.top_k(total.reshape(2, -1), 9)
        whole = (values, values, best % vocab, best // vocab)
        return beam_state.most_probable(shown, 9), whole

    for found, expected in zip(*both(logits, before), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_two_stage_top_k_equals_one_stage():
    """Results equal a single top-k over all beams, also with tied logits."""
    table = np.round(random_table(4, vocab=1500) * 2) / 2
    table[:, EOS] = table.max(axis=1) - 1
    inputs = np.zeros((3, 6))
    for select, m in ((None, 4), (first_ones, 6)):
        found = run(table, inputs, num_decodes=2, select=select)
        propose = functools.partial(_one_stage, m=m)
        plain = run(table, inputs, num_decodes=2, select=select, propose=propose)
        np.testing.assert_array_equal(found[0], plain[0])
        np.testing.assert_allclose(found[1], plain[1], rtol=1e-6)
        assert (found[0] == EOS).any()


def _one_stage(shown, m):
    total = shown.log_probs[..., None] + shown.next_log_probs
    vocab = total.shape[-1]
    values, best = jax.lax.top_k(total.reshape(len(total), -1), m)
    return beam_state.Proposal(values, values, best % vocab, best // vocab)
