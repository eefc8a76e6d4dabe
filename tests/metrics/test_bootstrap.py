"""Bootstrap intervals: brute force, coverage, and data without variance."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from jaxaug.metrics import report
from jaxaug.metrics.bootstrap import FIGURES, Bootstrap, Group, holm
from jaxaug.metrics.frames import WORDINGS, FrameTable
from jaxaug.metrics.sensitivity import GROUPS, robustness
from tests.support import grids

SERVICES = ("Hotels_1", "Trains_1")  # seen, unseen


def scores_of(values, dialogues):
    """Returns scores as `robustness` does: `values` by wording, dialogue, and frame."""
    result = {}
    for wording, rows in zip(WORDINGS, values, strict=True):
        groups = {group: {} for group in GROUPS}
        for place, dialogue in enumerate(dialogues):
            for frame, value in enumerate(rows[dialogue]):
                if value is None:
                    continue
                key = f"{place:04}", frame, SERVICES[(dialogue + frame) % 2]
                groups[""][key] = value
                groups["_seen" if (dialogue + frame) % 2 == 0 else "_unseen"][key] = (
                    value
                )
        result[wording] = groups
    return result


def table_of(values):
    return FrameTable.of_scores("test", scores_of(values, range(len(values[0]))))


def random_values(rng, dialogues, right=0.6):
    """Returns values of dialogues with one to three frames; some lack a score."""
    sizes = 1 + np.arange(dialogues) % 3
    draw = rng.random
    return [
        [
            [
                math.nan if f == 2 else float(draw() < right) * round(draw(), 2)
                for f in range(n)
            ]
            for n in sizes
        ]
        for _ in WORDINGS
    ]


def figures(values, dialogues):
    """Returns the figures by the program that makes reports."""
    made = robustness(scores_of(values, dialogues))
    for index, wording in enumerate(WORDINGS):
        flat = np.array([v for d in dialogues for v in values[index][d]])
        made[wording] = np.nanmean(flat) if (~np.isnan(flat)).any() else None
    return np.array([made[name] for name in FIGURES], float)


def test_the_figures_equal_the_report():
    assert tuple(report.COLUMNS) == FIGURES
    values = random_values(np.random.default_rng(0), 9)
    boot = Bootstrap.of_frames([table_of(values)], 2)
    np.testing.assert_allclose(boot.values[0], figures(values, range(9)), rtol=1e-12)


def test_every_resample_equals_a_loop_over_dialogues_and_seeds():
    rng = np.random.default_rng(1)
    size, times = 7, 40
    values = [
        random_values(rng, size, right) for right in (0.3, 0.4, 0.5, 0.8, 0.7, 0.9)
    ]
    boot = Bootstrap.of_frames(
        [table_of(v) for v in values], times, seed=5, chunk=3 * size
    )
    one = Group("a", (0, 1, 2), ("0", "1", "2"))
    two = Group("b", (3, 4, 5), ("0", "1", "2"))
    dialogues = np.random.default_rng(5).integers(0, size, (times, size))
    picks = np.random.default_rng([5, 1]).integers(0, 3, (times, 2))
    means, fixed = [], []
    for drawn, picked in zip(dialogues.tolist(), picks.tolist(), strict=True):
        rows = [figures(v, drawn) for v in values]
        means.append(
            [np.mean([rows[run + s] for s in picked], axis=0) for run in (0, 3)]
        )
        fixed.append([np.mean(rows[:3], axis=0), np.mean(rows[3:], axis=0)])
    means, fixed = np.array(means), np.array(fixed)
    whole = np.array([figures(v, range(size)) for v in values])
    each = np.array([[figures(v, [d]) for d in range(size)] for v in values])
    defining = (~np.isnan(each)).sum(axis=1)
    assert defining.min() < defining.max() == size

    def expected(value, draws, of_dialogues, by_seed, runs):
        number = defining[runs].min(axis=0)
        error, seeds = draws.std(axis=0, ddof=1), by_seed.var(axis=0, ddof=1) / 3
        rest = of_dialogues.var(axis=0, ddof=1)
        freedom = (seeds + rest) ** 2 / (seeds**2 / 2 + rest**2 / (number - 1))
        half = stats.t.ppf(0.975, freedom) * error
        p = 2 * stats.t.sf(np.abs(value) / error, freedom)
        return value - half, value + half, p

    # A resample may leave a figure undefined; this seed draws no such resample.
    assert not np.isnan(means).any()
    low, high, _ = expected(
        whole[:3].mean(0), means[:, 0], fixed[:, 0], whole[:3], slice(3)
    )
    made = boot.interval(one)
    np.testing.assert_allclose(made.value, whole[:3].mean(0), rtol=1e-12)
    np.testing.assert_allclose(made.low, np.maximum(low, 0), rtol=1e-9, atol=1e-12)
    limits = [math.sqrt(5) if name.startswith("ss") else 1 for name in FIGURES]
    np.testing.assert_allclose(made.high, np.minimum(high, limits), rtol=1e-9)
    gap = boot.difference(one, two)
    low, high, p = expected(
        whole[:3].mean(0) - whole[3:].mean(0),
        means[:, 0] - means[:, 1],
        fixed[:, 0] - fixed[:, 1],
        whole[:3] - whole[3:],
        slice(6),
    )
    np.testing.assert_allclose(gap.low, low, rtol=1e-9)
    np.testing.assert_allclose(gap.high, high, rtol=1e-9)
    np.testing.assert_allclose(gap.p, p, rtol=1e-7)
    assert ((gap.p < 0.05) == ((gap.low > 0) | (gap.high < 0))).all()


def test_the_size_of_a_chunk_changes_nothing():
    values = random_values(np.random.default_rng(2), 12)
    tables = [table_of(values)] * 2
    group = Group("a", (0,), ("0",))
    one, two = (
        Bootstrap.of_frames(tables, 60, chunk=n).interval(group) for n in (12, 1 << 20)
    )
    np.testing.assert_allclose(one.low, two.low, rtol=1e-12)


def simple(rows):
    """Returns a table with one frame per dialogue and one score under every wording."""
    return table_of([[[float(value)] for value in rows]] * len(WORDINGS))


@pytest.mark.parametrize(
    ("seed_noise", "least"), grids.first(1, [(0.06, 0.87), (0.0, 0.9)])
)
def test_coverage_of_a_known_difference(seed_noise, least):
    """95% intervals contain a known difference about as often as they promise."""
    rng = np.random.default_rng(3)
    trials, size, seeds, gap = 80, 60, 3, 0.1
    groups = [
        Group(name, tuple(range(start, start + seeds)), ("0", "1", "2"))
        for name, start in (("a", 0), ("b", seeds))
    ]
    covered = false = 0
    for _ in range(trials):
        hard = rng.uniform(0.2, 0.8, size)
        chances = [
            np.clip(hard + shift + rng.normal(0, seed_noise), 0, 1)
            for shift in (gap / 2, -gap / 2)
            for _ in range(seeds)
        ]
        tables = [simple(rng.random(size) < chance) for chance in chances]
        made = Bootstrap.of_frames(tables, 200).difference(*groups)
        covered += bool(made.low[0] <= gap <= made.high[0])
        false += bool(made.high[0] < 0)  # the wrong way round
    assert covered >= least * trials and false <= 0.03 * trials


def test_pairing_by_dialogue_narrows_a_difference():
    rng = np.random.default_rng(4)
    first = (rng.random(200) < 0.5).astype(float)
    second = first.copy()
    second[np.flatnonzero(first == 0)[:12]] = 1.0
    boot = Bootstrap.of_frames([simple(first), simple(second)], 500)
    one, two = Group("a", (0,), ("0",)), Group("b", (1,), ("0",))
    gap, alone = boot.difference(two, one), boot.interval(one)
    assert gap.value[0] == pytest.approx(0.06) and gap.low[0] > 0 and gap.p[0] < 0.01
    assert alone.high[0] - alone.low[0] > 2 * (gap.high[0] - gap.low[0])


def test_pairing_by_seed_is_for_equal_seeds_only():
    rng = np.random.default_rng(5)
    base = rng.random(100) < 0.5
    levels = (0.0, 0.2, 0.4)
    tables = [simple(base & (rng.random(100) > x)) for x in levels]
    tables += tables
    boot = Bootstrap.of_frames(tables, 500)
    one = Group("a", (0, 1, 2), ("0", "1", "2"))
    same = boot.difference(one, Group("b", (3, 4, 5), ("0", "1", "2")))
    # Nothing varies, so the interval covers the error rate that 100 dialogues can miss.
    assert -0.04 < same.low[0] == -same.high[0] < -0.03 and same.p[0] == 1.0
    other = boot.difference(one, Group("b", (3, 4, 5), ("3", "4", "5")))
    assert other.low[0] < -0.1 and other.high[0] > 0.1


def test_one_seed_covers_the_dialogues_and_one_dialogue_nothing():
    rng = np.random.default_rng(6)
    rows = rng.random(50) < 0.5
    single = Bootstrap.of_frames([simple(rows)], 4000).interval(Group("a", (0,), ("",)))
    exact = stats.t.ppf(0.975, 49) * rows.std() / math.sqrt(50)
    assert single.high[0] - single.value[0] == pytest.approx(exact, rel=0.05)
    lone = Bootstrap.of_frames([simple([1]), simple([0])], 10)
    made = lone.difference(Group("a", (0,), ("",)), Group("b", (1,), ("",)))
    assert made.value[0] == 1.0
    assert np.isnan([made.low, made.high, made.p]).all()
    none = Bootstrap.of_frames([table_of([[]] * len(WORDINGS))], 10)
    assert np.isnan(none.interval(Group("a", (0,), ("",))).value).all()


def test_equal_runs_and_undefined_figures():
    boot = Bootstrap.of_frames([simple([1.0] * 8)] * 2, 50)
    groups = [Group("a", (0,), ("0",)), Group("b", (1,), ("0",))]
    made = boot.interval(groups[0])
    exact = stats.beta.ppf(0.025, 8, 1)  # Clopper and Pearson: 8 of 8
    assert made.low[0] == pytest.approx(exact) and made.high[0] == 1.0
    gap = boot.difference(*groups)
    assert -gap.low[0] == gap.high[0] == pytest.approx(1 - exact) and gap.p[0] == 1.0
    # Frames that are always wrong define no SS, and count as 0 in the other one.
    wrong = Bootstrap.of_frames([simple([0.0] * 8), simple([1.0] * 8)], 50)
    gap = wrong.difference(*groups)
    assert gap.value[0] == gap.low[0] == -1.0
    assert gap.high[0] == pytest.approx(-1 + 2 * (1 - exact)) and gap.high[0] < 0
    assert gap.p[0] == pytest.approx(2 / 2**8)
    place = FIGURES.index("ss_jga")
    assert np.isnan([gap.value[place], gap.low[place], gap.p[place]]).all()
    assert gap.value[place + 1] == 0.0 and gap.p[place + 1] == 1.0


def test_two_dialogues_show_no_difference_though_nothing_varies():
    boot = Bootstrap.of_frames([simple([0.0] * 2), simple([1.0] * 2)], 50)
    gap = boot.difference(Group("a", (1,), ("",)), Group("b", (0,), ("",)))
    assert gap.value[0] == 1.0 and gap.p[0] == pytest.approx(0.5)
    assert gap.low[0] < 0 < gap.high[0]


def test_the_dialogues_that_define_a_figure_count():
    """Both trackers are equally good; few dialogues have seen services."""
    rng = np.random.default_rng(8)
    seen, unseen = FIGURES.index("jga_v1_5_seen"), FIGURES.index("jga_v1_5_unseen")
    groups = [Group("a", (0,), ("",)), Group("b", (1,), ("",))]
    stars, trials = 0, 60
    for few in (1, 2):
        for _ in range(trials):
            tables = []
            for _ in groups:
                rows = [[float(rng.random() < 0.5)] for _ in range(2 * few)]
                # Odd dialogues are about an unseen service, and all others too.
                rows += [[None, float(rng.random() < 0.5)] for _ in range(30 - few)]
                rows = [
                    row if place < 2 * few or place % 2 == 0 else row[1:]
                    for place, row in enumerate(rows)
                ]
                tables.append(table_of([rows] * len(WORDINGS)))
            gap = Bootstrap.of_frames(tables, 100).difference(*groups)
            assert not np.isnan(gap.low[unseen])
            if few == 1:
                assert np.isnan([gap.low[seen], gap.high[seen], gap.p[seen]]).all()
            stars += bool(gap.p[seen] < 0.05)
    assert stars <= 0.15 * trials


def test_holm():
    p = np.array([0.01, 0.04, 0.03, math.nan, 0.005])
    np.testing.assert_allclose(
        holm(p), [0.03, 0.06, 0.06, math.nan, 0.02], equal_nan=True
    )
    # By definition: reject while p_(i) <= alpha / (m - i), from the smallest on.
    rng = np.random.default_rng(7)
    for size, alpha in itertools.product((1, 2, 6), (0.05, 0.2)):
        values = rng.random(size) ** 3
        rejected = set()
        for rank, index in enumerate(np.argsort(values)):
            if values[index] > alpha / (size - rank):
                break
            rejected.add(index)
        assert rejected == set(np.flatnonzero(holm(values) <= alpha))
