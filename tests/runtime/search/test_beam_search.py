"""Beam search: exhaustive search, a plain-Python beam search, and by hand."""

import itertools

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_kit import (
    beam_search,
    brute_force,
    check_against,
    narrow_table,
    reference,
    search,
)
from t5x import decoding
from t5x.errors import UserError
from t5x.search import decode_state

from tests.decode.decode_kit import (
    EOS,
    VOCAB,
    log_softmax,
    next_state,
    penalty,
    prefix_log_probs,
    random_table,
    table_model,
)
from tests.support import grids


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_wide_beam_finds_every_sequence_in_order(alpha):
    length, k = 3, 64  # 64 live beams cover all 4 ** 3 prefixes
    hypotheses = [
        (*prefix, EOS)
        for size in range(length)
        for prefix in itertools.product([0, 2, 3, 4], repeat=size)
    ]
    assert len(hypotheses) == 21
    for seed in range(3):
        table = random_table(seed)
        expected = sorted(
            (
                sum(prefix_log_probs(table, s[:i])[t] for i, t in enumerate(s))
                / penalty(alpha, len(s)),
                s,
            )
            for s in hypotheses
        )
        decodes, scores = search(table, jnp.zeros((1, length), jnp.int32), k, alpha)
        check_against(expected, decodes[0], scores[0])
        np.testing.assert_array_equal(decodes[0, : k - 21], 0)


@pytest.mark.parametrize(
    ("batch", "k", "length", "alpha"),
    [(1, 1, 6, 0.6), (1, 4, 8, 0.6), (7, 2, 7, 0.0), (7, 3, 5, 1.0)],
)
def test_equals_plain_python_beam_search(batch, k, length, alpha):
    rng = np.random.RandomState(0)
    stopped_early = 0
    for seed in range(6):
        table = random_table(seed, scale=3.0)
        inputs = np.zeros((batch, length), np.int32)
        if seed % 2:
            for row in inputs:
                prompt = rng.randint(0, length - 1)
                row[1 : 1 + prompt] = rng.randint(2, VOCAB, prompt)
        decodes, scores = search(table, inputs, k, alpha)
        assert decodes.shape == (batch, k, length) and scores.shape == (batch, k)
        for row in range(batch):
            forced = [*inputs[row, 1:], 0]
            expected = reference(table, forced, k, alpha, length)
            check_against(expected, decodes[row], scores[row])
            stopped_early += expected[-1][1][-1] == EOS
    assert stopped_early > 0


def test_hand_computed_scores():
    """Probabilities 0.6 (EOS) and 0.4 (token 2) at each of two steps."""
    logits = jnp.log(jnp.array([1e-30, 0.6, 0.4, 1e-30, 1e-30]))

    def tokens_to_logits(state):
        return jnp.broadcast_to(logits, (state.cur_token.shape[0], VOCAB)), state.cache

    decodes, scores = beam_search(
        jnp.zeros((1, 2), jnp.int32), {}, tokens_to_logits, EOS, 2, alpha=1
    )
    assert decodes.tolist() == [[[2, EOS], [EOS, 0]]]
    np.testing.assert_allclose(
        scores, [[np.log(0.4 * 0.6) / (7 / 6), np.log(0.6)]], rtol=1e-5
    )


def test_inputs_of_another_type_give_integers():
    table = random_table(3)
    expected, _ = search(table, jnp.zeros((2, 4), jnp.int32), 2)
    decodes, _ = search(table, np.zeros((2, 4)), 2)
    assert decodes.dtype == jnp.int32
    np.testing.assert_array_equal(decodes, expected)


def count_steps(**options):
    """Counts the calls of a model that ends at its third step."""
    calls = []

    def tokens_to_logits(state):
        jax.debug.callback(lambda i: calls.append(int(i)), state.cur_index)
        wanted = jnp.where(state.cur_index >= 2, EOS, 3)
        rows = state.cur_token.shape[0]
        return jnp.tile(30.0 * jax.nn.one_hot(wanted, VOCAB), (rows, 1)), state.cache

    inputs = jnp.zeros((2, 50), jnp.int32)
    result = beam_search(inputs, {}, tokens_to_logits, EOS, 1, **options)
    jax.effects_barrier()
    return len(calls), result


