"""Sparse subset selection against plain Python and the exhaustive optimum."""

import math

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_kit import beam_step, select, words

from jaxaug.core.errors import UserError
from jaxaug.decode import ssr

greedy_select = jax.jit(ssr.greedy_select, static_argnames="k")


def saving(distances):
    """Of index lists: what they spare, against no representative (distance 1)."""
    distances = np.asarray(distances, float)

    def value(chosen):
        if not len(chosen):
            return 0.0
        return float(np.sum(1 - distances[:, list(chosen)].min(axis=1)))

    return value


def random_distances(seed, count):
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, 5, rng.integers(1, 9)).tolist() for _ in range(count)]
    return np.array([[naive.dissimilarity(a, b) for b in rows] for a in rows])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_greedy_equals_plain_python_and_its_guarantee(seed):
    distances = random_distances(seed, 8)
    value = saving(distances)
    found = greedy_select(jnp.array(distances), k=3).tolist()
    assert found == naive.greedy(value, 8, 3)
    best, _ = naive.best_subset(value, 8, 3)
    assert value(found) >= (1 - 1 / math.e) * best


def test_ratio_to_the_exhaustive_optimum():
    """Over 60 random sets: 99.4 % of the largest saving, 96.5 % in the worst."""
    ratios = []
    for seed in range(60):
        distances = random_distances(seed, 9)
        value = saving(distances)
        found = greedy_select(jnp.array(distances), k=3).tolist()
        best, _ = naive.best_subset(value, 9, 3)
        ratios.append(value(found) / best)
    assert np.mean(ratios) > 0.99
    assert 0.95 < np.min(ratios) <= np.max(ratios) <= 1 + 1e-6


def test_representatives_of_clear_groups():
    points = np.array([0.0, 0.1, 0.12, 0.6, 0.61, 0.62, 0.9])
    distances = jnp.array(np.abs(points[:, None] - points))
    # The item nearest to all is first; then one of each group that is still far.
    assert greedy_select(distances, k=3).tolist() == [3, 1, 6]
    assert greedy_select(jnp.zeros((4, 4)), k=4).tolist() == [0, 1, 2, 3]


def test_what_is_not_valid_needs_no_representative():
    distances = jnp.array([[0, 1, 1.0], [1, 0, 0.1], [1, 0.1, 0]])
    valid = jnp.array([True, False, False])
    assert greedy_select(distances, k=3, valid=valid).tolist() == [0, 1, 2]
    assert greedy_select(distances, k=1).tolist() == [1]


def test_k_must_fit():
    with pytest.raises(UserError, match="k = 0, but the set has 3 candidates"):
        ssr.greedy_select(jnp.eye(3), 0)


def test_select_represents_the_candidates_of_a_step():
    found = jax.jit(lambda c: select(ssr, c))(beam_step([[1, 2], [4] * 9])).tolist()
    rows = words()
    value = saving([[naive.dissimilarity(a, b) for b in rows] for a in rows])
    assert found[0] == naive.greedy(value, len(rows), 3)
    assert found[0] != [0, 1, 2]
    assert found[1] == [0, 1, 2]


def test_fillers_come_last():
    found = select(ssr, beam_step([[1]], fillers=5))
    assert sorted(found[0, :2].tolist()) == [0, 1]
    with pytest.raises(
        UserError, match="probability=2: expected a finite number from 0 to 1"
    ):
        select(ssr, beam_step([[1]]), probability=2)
