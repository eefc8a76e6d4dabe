"""The excess by brute force, its test by enumeration, and simulated servers."""

import itertools

import numpy as np
import pytest

from benchmarks import sensitivity
from benchmarks.sensitivity import Setting
from jaxaug.metrics import excess

WORDINGS = np.array([0, 0, 0, 1, 2, 2])


def test_disagreement_by_brute_force():
    scores = np.random.default_rng(0).integers(0, 4, (20, 6)) / 3
    found = excess.disagreement(scores, WORDINGS)
    for row, between, within in zip(scores, *found, strict=True):
        pairs = {
            pair: [] for pair in itertools.combinations_with_replacement(range(3), 2)
        }
        for one, other in itertools.combinations(range(6), 2):
            pair = WORDINGS[one], WORDINGS[other]
            pairs[pair].append((row[one] - row[other]) ** 2)
        means = {pair: np.mean(found) for pair, found in pairs.items() if found}
        assert between == pytest.approx(
            np.mean([v for (a, b), v in means.items() if a != b])
        )
        assert within == pytest.approx(np.mean([means[0, 0], means[2, 2]]))


def test_p_value_by_enumeration():
    """Two cases with two right and two wrong answers each.

    Of 6 * 6 permutations, 2 put all right answers under one wording. Nothing else is as
    extreme: the excess alone is as great in 4 of 36.
    """
    scores = np.array([[1.0, 1, 0, 0]] * 2)
    wordings, alone = np.array([0, 0, 1, 1]), np.arange(2)
    found = excess.permutation_test(scores, wordings, alone, 9999)
    assert found.p == pytest.approx(2 / 36, abs=0.01)
    # The excess of a case is 1 in 2 of 6 permutations, and -1/2 in the others.
    assert found.deviation == pytest.approx(0.5, abs=0.02)
    # In one cluster both cases have the same permutation.
    together = excess.permutation_test(scores, wordings, alone * 0, 9999).p
    assert together == pytest.approx(2 / 6, abs=0.02)
    assert excess.permutation_test(scores * 0, wordings, alone) == (1, 0, 1)


def test_cases_needed():
    """5.5 changed cases are enough if no answer is noise."""
    right, wordings = np.ones((30, 6)), WORDINGS
    assert excess.cases_needed(right, wordings, np.arange(30), 0.05) == 110
    noisy = (np.random.default_rng(0).random((30, 6)) < 0.7).astype(float)
    assert 500 < excess.cases_needed(noisy, wordings, np.arange(30), 0.05) < 5000


@pytest.mark.parametrize("accuracy", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("cases", [30, 100])
def test_blind_servers_are_not_called_sensitive(accuracy, cases):
    assert sensitivity.found(Setting("blind", accuracy, cases, 2), 60, 99) <= 0.05


@pytest.mark.parametrize(("server", "repeats"), [("steady", 1), ("noisy", 5)])
def test_planted_losses_are_found(server, repeats):
    setting = Setting(server, 0.8, 100, repeats, 0.1)
    assert sensitivity.found(setting, 25, 199) >= 0.8