def test_stops_as_soon_as_no_live_beam_can_win():
    steps, (decodes, _) = count_steps()
    assert steps == 3
    assert decodes[:, 0, :4].tolist() == [[3, 3, EOS, 0]] * 2


def test_max_decode_step_limits_steps_and_returns_live_beams():
    steps, (decodes, scores) = count_steps(max_decode_step=2)
    assert steps == 2
    assert decodes[0, 0, :4].tolist() == [3, 3, 0, 0]
    np.testing.assert_allclose(scores, 0.0, atol=1e-5)


def test_min_log_prob_stops_once_all_live_beams_are_below():
    steps, (decodes, _) = count_steps(min_log_prob=1.0)
    assert steps == 1
    assert decodes[0, 0, :3].tolist() == [3, 0, 0]


def test_min_log_prob_of_a_row_does_not_wait_for_the_others():
    """Row 1 is below the limit after a step, with or without row 0."""

    def tokens_to_logits(state):
        likely = jnp.where(state.cache["row"] == 0, 30.0, 0.5)[:, None]
        return likely * jax.nn.one_hot(3, VOCAB), state.cache

    def decode(*rows):
        cache = {"row": jnp.array(rows)}
        inputs = jnp.zeros((len(rows), 6), jnp.int32)
        options = {"min_log_prob": -0.5}
        return beam_search(inputs, cache, tokens_to_logits, EOS, 1, **options)

    both, alone = decode(0, 1), decode(1)
    assert alone[0].tolist() == [[[3, 0, 0, 0, 0, 0]]]
    np.testing.assert_array_equal(both[0][1:], alone[0])
    np.testing.assert_array_equal(both[1][1:], alone[1])
    assert both[0][0].tolist() == [[3] * 6]


def test_max_decode_len_sets_the_width_of_the_result():
    inputs = jnp.zeros((2, 4), jnp.int32).at[:, 1].set(3)
    longer, _ = search(random_table(0), inputs, 2, options=(("max_decode_len", 9),))
    shorter, _ = search(random_table(0), inputs, 2, options=(("max_decode_len", 2),))
    assert longer.shape == (2, 2, 9) and shorter.shape == (2, 2, 2)
    assert (longer[:, :, 0] == 3).all() and (shorter[:, -1, 0] == 3).all()


def test_prompt_that_fills_the_inputs_leaves_the_last_position_free():
    inputs = jnp.array([[0, 2, 3, 4]], jnp.int32)
    table = random_table(5)
    decodes, _ = search(table, inputs, 1)
    last = int(np.argmax(prefix_log_probs(table, (2, 3, 4))))
    assert decodes.tolist() == [[[2, 3, 4, last]]]


def test_impossible_eos_is_not_a_hypothesis():
    """A model that allows only token 3 never finishes, and its beam is returned."""
    logits = jnp.full((VOCAB,), -1e9).at[3].set(0.0)

    def tokens_to_logits(state):
        return jnp.broadcast_to(logits, (state.cur_token.shape[0], VOCAB)), state.cache

    decodes, scores = beam_search(
        jnp.zeros((1, 4), jnp.int32), {}, tokens_to_logits, EOS, 3
    )
    assert decodes[0, -1].tolist() == [3, 3, 3, 3]
    np.testing.assert_allclose(scores[0, -1], 0.0, atol=1e-5)


