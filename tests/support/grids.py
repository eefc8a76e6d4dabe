"""Parameters of tests of which `make test` runs a part, and `make test-long` the rest.

Both commands together run every case.
"""

from collections.abc import Iterable
from typing import Any

import pytest


def first(number: int, cases: Iterable[Any]) -> list[Any]:
    """Returns the cases in the same order; those after the first `number` are long.

    Args:
        number: number of cases of `make test`.
        cases: a value, a tuple of values, or a `pytest.param` for each case.
    """
    found = list(cases)
    return [*found[:number], *map(_long, found[number:])]


def diagonal(
    names: str, rows: Iterable[Any], columns: Iterable[Any], **options: Any
) -> Any:
    """Returns a decorator for all pairs of rows and columns.

    The pairs of the repeated diagonal contain each row and each column; all other pairs
    are long.

    Args:
        names: names of the values of a row, then of a column, with commas.
        rows: a value or a tuple of values for each row.
        columns: a value or a tuple of values for each column.
        **options: options of `pytest.mark.parametrize`.
    """
    rows, columns = list(rows), list(columns)
    period = min(len(rows), len(columns))
    cases = []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            case = (*_values(row), *_values(column))
            cases.append(case if (i - j) % period == 0 else _long(case))
    return pytest.mark.parametrize(names, cases, **options)


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)


def _long(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        marks = [*case.marks, pytest.mark.long]
        return pytest.param(*case.values, marks=marks, id=case.id)
    return pytest.param(*_values(case), marks=pytest.mark.long)
