"""The order of training data, compared with a plain definition."""

import collections
import dataclasses
import itertools
import zlib

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed.order import BLOCK, Order, Stage, Task

RNG = np.random.default_rng(0)
TASKS = [
    Task("a", RNG.integers(3, 60, (300, 2))),
    Task("b", RNG.integers(1, 40, (41, 2))),
    Task("c", RNG.integers(1, 80, (900, 2))),
]
ROOM = (90, 85)
STAGES = [Stage(20, (1, 0, 0)), Stage(70, (0.2, 0.6, 0.2)), Stage(90, (0, 1, 3))]
BATCH = 8


def best_fit(sizes):
    """Returns rows of examples: the longest first, into the fullest row with room."""
    rows = []
    share = [max(s / r for s, r in zip(size, ROOM, strict=True)) for size in sizes]
    for n in sorted(range(len(sizes)), key=lambda n: -share[n]):
        left = [
            np.array(ROOM) - sum(np.array(sizes[m]) for m in [*row, n]) for row in rows
        ]
        fitting = [i for i, room in enumerate(left) if (room >= 0).all()]
        if fitting:
            rows[min(fitting, key=lambda i: (left[i] / ROOM).sum())].append(n)
        else:
            rows.append([n])
    return sorted(sorted(row) for row in rows)


def plain(count, seed, pack):
    """Returns the first rows, by the definition of the order."""
    found, draws, counts, waiting = [], 0, [0, 0, 0], [[], [], []]
    while len(found) < count:
        stage = next((s for s in STAGES[:-1] if len(found) < s.end * BATCH), STAGES[-1])
        wanted = BLOCK if stage is STAGES[-1] else stage.end * BATCH - len(found)
        wanted, drawn, used = min(BLOCK, wanted), [], np.zeros(2)
        while (
            len(drawn) < wanted if not pack else (used < wanted * np.array(ROOM)).all()
        ):
            number = np.random.default_rng((seed, 1, draws // 1024)).random(1024)
            share = np.cumsum(stage.rates) / sum(stage.rates)
            which, draws = int(np.sum(share <= number[draws % 1024])), draws + 1
            if not waiting[which]:
                epoch, place = divmod(counts[which], len(TASKS[which].sizes))
                key = seed, 2, zlib.crc32(TASKS[which].name.encode()), epoch
                order = np.random.default_rng(key).permutation(len(TASKS[which].sizes))
                waiting[which], counts[which] = [order[place]], counts[which] + 1
            drawn.append((which, int(waiting[which].pop(0))))
            used += TASKS[which].sizes[drawn[-1][1]]
        sizes = [TASKS[which].sizes[index] for which, index in drawn]
        rows = best_fit(sizes) if pack else [[n] for n in range(len(drawn))]
        found += [[drawn[n] for n in row] for row in rows[:wanted]]
        for n in sorted(itertools.chain(*rows[wanted:]), reverse=True):
            waiting[drawn[n][0]].insert(0, drawn[n][1])
    return found[:count]


def order(seed=3, pack=True, **options):
    room = ROOM if pack else None
    return Order(TASKS, STAGES, BATCH, seed=seed, room=room, **options)


def rows_of(made, count, position=None):
    position, found = position or made.start(), []
    while len(found) < count and not position.ended:
        rows, position = made.block(position)
        found += rows
    return found[:count]


@pytest.mark.parametrize("pack", [True, False])
def test_the_order_is_its_definition(pack):
    assert rows_of(order(pack=pack), 1000) == plain(1000, 3, pack)


@pytest.mark.parametrize("pack", [True, False])
def test_a_stage_begins_with_its_first_row(pack):
    levels = [{which for which, _ in row} for row in rows_of(order(pack=pack), 900)]
    assert levels[: 20 * BATCH] == [{0}] * (20 * BATCH)
    assert 1 in set.union(*levels[20 * BATCH : 22 * BATCH])
    # The last stage has no end.
    assert all(0 not in level for level in levels[70 * BATCH :])
    share = [
        which == 2 for row in rows_of(order(pack=pack), 3000)[560:] for which, _ in row
    ]
    assert np.mean(share) == pytest.approx(0.75, abs=0.03)


def test_every_example_comes_once_an_epoch_and_fits():
    made = Order([TASKS[0]], [Stage(1, (1,))], BATCH, seed=1, room=ROOM, num_epochs=3)
    rows = rows_of(made, 10**6)
    for row in rows:
        assert (sum(TASKS[0].sizes[index] for _, index in row) <= ROOM).all()
    drawn = [index for row in rows for _, index in row]
    assert {*collections.Counter(drawn).values()} == {3}
    assert {*drawn[:250]} != {*range(250)} and drawn[:300] != drawn[300:600]
    full = np.sum([TASKS[0].sizes[index] for index in drawn], axis=0)
    assert (full / len(rows) / ROOM).max() > 0.93


def test_examples_without_a_row_wait_for_the_next_block():
    made = Order([TASKS[0]], [Stage(1, (1,))], BATCH, seed=1, room=ROOM)
    position = made.start()
    for _ in range(20):
        (waiting,) = position.waiting
        rows, position = made.block(position)
        assert len(rows) == BLOCK and len(position.waiting[0]) < BLOCK // 4
        assert {*waiting[:1]} <= {index for _, index in rows[0]}
    assert waiting


def test_a_position_is_all_that_is_needed():
    made = order()
    rows, position = made.block(made.start())
    assert (
        rows_of(order(), 600, position)
        == rows_of(order(), 600 + len(rows))[len(rows) :]
    )
    assert dataclasses.asdict(position)["row"] == len(rows) == 20 * BATCH


def test_epochs_in_the_given_order():
    made = Order([TASKS[1]], [Stage(1, (1,))], 1, seed=0, shuffle=False)
    assert [row[0][1] for row in rows_of(made, 90)] == [
        *range(41),
        *range(41),
        *range(8),
    ]


def test_other_seeds_give_other_orders():
    assert rows_of(order(3), 200) != rows_of(order(4), 200)
    with pytest.raises(UserError, match="^seed -1 of the data order: use 0 or more.$"):
        order(-1)


def test_no_seed_is_used_twice(monkeypatch):
    """The choice of a task and the order within a task use different seeds."""
    used = []
    real = np.random.default_rng
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed: used.append(seed) or real(seed)
    )
    rows_of(order(), 5000)
    # Trailing zeros make no difference to NumPy.
    stripped = {tuple(np.trim_zeros(np.array(seed), "b").tolist()) for seed in used}
    assert len(stripped) == len(used) > 15


def test_other_wordings():
    tasks = [Task(name, np.ones((9, 2), int)) for name in "abcd"]
    tasks.append(Task("short", np.ones((4, 2), int)))
    stages = [Stage(5, (1, 1, 1, 0, 1)), Stage(6, (0, 0, 0, 1, 1))]
    made = Order(tasks, stages, BATCH, seed=3)
    row = [(0, 7), (4, 2)]
    drawn = collections.Counter()
    for number in range(5 * BATCH):
        found = made.other_wordings(number, row, 2)
        assert [[index for _, index in other] for other in found] == [[7, 2]] * 2
        # Both others of the stage in any order; the short task has no other wording.
        assert [other[1] for other in found] == [(4, 2)] * 2
        drawn[tuple(which for (which, _), _ in found)] += 1
        assert found == made.other_wordings(number, row, 2)
    assert drawn.keys() == {(1, 2), (2, 1)}
    assert min(drawn.values()) > 10
    assert made.other_wordings(5 * BATCH, [(3, 1)], 2) == [[(3, 1)]] * 2
