"""Paired differences over seeds."""

import numpy as np
import pytest
import scipy.stats

from jaxaug_papers.shared import seeds


def test_difference():
    found = seeds.difference(np.array([0.14, 0.20, 0.35]), np.array([0.1, 0.2, 0.3]))
    assert found.mean == pytest.approx(0.03)
    assert found.deviation == pytest.approx(np.std([0.04, 0, 0.05], ddof=1))
    # Quantile 0.975 of Student's t with 2 degrees of freedom.
    assert found.half_width == pytest.approx(4.302653 * found.deviation / 3**0.5)
    assert found.wins == 2
    # t is 1.964; with 2 degrees of freedom p is 1 - t / sqrt(2 + t^2).
    t = found.mean / (found.deviation / 3**0.5)
    assert found.p == pytest.approx(1 - t / (2 + t * t) ** 0.5)


def test_one_seed_has_no_deviation():
    found = seeds.difference(np.array([0.2]), np.array([0.1]))
    assert found.mean == pytest.approx(0.1) and np.isnan([*found[1:4], found.p]).all()


def test_seeds_and_test_sentences_together():
    """Both parts of the variance add up, over 4 seeds and 1,000 sentences."""
    rng = np.random.default_rng(0)
    seed, test = rng.normal(0, 0.1, (4, 1)), rng.normal(0, 3, (1, 1000))
    found = seeds.difference(seed + test, np.zeros((4, 1000)))
    parts = seed.var(ddof=1) / 4, test.var(ddof=1) / 1000
    assert found.error == pytest.approx(sum(parts) ** 0.5)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 999)
    t = scipy.stats.t(freedom)
    assert found.half_width == pytest.approx(t.ppf(0.975) * found.error)
    assert found.p == pytest.approx(2 * t.sf(abs(found.mean) / found.error))
