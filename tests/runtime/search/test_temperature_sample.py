"""Sampling: exact tokens, distributions, callbacks, and errors."""

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from t5x import decoding
from t5x.errors import UserError
from t5x.search import decode_state

from tests.support import grids

EOS = 1


def chain_model(successor, vocab=10):
    """Returns a model that gives `successor[token]` after each token."""
    successor = jnp.asarray(successor)

    def tokens_to_logits(state):
        return 50.0 * jax.nn.one_hot(
            successor[state.cur_token[:, 0]], vocab
        ), state.cache

    return tokens_to_logits


def fixed_model(logits):
    def tokens_to_logits(state):
        rows = state.cur_token.shape[0]
        return jnp.broadcast_to(logits, (rows, logits.shape[-1])), state.cache

    return tokens_to_logits


def sample(inputs, cache, tokens_to_logits, eos_id, **options):
    """Runs the function under test as programs do: inside jax.jit."""
    run = jax.jit(
        lambda inputs, cache: decoding.temperature_sample(
            inputs, cache, tokens_to_logits, eos_id, **options
        )
    )
    return run(inputs, cache)


# 0 (BOS) -> 2 -> 3 -> 4 -> 1 (EOS); 5 -> 6 -> 7 -> 8 -> 9 -> 5
CHAIN = [2, 7, 3, 4, 1, 6, 7, 8, 9, 5]


def zeros(batch, length):
    return jnp.zeros((batch, length), jnp.int32)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("options", [{}, {"topk": 0, "temperature": 0.0}])
def test_greedy_ends_with_eos_and_zeros(batch, options):
    decodes, log_prob = sample(zeros(batch, 7), {}, chain_model(CHAIN), EOS, **options)
    assert decodes.tolist() == [[[2, 3, 4, EOS, 0, 0, 0]]] * batch
    np.testing.assert_array_equal(log_prob, np.zeros((batch, 1)))


def test_forced_prompts_of_uneven_length():
    inputs = jnp.array([[0, 5, 6, 0, 0, 0], [0, 9, 0, 0, 0, 0], [0, 3, 2, 2, 3, 4]])
    decodes, _ = sample(inputs, {}, chain_model(CHAIN), EOS)
    assert decodes[:, 0].tolist() == [
        [5, 6, 7, 8, 9, 5],
        [9, 5, 6, 7, 8, 9],
        [3, 2, 2, 3, 4, EOS],
    ]


def test_eos_of_the_prompt_does_not_end_a_row():
    inputs = jnp.array([[0, 5, EOS, 0, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0, 0, 0]])
    decodes, _ = sample(inputs, {}, chain_model(CHAIN), EOS)
    assert decodes[:, 0].tolist() == [
        [5, EOS, 7, 8, 9, 5, 6, 7],
        [3, 4, EOS, 0, 0, 0, 0, 0],
    ]


def test_loop_ends_when_all_rows_have_ended():
    steps = []

    def count(state):
        jax.debug.callback(lambda i: steps.append(int(i)), state.step)
        return state

    sample(zeros(2, 100), {}, chain_model(CHAIN), EOS, state_callback_fn=count)
    jax.effects_barrier()
    assert sorted(steps) == [0, 1, 2, 3, 4]  # the last one is the call after the loop


def test_max_decode_steps_counts_from_the_end_of_the_prompt():
    inputs = jnp.array([[0, 5, 6, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]])
    for options in (
        {"max_decode_steps": 2},
        {"max_decode_steps": 6, "max_decode_steps_hard_limit": 2},
        {"max_decode_steps": 6, "max_decode_steps_hard_limit": 2, "num_decodes": 3},
    ):
        decodes, _ = sample(inputs, {}, chain_model(CHAIN), EOS, **options)
        assert decodes[:, 0].tolist() == [[5, 6, 7, 8, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0]]


def test_initial_index_continues_behind_uneven_prompts():
    inputs = jnp.array([[0, 2, 5, 6, 7, 0], [0, 8, 0, 0, 0, 0]])
    start = jnp.array([4, 1])

    def tokens_to_logits(state):
        assert state.cache["cache_index"].shape == (4,)
        logits, cache = chain_model(CHAIN)(state)
        return logits, {"cache_index": cache["cache_index"] + 1}

    decodes, _ = sample(
        inputs, {"cache_index": start}, tokens_to_logits, EOS, num_decodes=2,
        initial_index=start,
    )  # fmt: skip
    for row, expected in enumerate([[2, 5, 6, 7, 8, 9], [8, 9, 5, 6, 7, 8]]):
        assert decodes[row].tolist() == [expected] * 2


def test_cache_is_expanded_with_its_decodes_together():
    def tokens_to_logits(state):
        wanted = state.cache["own"][1]
        assert wanted.shape == (6,)
        return 50.0 * jax.nn.one_hot(wanted, 10), state.cache

    cache = flax.core.freeze({"own": jnp.array([[0, 0, 0], [4, 5, 6]])})
    decodes, _ = sample(
        zeros(3, 2), cache, tokens_to_logits, EOS, num_decodes=2, cache_offset=1
    )
    assert decodes.tolist() == [[[t, t]] * 2 for t in (4, 5, 6)]


