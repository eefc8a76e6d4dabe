"""Paired differences over seeds."""

import numpy as np
import pytest

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
    assert found.mean == pytest.approx(0.1) and np.isnan([*found[1:3], found.p]).all()
