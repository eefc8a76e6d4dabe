"""Schema sensitivity, compared with hand-computed frames and a brute-force loop."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.metrics.sensitivity import (
    ORIGINAL,
    VARIANTS,
    coefficient_of_variation,
    robustness,
    schema_sensitivity,
)


def test_frames_worked_by_hand():
    scores = np.array(
        # always right, right once in five, always wrong, two of five
        [
            [1.0, 1.0, 0.0, 1.0],
            [1.0, 0.0, 0.0, 1.0],
            [1.0, 0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0, 0.0],
        ]
    )
    got = coefficient_of_variation(scores)
    # 1 of 5: mean 0.2, variance (0.8^2 + 4 * 0.2^2) / 4 = 0.2; 2 of 5: 0.4 and 0.3.
    expected = [0.0, math.sqrt(0.2) / 0.2, math.nan, math.sqrt(0.3) / 0.4]
    assert got == pytest.approx(expected, nan_ok=True)
    total = math.sqrt(0.2) / 0.2 + math.sqrt(0.3) / 0.4
    assert schema_sensitivity(scores) == pytest.approx(total / 3)
    assert schema_sensitivity(scores, all_frames=True) == pytest.approx(total / 4)


def test_frames_without_slots_take_no_part():
    scores = np.array([[1.0, np.nan], [0.0, np.nan]])
    alone = math.sqrt(0.5) / 0.5
    assert schema_sensitivity(scores) == pytest.approx(alone)
    assert schema_sensitivity(scores, all_frames=True) == pytest.approx(alone)


def test_nothing_defined_gives_none():
    assert schema_sensitivity(np.zeros((5, 3))) is None
    assert schema_sensitivity(np.zeros((5, 3)), all_frames=True) == 0.0
    assert schema_sensitivity(np.zeros((5, 0)), all_frames=True) is None


def test_one_variant_is_refused():
    with pytest.raises(ValueError, match="compares at least 2 variants, got 1"):
        schema_sensitivity(np.ones((1, 4)))


def brute_force(columns, all_frames):
    values = []
    for column in columns:
        if statistics.fmean(column) > 0:
            values.append(statistics.stdev(column) / statistics.fmean(column))
        elif all_frames:
            values.append(0.0)
    return statistics.fmean(values) if values else None


SCORES = st.sampled_from([0.0, 0.25, 0.81, 1.0])


@given(st.lists(st.lists(SCORES, min_size=5, max_size=5), max_size=8), st.booleans())
def test_equals_brute_force(columns, all_frames):
    table = np.array(columns, float).reshape(-1, 5).T
    expected = brute_force(columns, all_frames)
    assert schema_sensitivity(table, all_frames) == pytest.approx(expected, abs=1e-12)


def test_equal_scores_have_no_sensitivity_at_all():
    scores = np.full((5, 1), 0.1 + 0.2)
    assert coefficient_of_variation(scores).tolist() == [0.0]


NAMES = (("a", 0, "Seen_1"), ("a", 2, "Seen_1"), ("b", 0, "New_1"))


def frames(values):
    """Returns two frames of a seen service and one of an unseen service."""
    everything = dict(zip(NAMES, values, strict=True))
    groups = {"": everything, "_seen": {}, "_unseen": {}}
    for name, value in everything.items():
        groups["_seen" if name[2] == "Seen_1" else "_unseen"][name] = value
    return groups


def test_robustness_report():
    table = [(1, 1, 1), (1, 0, 1), (1, 0, 0), (1, 0, 0), (1, 0, 0)]
    scores = {name: frames(row) for name, row in zip(VARIANTS, table, strict=True)}
    scores[ORIGINAL] = frames((1, 1, 0))
    once, twice = math.sqrt(0.2) / 0.2, math.sqrt(0.3) / 0.4
    assert robustness(scores) == pytest.approx(
        {
            "jga_orig": 2 / 3, "jga_orig_seen": 1.0, "jga_orig_unseen": 0.0,
            "jga_v1_5": (1 + 2 / 3 + 3 * 1 / 3) / 5, "jga_v1_5_seen": 0.6,
            "jga_v1_5_unseen": 0.4, "ss_jga": (0 + once + twice) / 3,
            "ss_jga_seen": once / 2, "ss_jga_unseen": twice,
            "ss_jga_all_frames": (0 + once + twice) / 3,
            "ss_jga_all_frames_seen": once / 2, "ss_jga_all_frames_unseen": twice,
            "frames": 3,
        }
    )  # fmt: skip


def test_robustness_rests_on_the_frames_that_all_variants_share():
    scores = {name: frames((1, 1, 1)) for name in VARIANTS}
    for group in ("", "_unseen"):
        del scores["v4"][group][NAMES[2]]
    report = robustness(scores)
    assert report["frames"] == 2
    assert report["ss_jga_unseen"] is None
    assert report["jga_v1_5_unseen"] == 1.0  # over the variants that have such frames
    assert "jga_orig" not in report
    for groups in scores.values():
        groups["_seen"] = {}
    none_seen = robustness(scores)
    assert none_seen["jga_v1_5_seen"] is None
    assert none_seen["ss_jga_seen"] is None
