"""Planned comparisons, compared with simulations and normal theory."""

import math

import numpy as np
import pytest
from scipy import stats

from jaxaug.metrics.bootstrap import FIGURES, Bootstrap, Group, Variances
from jaxaug.metrics.power import (
    dialogues_for,
    power,
    seeds_for,
    smallest_difference,
    text_power,
)
from jaxaug.metrics.statistics import HEADLINE, Difference, Statistics

SIZE = len(FIGURES)


def variances(*seeds, dialogues=0.04):
    return Variances(
        tuple(np.full(SIZE, part) for part in seeds),
        np.full(SIZE, dialogues),
        np.full(SIZE, 400),
    )


def simulated(rng, difference, seeds, dialogues, of_seeds, of_dialogues):
    """Returns a bootstrap of two configurations with a known difference."""
    right = rng.normal(0.5, 0.2, dialogues)
    noise = np.concatenate([rng.normal(0, of_seeds, seeds) for _ in range(2)])
    shift = np.repeat([difference, 0.0], seeds) + noise
    own = np.repeat(rng.normal(0, of_dialogues, (2, dialogues)), seeds, axis=0)
    values = (right + shift[:, None] + own)[:, None]
    return Bootstrap(
        values, np.ones_like(values), lambda s, c: s / c, resamples=300, seed=1
    )


def groups(seeds):
    names = [str(n) for n in range(2 * seeds)]
    return (
        Group("a", tuple(range(seeds)), tuple(names[:seeds])),
        Group("b", tuple(range(seeds, 2 * seeds)), tuple(names[seeds:])),
    )


@pytest.mark.parametrize(("seeds", "dialogues"), [(3, 150), (6, 40)])
def test_power_is_the_share_of_simulated_studies_that_show_the_difference(
    seeds, dialogues
):
    of_seeds, of_dialogues = 0.03, 0.15
    known = variances(of_seeds**2, of_seeds**2, dialogues=2 * of_dialogues**2)
    difference = smallest_difference(HEADLINE, known, seeds, dialogues)
    assert power(difference, HEADLINE, known, seeds, dialogues) == pytest.approx(0.8)
    rng = np.random.default_rng(0)
    shown, told = 0, []
    for _ in range(300):
        boot = simulated(rng, difference, seeds, dialogues, of_seeds, of_dialogues)
        shown += float(boot.difference(*groups(seeds)).p[0]) < 0.05
        told.append(boot.variances(*groups(seeds)))
    # Four standard errors of a share of 0.8.
    assert shown / 300 == pytest.approx(0.8, abs=0.1)
    # Studies report the variances of the simulation.
    for part in range(2):
        found = np.mean([float(each.seeds[part][0]) for each in told])
        assert found == pytest.approx(of_seeds**2, rel=0.15)
    found = np.mean([float(each.dialogues[0]) for each in told])
    assert found == pytest.approx(2 * of_dialogues**2, rel=0.1)


def test_paired_seeds_have_one_part():
    boot = simulated(np.random.default_rng(0), 0.1, 3, 50, 0.03, 0.1)
    a, b = groups(3)
    b = b._replace(seeds=a.seeds)
    (part,) = boot.variances(a, b).seeds
    values = boot.values[:, 0]
    np.testing.assert_allclose(part[0], np.var(values[:3] - values[3:], ddof=1))
    one = a._replace(runs=(0,), seeds=("0",))
    assert boot.variances(one, b).seeds == ()


def test_large_samples_follow_normal_theory():
    known = variances(0.0, dialogues=0.09)
    factor = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    expected = factor * math.sqrt(0.09 / 10_000)
    found = smallest_difference(HEADLINE, known, 5, 10_000)
    assert found == pytest.approx(expected, rel=1e-3)
    needed = dialogues_for(0.01, HEADLINE, known, 5)
    assert needed == pytest.approx((factor / 0.01) ** 2 * 0.09, rel=0.025)


def test_numbers_that_cannot_be_reached():
    known = variances(0.0004, dialogues=0.04)
    # The dialogues alone vary by 1 point, and more seeds do not change that.
    assert seeds_for(0.01, HEADLINE, known, 400) is None
    assert seeds_for(0.03, HEADLINE, known, 400) == 29
    assert power(0.03, HEADLINE, known, 29, 400) >= 0.8
    assert power(0.03, HEADLINE, known, 28, 400) < 0.8
    # Two seeds alone vary by 1.4 points.
    assert dialogues_for(0.03, HEADLINE, known, 2) is None
    assert math.isnan(smallest_difference(HEADLINE, variances(9.0), 2, 400))
    assert power(0.01, HEADLINE, variances(0.0, dialogues=0.0), 2, 400) == 1


def test_text():
    boot = simulated(np.random.default_rng(0), 0.1, 3, 50, 0.03, 0.1)
    interval = boot.difference(*groups(3))
    wide = interval.__class__(*[np.full(SIZE, v[0]) for v in vars(interval).values()])
    known = variances(0.0004, dialogues=0.04)
    one = Difference("a", "b", wide, np.full(SIZE, 0.01), known, 5)
    text = text_power(Statistics((), (), [one], 300, 400, ()))
    found = 100 * smallest_difference(HEADLINE, known, 5, 400)
    assert f"a - b      5        400  {found:.1f} points" in text
    assert "- seeds or - dialogues" in text
    alone = Difference("a", "b", wide, np.full(SIZE, 0.01), known._replace(seeds=()), 1)
    assert "one seed: its variance is unknown" in text_power(
        Statistics((), (), [alone], 300, 400, ())
    )
    assert "at least two configurations" in text_power(
        Statistics((), (), (), 300, 400, ())
    )
