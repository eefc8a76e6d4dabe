"""Stars in tables of `jaxaug classify`: Holm over methods and classifiers."""

import numpy as np
import pytest

from jaxaug_papers.dips.classify import tables

BASE = np.array([0.50, 0.51, 0.52, 0.53, 0.54])


def cell(method, classifier, added):
    return tables.Cell(1.0, classifier, method, 10, BASE + np.array(added))


def test_stars_hold_after_the_correction():
    """Paired t-tests of the differences: p = 0.0001 and 0.0486; Holm: 0.0003, 0.0486.

    With a third test, 0.0486 is corrected to 0.0973.
    """
    clear, weak = [0.10, 0.11, 0.09, 0.12, 0.08], [0.03, 0.01, 0.05, 0.0, 0.04]
    cells = [cell("None", "A", [0] * 5), cell("One", "A", clear)]
    more = [*cells, cell("Two", "A", weak)]
    lines = tables.text_table(more, 1.0, {}).splitlines()
    assert [line.endswith("*") for line in lines[2:]] == [False, True, True]
    third = [*more, cell("Three", "A", [0.01, -0.01, 0.01, -0.02, 0.02])]
    lines = tables.text_table(third, 1.0, {}).splitlines()
    assert [line.endswith("*") for line in lines[2:]] == [False, True, False, False]
    # The interval itself is not corrected.
    assert "[+0.0, +5.2]" in lines[4]


def test_differences_of_pairs_resample_the_test_pairs():
    """Four test pairs, differences 0.5, 0, 1, 0.5: their mean and its t-interval."""
    ours = np.array([1.0, 0.5, 1.0, 0.5])
    theirs = np.array([0.5, 0.5, 0.0, 0.0])
    base, other = (
        cell(name, "A", [added] * 5)._replace(of_tests=right)
        for name, added, right in (("None", 0, theirs), ("One", 0.01, ours))
    )
    found = other.minus(base)
    values = ours - theirs
    # Quantile 0.975 of Student's t with 3 degrees of freedom.
    half = 3.182446 * values.std(ddof=1) / 2
    assert [found.mean, found.half_width] == [0.5, pytest.approx(half)]
    assert base.plain()["of_tests"] == [0.5, 0.5, 0.0, 0.0]
    plain = cell("None", "A", [0] * 5)
    assert plain.minus(plain).mean == 0 and plain.plain()["of_tests"] is None
