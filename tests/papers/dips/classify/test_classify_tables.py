"""Stars in tables of `jaxaug classify`: Holm over methods and classifiers."""

import numpy as np

from jaxaug_papers.dips.classify import tables

BASE = np.array([0.50, 0.51, 0.52, 0.53, 0.54])
TESTS = 100_000  # Enough that only seeds count.


def cell(method, classifier, added):
    right = np.arange(TESTS) < np.round(TESTS * (BASE + added))[:, None]
    return tables.Cell(1.0, classifier, method, 10, right)


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


def test_bits_of_a_cell_in_json():
    right = np.array([[True, False], [False, False]])
    plain = tables.Cell(1.0, "A", "None", 10, right).plain()
    assert plain["right"] == ["10", "00"] and plain["accuracy"] == [0.5, 0.0]