LOGITS = jnp.array([0.3, 1.2, -0.5, 2.0, 0.9, 1.6])


def draw(rows=1, length=1, logits=LOGITS, **options):
    """Draws tokens without EOS, from the same logits in every step."""
    return sample(zeros(rows, length), {}, fixed_model(logits), 99, **options)


def sample_counts(**options):
    """Returns counts of single tokens."""
    decodes, log_prob = draw(num_decodes=20000, **options)
    assert (np.diff(log_prob[0]) >= 0).all()
    return np.bincount(np.asarray(decodes).ravel(), minlength=len(LOGITS))


def softmax(x):
    x = np.asarray(x, np.float64)
    e = np.exp(x - x.max())
    return e / e.sum()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"topk": 0}, [0, 1, 2, 3, 4, 5]),
        ({"topk": 0, "temperature": 0.5}, [0, 1, 2, 3, 4, 5]),
        ({"topk": 3}, [1, 3, 5]),
        ({"topk": 2, "temperature": 2.0}, [3, 5]),
        # Probabilities .074 .181 .033 .404 .134 .271 -> .404 + .271 + .181 >= .7
        ({"topk": 0, "topp": 0.7}, [1, 3, 5]),
        ({"topk": 0, "topp": 0.99}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_distribution(options, kept):
    counts = sample_counts(decode_rng=jax.random.PRNGKey(3), **options)
    scaled = np.asarray(LOGITS) / options.get("temperature", 1.0)
    expected = softmax(scaled[kept]) * counts.sum()
    assert set(np.flatnonzero(counts)) == set(kept)
    assert stats.chisquare(counts[kept], expected).pvalue > 1e-3


@pytest.mark.parametrize("options", [{"topk": 2}, {"topk": 0, "topp": 0.9}])
@pytest.mark.parametrize("traced", [False, True])
def test_low_logits_at_a_low_temperature(options, traced):
    """Divided by the temperature they are below -1e7; removed tokens stay lower."""
    logits = jnp.array([-2000.0, -2000.0, -2001.0, -2002.0])

    def counts(temperature, **options):
        return draw(logits=logits, num_decodes=200, temperature=temperature, **options)[
            0
        ]

    run = jax.jit(counts) if traced else counts
    assert set(np.asarray(run(1.5e-4, **options)).ravel().tolist()) == {0, 1}


def test_traced_masks_of_zero_are_off():
    traced = jax.jit(lambda topk, topp: draw(num_decodes=500, topk=topk, topp=topp)[0])
    plain, _ = draw(num_decodes=500, topk=0)
    np.testing.assert_array_equal(traced(0, 0.0), plain)
    assert set(np.unique(traced(2, 0.0))) == {3, 5}
    assert set(np.unique(traced(0, 0.7))) == {1, 3, 5}


def test_tokens_come_from_the_first_half_of_each_split_key():
    key = jax.random.PRNGKey(7)
    logits = jnp.asarray(np.random.RandomState(0).randn(8), jnp.float32)
    expected, rng = [], key
    for _ in range(5):
        now, rng = jax.random.split(rng)
        rows = jnp.broadcast_to(logits / 0.7, (3, 8))
        expected.append(jax.random.categorical(now, rows))
    options = {"decode_rng": key, "temperature": 0.7, "topk": 0}
    decodes, log_prob = draw(3, 5, logits, **options)
    expected = np.stack(expected, axis=1)
    np.testing.assert_array_equal(decodes[:, 0], expected)
    np.testing.assert_allclose(
        log_prob[:, 0], np.log(softmax(logits / 0.7))[expected].sum(axis=1), rtol=1e-4
    )
    options["rescale_log_probs"] = False
    _, log_prob = draw(3, 5, logits, **options)
    np.testing.assert_allclose(
        log_prob[:, 0], np.log(softmax(logits))[expected].sum(axis=1), rtol=1e-4
    )


def test_temperature_per_row():
    temperature = jnp.array([0.0, 1.0, 0.3])
    decodes, _ = draw(3, num_decodes=8000, temperature=temperature, topk=0)
    assert (decodes[0] == 3).all()
    for row in (1, 2):
        counts = np.bincount(np.asarray(decodes[row]).ravel(), minlength=6)
        expected = softmax(np.asarray(LOGITS) / temperature[row]) * counts.sum()
        assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_log_prob_ignores_prompt_and_tokens_after_eos():
    """BOS 5 2 EOS: 5 is forced; 2 and EOS are sampled with known probabilities."""
    table = np.full((6, 6), -1e9, np.float32)
    table[0] = 0.0
    table[5, [2, 3]] = np.log([0.9, 0.1])
    table[2, [EOS, 4]] = np.log([0.8, 0.2])
    table[EOS] = 0.0

    def tokens_to_logits(state):
        return jnp.asarray(table)[state.cur_token[:, 0]], state.cache

    inputs = jnp.array([[0, 5, 0, 0, 0, 0]])
    decodes, log_prob = sample(
        inputs, {}, tokens_to_logits, EOS, rescale_log_probs=False
    )
    assert decodes.tolist() == [[[5, 2, EOS, 0, 0, 0]]]
    np.testing.assert_allclose(log_prob, [[np.log(0.9 * 0.8)]], rtol=1e-5)


def test_logit_callback_sees_the_state_and_changes_the_choice():
    def forbid_five_at_first(logits, state):
        first = (state.cur_index == 1)[:, None]
        return jnp.where(first & (jnp.arange(10) == 3), -1e9, logits).at[:, 9].add(1.0)

    decodes, _ = sample(
        zeros(2, 3), {}, chain_model(CHAIN), EOS, logit_callback_fn=forbid_five_at_first
    )
    assert decodes[:, 0].tolist() == [[2, 9, 5]] * 2


def test_state_callback_may_end_rows_and_runs_after_the_loop():
    def end_after_two(state):
        return state.replace(ended=state.ended | (state.step >= 2))

    def tokens(state):
        return state.replace(log_prob=state.log_prob + 1.0)

    decodes, _ = sample(
        zeros(1, 6), {}, chain_model(CHAIN), EOS, state_callback_fn=end_after_two
    )
    # The step during which the callback ends the row still runs, and writes 0.
    assert decodes.tolist() == [[[2, 3, 0, 0, 0, 0]]]
    _, log_prob = sample(
        zeros(1, 3), {}, chain_model(CHAIN), EOS, state_callback_fn=tokens
    )
    np.testing.assert_array_equal(log_prob, [[4.0]])  # three steps and one after


def test_loop_state_shapes():
    def check(state):
        assert isinstance(state, decoding.SamplingLoopState)
        assert state.sequences.shape == (6, 6)
        assert state.cur_token.shape == state.ended.shape == (6, 1)
        assert state.cur_index.shape == state.log_prob.shape == (6,)
        return state

    def tokens_to_logits(state):
        assert isinstance(state, decoding.DecodingState)
        assert state.sequences.shape == (6, 4)
        assert state.cur_index.shape == (6,) and state.cur_token.shape == (6, 1)
        return chain_model(CHAIN)(state)

    decodes, scores = sample(
        zeros(2, 4), {}, tokens_to_logits, EOS, num_decodes=3, state_callback_fn=check
    )
    assert decodes.shape == (2, 3, 4) and scores.shape == (2, 3)


@grids.diagonal(
    "options, bad",
    [
        {},
        {"rescale_log_probs": False},
        {"topk": 0},
        {"topk": 2},
        {"topk": 0, "topp": 0.5},
        {"topk": 0, "temperature": jnp.array([1.0, 0.5])},
    ],
    [np.nan, np.inf, -np.inf],
)
def test_a_row_without_a_token_to_choose_is_marked(bad, options):
    """Both rows follow 0 -> 2 -> 3; then the second row has only forbidden tokens."""
    inputs, model = jnp.array([[0, 2, 0, 0, 0], [0, 0, 0, 0, 0]]), chain_model(CHAIN)

    def broken_model(state):
        logits, cache = model(state)
        is_bad = (jnp.arange(2) == 1) & (state.cur_index == 2)
        worst = jnp.full((10,), bad) if bad < 0 else logits.at[:, 5].set(bad)
        return jnp.where(is_bad[:, None], worst, logits), cache

    decodes, log_prob = sample(inputs, {}, broken_model, EOS, **options)
    assert decodes[:, 0].tolist() == [
        [2, 3, 4, EOS, 0],
        [2, 3, decode_state.BROKEN, 0, 0],
    ]
    assert np.isnan(log_prob).tolist() == [[False], [True]]
    message = r"decoding step 2 \(counted from 0\) of row 1: the logits of the model"
    with pytest.raises(UserError, match=message):
        decode_state.check_decodes(decodes)
    with pytest.raises(UserError, match=message):
        decoding.temperature_sample(inputs, {}, broken_model, EOS, **options)
    # Forced tokens need no logits.
    forced = jnp.array([[0, 2, 0, 0, 0], [0, 2, 3, 4, 0]])
    decodes, log_prob = sample(forced, {}, broken_model, EOS, **options)
    assert decodes[1, 0].tolist() == [2, 3, 4, EOS, 0] and not np.isnan(log_prob).any()


def test_a_callback_may_forbid_tokens_with_minus_infinity():
    allowed = jnp.where(jnp.arange(10) == 4, 0.0, -jnp.inf)
    decodes, log_prob = sample(
        zeros(1, 2),
        {},
        chain_model(CHAIN),
        EOS,
        topk=0,
        logit_callback_fn=lambda logits, state: logits + allowed,
    )
    assert decodes.tolist() == [[[4, 4]]] and log_prob.tolist() == [[0.0]]


def test_more_steps_than_columns():
    with pytest.raises(
        ValueError, match="Cannot decode more steps than the sequence length: .* is 4, "
    ):
        sample(zeros(1, 3), {}, chain_model(CHAIN), EOS, max_decode_steps=4)
