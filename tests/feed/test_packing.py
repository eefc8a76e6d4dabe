import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from jaxaug.feed.packing import OpenRows

LENGTHS = {"inputs": 20, "targets": 8}
EXAMPLES = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 8)), max_size=60)


def packed(sizes, number, stop=None):
    """Closed rows and rows still open; goes on from a saved state after `stop`."""
    rows, closed = OpenRows(LENGTHS, number), []
    for example, (inputs, targets) in enumerate(sizes):
        if example == stop:
            state = json.loads(json.dumps(rows.state()))
            rows = OpenRows(LENGTHS, number)
            rows.restore(state)
        row = rows.add([0, example], {"inputs": inputs, "targets": targets})
        closed += [row] if row else []
    return [[number for _, number in row] for row in closed], [
        [number for _, number in examples] for examples, *_ in rows.state()
    ]


@given(EXAMPLES, st.integers(1, 9))
def test_every_example_is_in_one_row_that_holds_it(sizes, number):
    closed, still_open = packed(sizes, number)
    rows = closed + still_open
    assert sorted(itertools.chain(*rows)) == list(range(len(sizes)))
    assert len(still_open) <= number
    for row in rows:
        assert row == sorted(row)
        assert sum(sizes[example][0] for example in row) <= LENGTHS["inputs"]
        assert sum(sizes[example][1] for example in row) <= LENGTHS["targets"]


@given(EXAMPLES)
def test_one_open_row_is_filled_one_after_the_other(sizes):
    closed, still_open = packed(sizes, 1)
    assert list(itertools.chain(*closed, *still_open)) == list(range(len(sizes)))


@given(EXAMPLES, st.integers(2, 9), st.integers(0, 59))
def test_a_restored_state_goes_on_alike(sizes, number, stop):
    assert packed(sizes, number, stop) == packed(sizes, number)


def test_the_fullest_row_with_room_takes_an_example():
    sizes = [(12, 1), (15, 1), (10, 1), (5, 1), (8, 1), (11, 1), (20, 1)]
    # 5 goes to 15 and not to 12 or 10, 8 to 12. 11 finds no room and closes the older of
    # the two rows that are full, 20 the other.
    assert packed(sizes, 3) == ([[0, 4], [1, 3]], [[2], [5], [6]])


def test_targets_end_a_row_too():
    assert packed([(2, 5), (2, 5), (2, 3)], 2) == ([], [[0, 2], [1]])


def test_more_open_rows_leave_less_padding():
    sizes = [(13, 1)] * 16 + [(7, 1)] * 16
    counts = [sum(map(len, packed(sizes, number))) for number in (1, 16)]
    assert counts == [24, 16]


def test_the_fuller_of_its_features_says_how_full_a_row_is():
    sizes = [(2, 8), (15, 1), (12, 1), (13, 1)]
    # The first row has most room for inputs, but no target fits any more.
    assert packed(sizes, 2) == ([[0], [1]], [[2], [3]])


def test_a_row_that_stays_emptier_than_others_is_closed_in_the_end():
    sizes = [(10, 1)] + [(19, 1)] * 40
    closed, still_open = packed(sizes, 2)
    # It is closed once 8 x 2 other rows were.
    assert closed.index([0]) == 16
    assert len(closed) + len(still_open) == 41


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 8)), max_size=300))
def test_no_row_waits_for_more_than_nine_times_the_open_rows(sizes):
    closed, still_open = packed(sizes, 2)
    begun = {}
    rows = OpenRows(LENGTHS, 2)
    number = 0
    for example, (inputs, targets) in enumerate(sizes):
        number += bool(rows.add([0, example], {"inputs": inputs, "targets": targets}))
        for examples, *_ in rows.state():
            begun.setdefault(examples[0][1], number)
    for end, row in enumerate(closed):
        assert end - begun[row[0]] < 9 * 2
    for row in still_open:
        assert len(closed) - begun[row[0]] <= 9 * 2
