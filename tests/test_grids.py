"""`make test` and `make test-long` share the cases of a grid."""

import pytest

from tests.support import grids

LONG = pytest.mark.long


def test_cases_after_the_first_are_long():
    named = pytest.param("d", marks=pytest.mark.slow, id="fourth")
    cases = grids.first(2, ["a", ("b", 1), "c", named])
    assert cases[:2] == ["a", ("b", 1)]
    assert cases[2] == pytest.param("c", marks=LONG)
    assert cases[3].values == ("d",) and cases[3].id == "fourth"
    assert [mark.name for mark in cases[3].marks] == ["slow", "long"]


@pytest.mark.parametrize(("height", "width"), [(7, 3), (2, 9), (4, 4), (1, 5)])
def test_a_diagonal_has_each_row_and_each_column(height, width):
    rows = [(f"row {i}", i) for i in range(height)]
    decorator = grids.diagonal("name, i, j", rows, range(width))
    names, cases = decorator.args
    assert names == "name, i, j" and len(cases) == height * width
    short = [case for case in cases if type(case) is tuple]
    assert len(short) == max(height, width)
    assert {case[1] for case in short} == {*range(height)}
    assert {case[2] for case in short} == {*range(width)}
    rest = [case for case in cases if type(case) is not tuple]
    assert all([mark.name for mark in case.marks] == ["long"] for case in rest)
    every = {*short, *(case.values for case in rest)}
    assert every == {(*row, j) for row in rows for j in range(width)}
