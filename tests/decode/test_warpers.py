"""Warpers: exact values, and frequencies of drawn tokens."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jaxaug.core.errors import UserError
from jaxaug.decode import warpers
from jaxaug.decode.sample import draw, sample

LOWEST = np.finfo(np.float32).min
LOGITS = np.log(np.float32([0.05, 0.1, 0.3, 0.05, 0.2, 0.25, 0.03, 0.02]))


def state(rows=1, sequences=(), step=0):
    tokens = np.zeros((rows, 12), np.int32)
    tokens[:, : len(sequences)] = sequences
    return warpers.WarpState(
        step=jnp.full((rows,), step),
        sequences=jnp.asarray(tokens),
        lengths=jnp.full((rows,), len(sequences)),
    )


jitted = functools.cache(jax.jit)
no_repeats = functools.cache(warpers.no_repeat_ngrams)
top_p = functools.cache(warpers.top_p)


def kept(warper, logits=LOGITS, **known):
    """Returns the indices of the remaining tokens."""
    warped = np.asarray(jitted(warper)(logits[None], state(**known)))[0]
    left = warped > LOWEST
    np.testing.assert_array_equal(warped[left], logits[left])
    np.testing.assert_array_equal(warped[~left], LOWEST)
    return np.flatnonzero(left).tolist()


@pytest.mark.parametrize(
    ("warper", "expected"),
    [
        (warpers.top_k(1), [2]),
        (warpers.top_k(3), [2, 4, 5]),
        (warpers.top_k(5), [0, 1, 2, 4, 5]),  # 0 and 3 tie: the lower index wins
        (warpers.top_k(8), list(range(8))),
        (warpers.top_k(99), list(range(8))),
        (warpers.top_p(0.01), [2]),
        (warpers.top_p(0.299), [2]),
        (warpers.top_p(0.301), [2, 5]),
        (warpers.top_p(0.76), [1, 2, 4, 5]),
        (warpers.top_p(0.87), [0, 1, 2, 4, 5]),
        (warpers.top_p(0.91), [0, 1, 2, 3, 4, 5]),
        (warpers.top_p(1.0), list(range(8))),
        (warpers.min_length(3, eos_id=2), [0, 1, 3, 4, 5, 6, 7]),
        (warpers.bottom_k(2, 1), [0, 1, 3, 4, 6, 7]),
        (warpers.bottom_k(7, 1), [7]),
    ],
)
def test_kept_tokens_in_the_first_step(warper, expected):
    assert kept(warper) == expected


def test_uniform_ties_go_to_the_lowest_ids():
    flat = np.zeros(10, np.float32)
    assert kept(warpers.top_k(4), flat) == [0, 1, 2, 3]
    assert kept(warpers.top_p(0.5), flat) == [0, 1, 2, 3, 4]
    assert kept(warpers.top_p(0.55), flat) == [0, 1, 2, 3, 4, 5]
    assert kept(warpers.bottom_k(3), flat) == list(range(3, 10))


def test_warpers_know_the_step():
    assert kept(warpers.min_length(3, eos_id=2), step=2) == [0, 1, 3, 4, 5, 6, 7]
    assert kept(warpers.min_length(3, eos_id=2), step=3) == list(range(8))
    late = warpers.bottom_k(2, 3, then=(warpers.top_k(3), warpers.top_p(0.6)))
    assert kept(late, step=2) == [0, 1, 3, 4, 6, 7]
    # Two of the three remaining tokens (0.3, 0.25, 0.2 of 0.75) have 73 % of the mass.
    assert kept(late, step=3) == [2, 5]
    assert kept(warpers.bottom_k(), step=1) == [0, 1, 2, 3, 4, 5]  # default: top-p 0.95


def test_bottom_k_treats_rows_by_their_own_step():
    logits = jnp.tile(jnp.asarray(LOGITS), (2, 1))
    known = state(rows=2).replace(step=jnp.array([0, 1]))
    warped = warpers.bottom_k(2, 1, then=(warpers.top_k(1),))(logits, known)
    left = np.asarray(warped) > LOWEST
    assert [np.flatnonzero(row).tolist() for row in left] == [[0, 1, 3, 4, 6, 7], [2]]


def test_temperature_and_repetition_penalty_values():
    logits = jnp.array([[2.0, -1.0, 0.5, 3.0, -2.0, 1.0]])
    known = state(sequences=[3, 4, 3])
    np.testing.assert_allclose(
        warpers.temperature(0.5)(logits, known), logits * 2, rtol=1e-6
    )
    np.testing.assert_allclose(
        warpers.repetition_penalty(2.0)(logits, known),
        [[2.0, -1.0, 0.5, 1.5, -4.0, 1.0]],
    )


@pytest.mark.parametrize(
    ("n", "sequence", "removed"),
    [
        (1, [2, 5, 2], [2, 5]),
        (2, [2, 5, 2], [5]),
        (2, [2, 5, 2, 3, 2], [3, 5]),
        (2, [2], []),
        (3, [2, 5, 3, 2, 5], [3]),
        (3, [2, 5], []),
        (3, [4, 4, 4], [4]),
        (13, [2] * 12, []),  # longer than the row
    ],
)
def test_no_repeat_ngrams(n, sequence, removed):
    expected = [token for token in range(8) if token not in removed]
    assert kept(warpers.no_repeat_ngrams(n), sequences=sequence) == expected


@given(
    st.lists(st.integers(0, 3), min_size=0, max_size=12),
    st.integers(1, 4),
)
def test_no_repeat_ngrams_equals_python(sequence, n):
    grams = {tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)}
    recent = tuple(sequence[len(sequence) - n + 1 :]) if n > 1 else ()
    expected = [token for token in range(8) if (*recent, token) not in grams]
    assert kept(no_repeats(n), sequences=sequence) == expected


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.07, 0.5, 0.95]),
    st.sampled_from([2, 9, 300]),
)
def test_top_p_equals_sorting(seed, p, vocab):
    """Coarse logits produce many ties."""
    logits = np.random.RandomState(seed).randint(-4, 5, vocab).astype(np.float32)
    probs = np.exp(logits.astype(np.float64))
    probs /= probs.sum()
    order = np.argsort(-probs, kind="stable")
    before = np.cumsum(probs[order]) - probs[order]
    if np.min(np.abs(before - p)) < 1e-6:
        return  # Rounding decides.
    assert kept(top_p(p), logits) == sorted(order[before < p].tolist())


def test_a_row_is_never_emptied():
    everything = warpers.no_repeat_ngrams(1)
    assert kept(everything, sequences=list(range(8))) == list(range(8))
    chain = (warpers.top_k(2), warpers.bottom_k(2))
    warped = warpers.apply(chain, jnp.asarray(LOGITS)[None], state())
    assert np.flatnonzero(np.asarray(warped)[0] > LOWEST).tolist() == [2, 5]


# At a temperature of 1e-6 such logits are 35 million below 0.
COLD = np.float32([-35.0, -36.0, -37.0, -38.0, -39.0])


@pytest.mark.parametrize("t", [1e-30, 1e-6, 1.0, 1e30])
@pytest.mark.parametrize(
    ("warper", "expected"),
    [
        (warpers.top_k(2), [0, 1]),
        (warpers.min_length(1, eos_id=0), [1, 2, 3, 4]),
        (warpers.bottom_k(2, 1), [2, 3, 4]),
    ],
)
def test_removed_tokens_at_any_temperature(warper, expected, t):
    known = state()
    for chain in ((warpers.temperature(t), warper), (warper, warpers.temperature(t))):
        warped = np.asarray(warpers.apply(chain, jnp.asarray(COLD)[None], known))[0]
        assert np.flatnonzero(warped > LOWEST).tolist() == expected
        np.testing.assert_allclose(warped[expected], COLD[expected] / t, rtol=1e-6)
        tokens, _ = draw(jax.random.split(jax.random.PRNGKey(0), 100), warped[None])
        assert set(np.asarray(tokens).tolist()) <= set(expected)


def test_top_p_at_a_low_temperature():
    chain = (warpers.temperature(1e-6), warpers.top_p(0.9))
    warped = np.asarray(warpers.apply(chain, jnp.asarray(COLD)[None], state()))[0]
    assert np.flatnonzero(warped > LOWEST).tolist() == [0]


def test_removed_tokens_stay_removed():
    """Otherwise a later warper would mistake a scaled logit for a remaining token."""
    known = state(sequences=[0, 1, 2, 3])
    chain = (
        warpers.top_k(2),
        warpers.temperature(8.0),
        warpers.repetition_penalty(0.5),
        warpers.bottom_k(2),
    )
    warped = warpers.apply(chain, jnp.asarray(COLD)[None], known)
    # bottom_k would remove both remaining tokens, so they stay.
    np.testing.assert_allclose(warped[0, :2], COLD[:2] / 16)
    np.testing.assert_array_equal(warped[0, 2:], [LOWEST] * 3)


def test_a_temperature_of_zero_is_greedy():
    assert kept(warpers.temperature(0)) == [2]
    assert kept(warpers.temperature(0.0), np.zeros(4, np.float32)) == [0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: warpers.temperature(-1), "temperature: t=-1: .* of at least 0."),
        (lambda: warpers.temperature(math.inf), "t=inf: expected a finite number"),
        (lambda: warpers.temperature(1e-31),
         r"temperature\(1e-31\): dividing by less than 1e-30 overflows; 0 is greedy"),
        (lambda: warpers.top_k(0),
         "top_k: k=0: expected a whole number of at least 1."),
        (lambda: warpers.top_p(0), "top_p: p=0: .* number above 0, at most 1."),
        (lambda: warpers.top_p(p=1.5), "p=1.5: .* number above 0, at most 1."),
        (lambda: warpers.min_length(0), "n=0: .* of at least 1."),
        (lambda: warpers.repetition_penalty(0), "p=0: .* number above 0."),
        (lambda: warpers.no_repeat_ngrams(0), "n=0: .* of at least 1."),
        (lambda: warpers.bottom_k(2, 0), "n_steps=0: .* of at least 1."),
        (lambda: kept(warpers.bottom_k(8)),
         r"bottom_k\(k=8\) removes every token of a vocabulary of 8"),
    ],
)  # fmt: skip
def test_bad_arguments_are_explained(make, message):
    with pytest.raises(UserError, match=message):
        make()


# Expected frequencies of the first, second, and third token. The model has the same
# logits at every step and no EOS.
PROBS = np.float64([0.05, 0.1, 0.3, 0.05, 0.2, 0.25, 0.03, 0.02])


def only(*tokens):
    masked = np.zeros(8)
    masked[list(tokens)] = PROBS[list(tokens)]
    return masked / masked.sum()


def powered(exponent):
    raised = PROBS**exponent
    return raised / raised.sum()


FREQUENCIES = {
    "pure": ((), [PROBS] * 3),
    "temperature": ((warpers.temperature(2.0),), [powered(0.5)] * 3),
    "top_k": ((warpers.top_k(3),), [only(2, 4, 5)] * 3),
    "top_p": ((warpers.top_p(0.8),), [only(1, 2, 4, 5)] * 3),
    "top_k then top_p": (
        (warpers.top_k(3), warpers.top_p(0.7)),
        [only(2, 5)] * 3,
    ),
    "temperature, top_k": (
        (warpers.temperature(0.5), warpers.top_k(2)),
        [np.where(only(2, 5) > 0, PROBS**2, 0) / (0.3**2 + 0.25**2)] * 3,
    ),
    "min_length": (
        (warpers.min_length(2, eos_id=5),),
        [only(0, 1, 2, 3, 4, 6, 7)] * 2 + [PROBS],
    ),
    "bottom_k": (
        (warpers.bottom_k(2, 2),),
        # Afterwards top-k (120) and top-p (0.95) need both tokens of 0.05.
        [only(0, 1, 3, 4, 6, 7)] * 2 + [only(0, 1, 2, 3, 4, 5)],
    ),
    "bottom_k, own fallback": (
        (warpers.bottom_k(3, 1, then=(warpers.top_k(2),)),),
        [only(0, 1, 3, 6, 7)] + [only(2, 5)] * 2,
    ),
}


LONG = [pytest.param(n, marks=pytest.mark.long) for n in FREQUENCIES if n != "bottom_k"]


@pytest.mark.parametrize("name", ["bottom_k", *LONG])
def test_frequencies(name):
    """Chi-square test over 20,000 decodes, for each step and for pairs of steps."""
    chain, expected = FREQUENCIES[name]
    decodes = 20_000

    @jax.jit
    def run():
        return sample(
            jnp.zeros((1, 3), jnp.int32),
            {},
            lambda s: (jnp.tile(jnp.asarray(LOGITS), (decodes, 1)), s.cache),
            eos_id=99,
            num_decodes=decodes,
            warpers=chain,
            seed=7,
        )

    tokens = np.asarray(run()[0])[0]
    assert tokens.shape == (decodes, 3)
    for step, probs in enumerate(expected):
        counts = np.bincount(tokens[:, step], minlength=8)
        assert not counts[probs == 0].any()
        check_counts(counts, probs)
    for first, second in ((0, 1), (1, 2)):
        pairs = tokens[:, first] * 8 + tokens[:, second]
        joint = np.outer(expected[first], expected[second]).ravel()
        check_counts(np.bincount(pairs, minlength=64), joint)


def check_counts(counts, probs):
    possible = probs > 0
    wanted = probs[possible] / probs[possible].sum() * counts.sum()
    assert stats.chisquare(counts[possible], wanted).pvalue > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("blocking", [True, False])
def test_frequencies_given_the_first_token(blocking):
    """Frequencies of the second token given the first, under warpers that look back."""
    warper = warpers.no_repeat_ngrams(1) if blocking else warpers.repetition_penalty(3)
    decodes = 20_000

    @jax.jit
    def run():
        return sample(
            jnp.zeros((1, 2), jnp.int32),
            {},
            lambda s: (jnp.tile(jnp.asarray(LOGITS), (decodes, 1)), s.cache),
            eos_id=99,
            num_decodes=decodes,
            warpers=(warper,),
            seed=3,
        )

    tokens = np.asarray(run()[0])[0]
    check_counts(np.bincount(tokens[:, 0], minlength=8), PROBS)
    for first in range(1, 6):
        weights = PROBS.copy()
        # Logits are negative, so the penalty multiplies them by 3.
        weights[first] = 0.0 if blocking else weights[first] ** 3
        second = tokens[tokens[:, 0] == first, 1]
        assert len(second) > 500
        check_counts(np.bincount(second, minlength=8), weights / weights.sum())


@pytest.mark.parametrize(
    "vocab", [1, 2, 5, 9, pytest.param(1000, marks=pytest.mark.long)]
)
def test_draw_frequencies(vocab):
    rng = np.random.RandomState(vocab)
    probs = rng.dirichlet(np.full(vocab, 0.7))
    probs[rng.permutation(vocab)[: vocab // 3]] = 0
    probs /= probs.sum()
    logits = np.where(probs > 0, np.log(np.maximum(probs, 1e-30)), LOWEST)
    rows = 40_000
    keys = jax.random.split(jax.random.PRNGKey(0), rows)
    tokens, log_probs = jax.jit(draw)(keys, jnp.tile(jnp.float32(logits), (rows, 1)))
    np.testing.assert_allclose(log_probs, np.log(probs[tokens]), rtol=1e-4, atol=1e-5)
    counts = np.bincount(tokens, minlength=vocab)
    assert not counts[probs == 0].any()
    # Rare tokens share a cell, because the test needs a handful in each.
    rare = probs * rows < 10
    cells = [*counts[~rare], counts[rare].sum()]
    wanted = [*probs[~rare], probs[rare].sum()]
    if wanted[-1] == 0:
        cells, wanted = cells[:-1], wanted[:-1]
    if len(cells) > 1:
        assert stats.chisquare(cells, np.array(wanted) * rows).pvalue > 1e-3
