"""Student's distribution against values of scipy 1.17 (stdtr, stdtrit, nctdtr)."""

import math

import numpy as np
import pytest

from jaxaug.metrics import student


@pytest.mark.parametrize(
    ("freedom", "far", "below", "above", "quantile"),
    [
        (0.3, 0.1155641630150127, 0.2821348494803913, 0.6271884556167513, 6582.0356994),
        (1, 0.0079560899120258, 0.14758361765043326, 0.6944001122142147, 12.7062047362),
        (2.5, 7.09781714524669e-05, 0.078695747878983, 0.728297528405226, 3.5746548420),
        (30, 6.863022597203209e-28, 0.0273125224814915, 0.75533977825016, 2.0422724563),
        (1e4, 0.0, 0.022763630330717714, 0.7580282059099417, 1.9602012399),
        (1e7, 0.0, 0.02275014544592148, 0.7580363396349059, 1.9599642218),
    ],
)
def test_central(freedom, far, below, above, quantile):
    found = student.cdf(freedom, [-40, -2, 0, 0.7])
    np.testing.assert_allclose(found, [far, below, 0.5, above], rtol=1e-9, atol=1e-300)
    assert student.quantile(freedom, 0.975) == pytest.approx(quantile, rel=1e-9)


def test_hardly_any_freedom_has_no_quantile():
    assert student.quantile(1e-9, 0.975) == math.inf


@pytest.mark.parametrize(
    ("freedom", "shift", "t", "expected"),
    [
        (3, 2.8, 3.1824463, 0.5171102740510343),
        (9.3, 2.8, 2.25, 0.2929289328874459),
        (9.3, 0, -1, 0.171308846385538),
        (400, 3, 1.966, 0.15086326524002566),
        (1e6, 2.5, 1.96, 0.29459852608281434),
    ],
)
def test_noncentral(freedom, shift, t, expected):
    found = student.noncentral_cdf(freedom, shift, t)
    assert found == pytest.approx(expected, abs=1e-10)
