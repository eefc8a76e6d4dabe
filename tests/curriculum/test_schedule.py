"""Schedules: the level at each step, and the number of visits."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.curriculum import schedule

STEPS = st.integers(1, 9)
LEVELS = st.integers(1, 6)
FRACTION = st.floats(0, 0.9)
CYCLES = st.integers(1, 4)


def shown(found: schedule.Schedule, step: int) -> int:
    """Returns the level of a stage: the hardest level with a weight."""
    return max(level for level, weight in enumerate(found(step)) if weight)


def visits(found: schedule.Schedule) -> list[int]:
    """Returns the level of each step."""
    return [shown(found, step) for step in range(found.steps)]


@given(STEPS, LEVELS, FRACTION)
def test_gradual_shows_each_level_once_from_easy_to_hard(steps, levels, fraction):
    found = schedule.gradual(steps, levels, fraction)
    assert visits(found) == [step // steps for step in range(steps * (levels + 1))]
    for step in range(found.steps):
        level = step // steps
        expected = [0.0] * (levels + 1)
        expected[0] += fraction
        expected[level] += 1 - fraction
        assert found(step) == pytest.approx(expected)


@given(STEPS, LEVELS, FRACTION)
def test_inverse_is_gradual_backwards(steps, levels, fraction):
    up = schedule.gradual(steps, levels, fraction)
    down = schedule.inverse(steps, levels, fraction)
    assert visits(down) == visits(up)[::-1]


@given(STEPS, LEVELS, FRACTION, CYCLES)
def test_cycles_repeat_every_level_equally_often(steps, levels, fraction, cycles):
    once = visits(schedule.gradual(steps, levels, fraction))
    cyclic = visits(schedule.cyclic(steps, levels, fraction, cycles))
    assert cyclic == once * cycles
    turning = visits(schedule.inverse_cyclic(steps, levels, fraction, cycles))
    expected = [once[:: (-1) ** cycle] for cycle in range(cycles)]
    assert turning == [level for cycle in expected for level in cycle]
    counts = {level: cycles * steps for level in range(levels + 1)}
    assert collections.Counter(cyclic) == collections.Counter(turning) == counts


@given(STEPS, LEVELS, FRACTION)
def test_two_stages_are_originals_and_then_all_levels(steps, levels, fraction):
    found = schedule.two_stage(steps, levels, fraction)
    half = (levels + 1) * steps // 2
    assert found.steps == (levels + 1) * steps
    for step in range(found.steps):
        if step < half:
            assert found(step) == (1.0, *[0.0] * levels)
        else:
            each = (1 - fraction) / levels
            assert found(step) == pytest.approx((fraction, *[each] * levels))


@given(STEPS, LEVELS, FRACTION, CYCLES)
def test_random_shows_the_same_shares_as_gradual_at_every_step(
    steps, levels, fraction, cycles
):
    found = schedule.random(steps, levels, fraction, cycles)
    gradual = schedule.cyclic(steps, levels, fraction, cycles)
    assert found.steps == gradual.steps
    columns = zip(*(gradual(step) for step in range(gradual.steps)), strict=True)
    mean = [sum(column) / gradual.steps for column in columns]
    assert {found(step) for step in range(found.steps)} == {found(0)}
    assert found(0) == pytest.approx(mean)


@given(STEPS, LEVELS, FRACTION)
def test_the_last_stage_has_no_end(steps, levels, fraction):
    for name in ("gradual", "cyclic", "inverse", "two_stage", "random"):
        found = getattr(schedule, name)(steps, levels, fraction)
        assert sum(found(0)) == pytest.approx(1.0)
        assert found(found.steps) == found(10**9) == found(found.steps - 1)


def test_a_fifth_of_every_stage_is_original_data_by_default():
    for name in ("gradual", "cyclic", "inverse", "inverse_cyclic", "two_stage"):
        found = getattr(schedule, name)(3)
        assert found.levels == 5
        for step in range(found.steps):
            assert found(step)[0] in (pytest.approx(0.2), 1.0)


def test_user_defined_stages_change_exactly_at_their_ends():
    found = schedule.staged((25, 50, 90), ((1, 0), (1, 3), (0, 2)), ("easy", "hard"))
    assert found(0) == found(24) == (1.0, 0.0)
    assert found(25) == found(49) == (0.25, 0.75)
    assert found(50) == found(89) == found(700) == (0.0, 1.0)
    assert (found.steps, found.names) == (90, ("easy", "hard"))


@pytest.mark.parametrize(
    ("ends", "weights", "message"),
    [
        ((5,), ((1,), (1,)), "1 stage ends and 2 rows of weights"),
        ((), (), "0 stage ends and 0 rows of weights"),
        ((5, 5), ((1,), (1,)), "must rise strictly from above 0"),
        ((0, 5), ((1,), (1,)), "must rise strictly from above 0"),
        ((5, 9), ((1,), (1, 2)), r"each of the 1 levels, got rows of \[1, 2\]"),
        ((5, 9), ((1, 1), (0, 0)), "stage 1 has weights"),
        ((5, 9), ((1, -1), (1, 1)), "weights is .*of at least 0"),
    ],
)
def test_wrong_stages_are_refused(ends, weights, message):
    with pytest.raises(UserError, match=message):
        schedule.staged(ends, weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps_per_level": 0},
         "steps_per_level is 0: give a whole number of at least 1"),
        ({"steps_per_level": 1, "levels": 0},
         "levels is 0: give a whole number from 1"),
        ({"steps_per_level": 2.5}, "steps_per_level is 2.5: give a whole number"),
        ({"steps_per_level": 1, "levels": 2.5}, "levels is 2.5: give a whole number"),
        (
            {"steps_per_level": 1, "cycles": 0},
            "cycles is 0: give a whole number from 1",
        ),
        (
            {"steps_per_level": 1, "original_fraction": 1.2},
            "original_fraction is 1.2: give a finite number from 0 to 1",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(arguments, message):
    for name in ("cyclic", "inverse_cyclic", "random"):
        with pytest.raises(UserError, match=message):
            getattr(schedule, name)(**arguments)


def test_a_curriculum_after_short_prompts():
    found = schedule.after_short_prompts(schedule.gradual(10, 1), (5, 7))
    assert found.names == ("short2", "short5", "0", "1")
    assert found.ends == (5, 12, 22, 32)
    assert found(4) == (1, 0, 0, 0)
    assert found(11) == (0, 1, 0, 0)
    assert found(12) == pytest.approx((0.05, 0.05, 0.9, 0))
    assert found(22) == pytest.approx((0.05, 0.05, 0.18, 0.72))


def test_stages_of_unequal_length():
    """COVID-Q and Amazon in Wei et al. (2021), in thousands of updates."""
    covid, amazon = (6, 4, 4, 3, 3, 4), (10, 8, 6, 8, 8, 8)
    assert schedule.gradual(covid).ends == (6, 10, 14, 17, 20, 24)
    twice = schedule.cyclic(amazon)
    assert twice.ends == (10, 18, 24, 32, 40, 48, 58, 66, 72, 80, 88, 96)
    assert twice.weights[6:] == twice.weights[:6] == schedule.cyclic(8).weights[:6]
    assert schedule.inverse(covid).ends == (4, 7, 10, 14, 18, 24)
    assert schedule.inverse_cyclic(covid).ends[5:8] == (24, 28, 31)


def test_random_order_shows_the_same_as_unequal_stages():
    steps = (6, 4, 4, 3, 3, 4)
    found, ordered = schedule.random(steps), schedule.gradual(steps)
    shown = [ordered(step) for step in range(ordered.steps)]
    assert found.steps == ordered.steps == 24
    np.testing.assert_allclose(found(0), np.mean(shown, axis=0))


def test_two_stages_of_unequal_length():
    found = schedule.two_stage((7, 2), levels=1)
    assert found.ends == (7, 9)
    assert found.weights == ((1.0, 0.0), (0.2, 0.8))


@pytest.mark.parametrize(
    "make, steps",
    [(schedule.gradual, (6, 4, 4, 3, 3)), (schedule.two_stage, (6, 4, 4, 3, 3, 4))],
)
def test_a_number_for_each_stage(make, steps):
    with pytest.raises(UserError, match=r"steps_per_level is \(6, 4, .* of each level"):
        make(steps)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_invalid_numbers_are_refused(bad):
    with pytest.raises(UserError, match="weights is .*finite number of at least 0"):
        schedule.staged((2, 4), ((1.0, 0.0), (1.0, bad)))
