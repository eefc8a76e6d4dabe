import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.curriculum import schedule
from jaxaug.errors import UserError


def test_stages_change_exactly_at_their_ends():
    stage = schedule.staged((0.25, 0.5), ((1, 0), (1, 3), (0, 2)))
    assert stage(0.0) == stage(0.2499) == (1.0, 0.0)
    assert stage(0.25) == stage(0.4999) == (0.25, 0.75)
    assert stage(0.5) == stage(0.99) == stage(7.0) == (0.0, 1.0)


def test_prompt_stages_end_with_nine_tenths_whole_prompts():
    stage = schedule.staged(schedule.PROMPT_STAGE_ENDS, schedule.PROMPT_STAGE_WEIGHTS)
    assert stage(0.1) == (1.0, 0.0, 0.0)
    assert stage(0.3) == (0.0, 1.0, 0.0)
    assert stage(0.9) == pytest.approx((0.05, 0.05, 0.9))


@given(st.lists(st.floats(0.01, 9.0), min_size=2, max_size=5), st.floats(0, 2))
def test_weights_always_sum_to_one(weights, progress):
    stage = schedule.staged((0.5,), (weights, weights[::-1]))
    assert sum(stage(progress)) == pytest.approx(1.0)


def test_table_never_draws_a_level_of_weight_zero():
    stage = schedule.staged((0.5,), ((1, 0), (1, 1)))
    table = schedule.table(stage, 4)
    np.testing.assert_array_equal(
        table["weights"], [[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5]]
    )
    assert np.isneginf(table["logits"][0, 1])


@pytest.mark.parametrize(
    ("ends", "weights", "message"),
    [
        ((0.5,), ((1,),), "1 stage ends need 2 rows of weights, got 1"),
        ((0.5, 0.5), ((1,), (1,), (1,)), "must rise strictly within"),
        ((1.5,), ((1,), (1,)), "must rise strictly within"),
        ((0.5,), ((1,), (1, 2)), r"got rows of \[1, 2\]"),
        ((0.5,), ((1, 1), (0, 0)), "stage 1 has weights"),
        ((0.5,), ((1, -1), (1, 1)), "stage 0 has weights"),
    ],
)
def test_wrong_schedules_are_refused(ends, weights, message):
    with pytest.raises(UserError, match=message):
        schedule.staged(ends, weights)


def test_stages_in_examples_when_rows_are_packed():
    # Of 100 steps with one row each: 20 x 6 short examples, then 80 rows in which
    # three of four examples fill half a row and one a sixth: 2.4 a row.
    ends, mean = schedule.in_examples((0.2,), ((1, 0), (1, 3)), (6.0, 2.0))
    assert mean == pytest.approx(0.2 * 6 + 0.8 * 2.4)
    assert ends == pytest.approx((1.2 / mean,))


def test_stages_in_examples_are_those_in_steps_without_packing():
    ends = schedule.PROMPT_STAGE_ENDS
    found, mean = schedule.in_examples(ends, schedule.PROMPT_STAGE_WEIGHTS, (1, 1, 1))
    assert found == pytest.approx(ends)
    assert mean == pytest.approx(1.0)


@pytest.mark.parametrize("per_row", [(1.0,), (1.0, 0.0)])
def test_wrong_examples_per_row_is_refused(per_row):
    with pytest.raises(UserError, match="one positive number for each of the 2"):
        schedule.in_examples((0.5,), ((1, 0), (0, 1)), per_row)
