"""Top-k and top-p masks, compared with sorting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from t5x import binary_search

topk_mask = jax.jit(binary_search.topk_mask)
topp_mask = jax.jit(binary_search.topp_mask)
# Without zeros and subnormal numbers, which are equal for XLA but not for NumPy.
numbers = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)
rows = hnp.arrays(np.float32, (3, 6), elements=numbers.filter(bool), fill=st.just(1.5))
logit_rows = hnp.arrays(np.float32, (3, 6), elements=st.integers(-8, 8))


@given(rows, st.integers(1, 7))
def test_topk_keeps_logits_of_at_least_the_kth_largest(x, k):
    kth = np.sort(x, axis=-1)[:, ::-1][:, min(k, 6) - 1 : min(k, 6)]
    expected = np.where(x >= kth, x, np.float32(-1e7))
    np.testing.assert_array_equal(topk_mask(x, k, -1e7), expected)


@given(logit_rows, st.floats(0.05, 0.95))
def test_topp_keeps_the_smallest_sufficient_set(logits, p):
    masked = np.asarray(topp_mask(logits, p, -1e7))
    probs = np.exp(logits.astype(np.float64))
    probs /= probs.sum(-1, keepdims=True)
    for row, prob, kept in zip(logits, probs, masked > -1e6, strict=True):
        mass, least = prob[kept].sum(), prob[kept].min()
        assert mass >= p - 1e-5
        assert kept[row >= row[kept].min()].all()
        # Without the least probable kept tokens the mass would not suffice.
        assert prob[kept & (prob > least * (1 + 1e-9))].sum() < p + 1e-5


def test_exact_examples():
    x = jnp.log(jnp.array([0.5, 0.3, 0.15, 0.05]))

    def kept(masked):
        return (np.asarray(masked) > -1e6).tolist()

    assert kept(topp_mask(x, 0.5, -1e7)) == [True, False, False, False]
    assert kept(topp_mask(x, 0.6, -1e7)) == [True, True, False, False]
    assert kept(topp_mask(x, 1.0, -1e7)) == [True] * 4
    assert kept(topk_mask(x, 3, -1e7)) == [True, True, True, False]
    assert kept(topk_mask(x, 9, -1e7)) == [True] * 4
    ties = jnp.array([2.0, 1.0, 1.0, 0.0])
    assert kept(topk_mask(ties, 2, -1e7)) == [True, True, True, False]


def test_search_of_floats():
    largest = np.finfo(np.float32).max
    wanted = np.array([[-2.5, 0.5, 1e-3], [largest, -largest, 3e4]], np.float32)
    found = jax.jit(
        lambda: binary_search.float32_bsearch(wanted.shape, lambda x: x > wanted)
    )()
    np.testing.assert_array_equal(found, wanted)
    always, never = (
        binary_search.float32_bsearch((1,), lambda x, v=v: jnp.full(x.shape, v))
        for v in (True, False)
    )
    assert always.tolist() == [-np.inf] and never.tolist() == [largest]


def test_masks_without_jit():
    x = jnp.array([[0.5, 2.0, 1.0]])
    with jax.disable_jit():
        np.testing.assert_array_equal(
            binary_search.topk_mask(x, 2, -9.0), [[-9.0, 2.0, 1.0]]
        )
        np.testing.assert_array_equal(
            binary_search.topp_mask(x, 0.5, -9.0), [[-9.0, 2.0, -9.0]]
        )


def test_keeps_the_type_of_the_logits():
    x = jnp.array([[1.0, 3.0, 2.0]], jnp.bfloat16)
    assert binary_search.topk_mask(x, 1, -1e7).dtype == jnp.bfloat16
    masked = binary_search.topp_mask(x, 0.5, -1e7)
    assert masked.dtype == jnp.bfloat16
    assert masked[0, 1] == 3.0


@pytest.mark.parametrize("p", [1.0, 1, 1.5])
def test_a_mass_of_one_keeps_the_tail(p):
    """Float32 sums of the largest probabilities reach 1 long before the last ones."""
    x = jnp.linspace(0.0, -60.0, 1000)
    assert float(jnp.cumsum(jax.nn.softmax(x))[400]) >= 1 - 1e-6
    np.testing.assert_array_equal(binary_search.topp_mask(x, p, -1e7), x)
    traced = jax.jit(lambda p: binary_search.topp_mask(x, p, -1e7))
    np.testing.assert_array_equal(traced(float(p)), x)
    assert (np.asarray(traced(0.5)) == -1e7).sum() > 900