def prefilled(table, inputs, lengths, k):
    """Searches from the end of the prompts, with their cache."""
    hidden = []
    for row, length in zip(inputs, lengths, strict=True):
        state = 0
        for token in row[:length]:
            state = next_state(state, int(token))
        hidden.append(state)

    def tokens_to_logits(state):
        rows = state.cur_token.shape[0]
        assert state.cache["cache_index"].shape == (rows,)
        logits, cache = table_model(table)(state)
        return logits, {**cache, "cache_index": state.cache["cache_index"] + 1}

    return beam_search(
        jnp.asarray(inputs),
        {"hidden": jnp.array(hidden, jnp.int32), "cache_index": jnp.asarray(lengths)},
        tokens_to_logits,
        EOS,
        k,
        initial_index=jnp.asarray(lengths),
    )


def test_prefilled_prompts_of_uneven_length_equal_forced_ones():
    table = jnp.asarray(random_table(11, scale=0.5))
    lengths = np.array([0, 4, 1, 6], np.int32)
    inputs = np.zeros((4, 8), np.int32)
    for row, length in zip(inputs, lengths, strict=True):
        row[1 : 1 + length] = 2 + np.arange(length) % 3
    decodes, scores = prefilled(table, inputs, lengths, 3)
    wanted, wanted_scores = search(table, inputs, 3)
    np.testing.assert_allclose(scores, wanted_scores, atol=1e-4)
    # (Empty slots contain the prompt, too.)
    np.testing.assert_array_equal(decodes[scores > -1e6], wanted[scores > -1e6])
    assert (scores[:3] > -1e6).all()
    # The longest prompt is full long before the others end, and must stop.
    alone = prefilled(table, inputs[3:], lengths[3:], 3)
    np.testing.assert_array_equal(decodes[3], alone[0][0])


def test_scanned_and_frozen_caches_give_the_same_result():
    table = jnp.asarray(random_table(3))
    inputs = jnp.zeros((3, 6), jnp.int32)
    expected = search(table, inputs, 4)

    def tokens_to_logits(state):
        assert state.cache["layer"]["hidden"].shape == (2, 12)
        assert state.cache["layer"]["cache_index"].shape == (2,)
        assert state.cache["layer"]["cached_bias"].shape == (1, 9)
        hidden = next_state(state.cache["layer"]["hidden"], state.cur_token[:, 0])
        cache = flax.core.unfreeze(state.cache)
        cache["layer"]["hidden"] = hidden
        return table[hidden[1]], cache

    cache = flax.core.freeze(
        {
            "layer": {
                "hidden": jnp.zeros((2, 3), jnp.int32),
                "cache_index": jnp.zeros((2,), jnp.int32),
                "cached_bias": jnp.zeros((1, 9)),
            }
        }
    )
    found = beam_search(inputs, cache, tokens_to_logits, EOS, 4, cache_offset=1)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)


def test_bfloat16_logits_get_float32_scores():
    table = jnp.asarray(random_table(3)).astype(jnp.bfloat16)
    inputs = jnp.zeros((2, 6), jnp.int32)
    found = search(table, inputs, 2)
    expected = search(table.astype(jnp.float32), inputs, 2)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def last_token_model(table):
    return lambda state: (jnp.asarray(table)[state.cur_token[:, 0]], state.cache)


@pytest.mark.parametrize("alpha", grids.first(3, [-9.0, 0.0, 0.6, -2.0, -0.6, 2.0]))
def test_two_beams_find_the_best_of_all_sequences(alpha):
    """The model leaves two live hypotheses, so two beams prune nothing."""
    length = 6

    @jax.jit
    def run(table, inputs):
        model = last_token_model(table)
        return decoding.beam_search(inputs, {}, model, EOS, num_decodes=2, alpha=alpha)

    for seed in range(8):
        table = narrow_table(seed)
        tokens, scores = run(table, jnp.zeros((1, length), jnp.int32))
        best = brute_force(table, alpha, length)[-2:]
        wanted = [[*tokens, *[0] * (length - len(tokens))] for _, tokens in best]
        assert tokens[0].tolist() == wanted
        np.testing.assert_allclose(scores[0], [s for s, _ in best], rtol=1e-4)


