"""The plan of batches: every input occurs once, in few shapes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from t5x.search.decode_state import BROKEN

from jaxaug.core.buckets import Batch, in_batches, pad, plan, power_of_two
from jaxaug.core.errors import UserError


def test_plan_by_hand():
    #          0  1   2  3  4   5
    lengths = [3, 9, 16, 8, 1, 17]
    assert plan(lengths, 2) == [
        Batch((5,), 1, 32),
        Batch((1, 2), 2, 16),
        Batch((0, 3), 2, 8),
        Batch((4,), 2, 8),
    ]


@given(st.lists(st.integers(1, 70), min_size=1, max_size=50), st.integers(1, 12))
def test_each_input_once_in_one_shape_a_length(lengths, batch_size):
    batches = plan(lengths, batch_size)
    assert sorted(i for b in batches for i in b.indices) == list(range(len(lengths)))
    assert len({(b.rows, b.length) for b in batches}) == len(
        {b.length for b in batches}
    )
    for batch in batches:
        assert 1 <= len(batch.indices) <= batch.rows <= batch_size
        for index in batch.indices:
            # The length is a power of two, and less than twice the needed length.
            length = lengths[index]
            assert length <= batch.length < max(2 * length, 9)
    assert [b.length for b in batches] == sorted(b.length for b in batches)[::-1]


def test_powers_of_two():
    assert [power_of_two(n, 1) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 4, 8]
    assert power_of_two(2, 8) == 8


def test_filling_rows_repeat_the_first():
    expected = [[5, 1, 0], [7, 8, 1], [5, 1, 0]]
    np.testing.assert_array_equal(pad([[5, 1], [7, 8, 1]], 3, 3), expected)


TOKENS = [[1, 1, 1], [1] * 9, [1]]


def test_results_are_in_the_order_of_the_inputs():
    shapes = []

    def sums(rows, batch):
        shapes.append((batch.indices, rows.shape))
        return rows.sum(axis=1)

    found = in_batches(TOKENS, 2, sums, fit=lambda batch: batch._replace(rows=3))
    assert found == [3, 9, 1]
    assert shapes == [((1,), (3, 16)), ((0, 2), (3, 8))]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, "^minilm: its output for a text is nan"),
        (np.inf, "^minilm: its output for a text is inf"),
        (BROKEN, "^decoding step 9 .*of row 0"),
    ],
)
def test_numbers_that_are_not_finite_are_refused(bad, message):
    """Otherwise the greatest label of NaN would be the first one."""
    with pytest.raises(UserError, match=message):
        in_batches(TOKENS, 2, lambda rows, _: np.where(rows, rows, bad), name="minilm")