def test_a_score_below_that_of_empty_slots_keeps_its_slot():
    """Alpha -9 and 64 tokens divide log probabilities by 3e-10."""
    script = np.full((64, 4), -1e10, np.float32)
    script[:-1, 2] = script[:-1, 3] = 0
    script[-1, EOS] = 0

    def model(state):
        rows = state.cur_token.shape[0]
        row = jnp.asarray(script)[state.cur_index]
        return jnp.broadcast_to(row, (rows, 4)), state.cache

    decodes, scores = beam_search(
        jnp.zeros((1, 64), jnp.int32), {}, model, EOS, 2, alpha=-9.0
    )
    assert (np.asarray(decodes[0, :, -1]) == EOS).all()
    wanted = -63 * np.log(2) / (69 / 6) ** -9.0
    assert wanted < -1e11
    np.testing.assert_allclose(scores[0], [wanted, wanted], rtol=1e-5)
    # If only one hypothesis ends, the empty slot comes before it.
    script[:, 3] = -1e10
    decodes, scores = beam_search(
        jnp.zeros((1, 64), jnp.int32), {}, model, EOS, 2, alpha=-9.0
    )
    assert decodes[0, 1].tolist() == [2] * 63 + [EOS]
    assert not np.any(decodes[0, 0]) and scores[0, 0] <= scores[0, 1]


def row_scripts(bad):
    """Three rows write 2 3 4 EOS, 3 EOS, 3 3 4 EOS; the last breaks at step 2."""
    words = [[2, 3, 4, EOS], [3, EOS, 3, EOS], [3, 3, 4, EOS]]
    script = np.full((3, 4, VOCAB), -20.0, np.float32)
    for row, tokens in enumerate(words):
        script[row, np.arange(4), tokens] = 0
    script[2, :2, EOS] = -1e10
    script[2, 2] = np.where(np.isnan(bad), script[2, 2], bad)
    script[2, 2, 3] = bad

    def model(state):
        rows = state.cur_token.shape[0]
        index = jnp.broadcast_to(state.cur_index, (rows,))
        row = jnp.repeat(jnp.arange(3), rows // 3)
        return jnp.asarray(script)[row, index], state.cache

    return model


BAD = pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
NAMED = (
    r"decoding step 2 \(counted from 0\) of row 2: the logits of the model are NaN or"
)


@BAD
def test_a_row_without_a_token_to_choose_is_marked(bad):
    inputs = jnp.zeros((3, 4), jnp.int32)
    decodes, scores = beam_search(inputs, {}, row_scripts(bad), EOS, 2)
    assert decodes[:, 1].tolist() == [[2, 3, 4, EOS], [3, EOS, 0, 0], [3, 3, -1, 0]]
    assert np.isnan(scores).tolist() == [[False] * 2, [False] * 2, [True] * 2]
    with pytest.raises(UserError, match=NAMED):
        decode_state.check_decodes(decodes)
    with pytest.raises(UserError, match=NAMED):
        decoding.beam_search(inputs, {}, row_scripts(bad), EOS, num_decodes=2)
    # Forced tokens need no logits.
    forced = jnp.array([[0, 0, 0, 0], [0, 0, 0, 0], [0, 3, 3, 4]])
    decodes, scores = beam_search(forced, {}, row_scripts(bad), EOS, 2)
    assert decodes[2, 1].tolist() == [3, 3, 4, EOS] and not np.isnan(scores).any()


def test_minus_infinity_forbids_tokens_and_ends_beams():
    """The beam of token 2 is a dead end; the beam of token 3 continues."""
    table = np.full((4, 4), -np.inf, np.float32)
    table[0, 2:], table[3, EOS] = [1.0, 0.0], 0.0
    decodes, scores = beam_search(
        jnp.zeros((1, 3), jnp.int32), {}, last_token_model(table), EOS, 2
    )
    assert decodes[0].tolist() == [[0, 0, 0], [3, EOS, 0]]
    wanted = log_softmax([1.0, 0.0])[1] / penalty(0.6, 2)
    np.testing.assert_allclose(scores[0], [-1e7, wanted], rtol=1e-5)
