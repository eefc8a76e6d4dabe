"""1, 2, and 4 real processes and meshes 8x1, 4x2, 1x8 train and resume alike.

All runs have eight devices: one process with eight, two with four each, or four with
two. With the same mesh each step has the same program; only the places of its parts
differ.
"""

import itertools
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hosts_program import EVALUATED, FILES, PER_FILE, ROWS, order
from jaxaug_base.event_files import read_scalars
from process_kit import free_port, run_together
from t5x import checkpoints

from tests.support import grids

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("hosts_program.py")
STEPS, SHARDS, DEVICES = 6, 4, 8
EVALUATING = {"one", "two", "four"}
# Another mesh sums float32 values in another order.
TOLERANCE = {"rtol": 2e-5, "atol": 1e-6}


def job(name, model=1, steps=STEPS, shards=SHARDS):
    return {
        "name": name,
        "steps": steps,
        "model": model,
        "shards": shards,
        "evaluate": name in EVALUATING,
    }


def start(python, folder, count, *jobs):
    """Runs jobs in a number of processes, one job after the other."""
    rest = (count, free_port(), folder, json.dumps(jobs))
    commands = [(PROGRAM, rank, *rest) for rank in range(count)]
    for _, err in run_together(python, *commands, devices=DEVICES // count):
        assert "starts from its first batch" not in err


@pytest.fixture(scope="module")
def folder(request, python, tmp_path_factory):
    """Returns the runs of the selected tests.

    The run `moved` changes from two processes to one and four.
    """
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "files").mkdir()
    for file in range(FILES):
        lines = (f"{file * PER_FILE + line + 1}\n" for line in range(PER_FILE))
        (folder / "files" / f"{file}.txt").write_text("".join(lines))
    tests = [item for item in request.session.items if item.path == request.path]
    if not any(item.get_closest_marker("long") for item in tests):
        start(python, folder, 2, job("two"))
        start(python, folder, 1, job("one"))
        return folder
    start(python, folder, 2, job("two"), job("moved", steps=2))
    start(
        python,
        folder,
        1,
        job("one"),
        job("one_4x2", model=2),
        job("one_1x8", model=8),
        # It keeps its shards without the setting.
        job("moved", model=2, steps=4, shards=None),
    )
    start(python, folder, 4, job("four"), job("moved", model=4, shards=None))
    return folder


def notes(folder, name, steps=STEPS):
    """Returns the records of each process about a run up to a step."""
    paths = sorted(folder.glob(f"{name}.{steps}.*.json"))
    return [json.loads(path.read_text()) for path in paths]


def batches(folder, name, steps=STEPS):
    """Returns step -> example numbers of the global batch."""
    by_part = {}
    for note in notes(folder, name, steps):
        # Processes that feed the same rows agree.
        assert by_part.setdefault(note["part"], note["rows"]) == note["rows"]
    found = {}
    for part in sorted(by_part):
        for step, rows in by_part[part]:
            found.setdefault(step, []).extend(rows)
    return found


def expected_batches():
    """Returns the batches of all runs: two rows of each shard per step."""
    rows = ROWS // SHARDS
    streams = [
        [n for epoch in range(2) for n in order(shard, SHARDS, epoch)]
        for shard in range(SHARDS)
    ]
    return {
        step: [int(n) for s in streams for n in s[step * rows : (step + 1) * rows]]
        for step in range(STEPS)
    }


def scalars(folder, name):
    """Returns (losses of all steps, results of both evaluations at the end, if any)."""
    losses = read_scalars(folder / name / "train")["loss"]
    assert list(losses) == list(range(1, STEPS + 1))
    found = {}
    if name in EVALUATING:
        forced = read_scalars(folder / name / "training_eval" / "numbers")
        found = {tag: forced[tag][STEPS] for tag in ("loss", "accuracy", "z_loss")}
        path = folder / name / "inference_eval" / "numbered-metrics.jsonl"
        found |= json.loads(path.read_text())
    return np.array(list(losses.values())), found


def weights(folder, name):
    state = checkpoints.load_t5x_checkpoint(str(folder / name))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    assert len(leaves) > 5
    return leaves


def test_the_single_process_reads_what_is_expected(folder):
    assert batches(folder, "one") == expected_batches()
    losses, found = scalars(folder, "one")
    assert losses[-1] < losses[0]
    assert (found["step"], found["examples"]) == (STEPS, EVALUATED)
    assert 0 < found["exact"] < 1 and found["likelihood"] < 0 < found["loss"]


@pytest.mark.parametrize(
    "name", grids.first(1, ["two", "four", "one_4x2", "one_1x8", "moved"])
)
def test_losses_metrics_and_checkpoints_are_those_of_one_process(folder, name):
    (losses, found), (of_one, found_by_one) = (
        scalars(folder, n) for n in (name, "one")
    )
    np.testing.assert_allclose(losses, of_one, **TOLERANCE)
    assert found == (pytest.approx(found_by_one, rel=1e-6) if found else {})
    assert checkpoints.all_steps(folder / name) == [2, 4, 6]
    for ours, theirs in zip(weights(folder, name), weights(folder, "one"), strict=True):
        np.testing.assert_allclose(ours, theirs, **TOLERANCE)


@pytest.mark.long
def test_two_and_four_processes_have_the_same_bits(folder):
    """Both sum with the same collective operations; a single process has others."""
    (of_two, found_by_two), (of_four, found) = (
        scalars(folder, name) for name in ("two", "four")
    )
    np.testing.assert_array_equal(of_two, of_four)
    assert found == found_by_two
    for a, b in zip(weights(folder, "two"), weights(folder, "four"), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", grids.first(1, ["two", "four", "one_4x2", "one_1x8"]))
def test_the_order_of_the_data_is_that_of_one_process(folder, name):
    assert batches(folder, name) == expected_batches()


@pytest.mark.long
def test_other_processes_go_on_at_the_same_place(folder):
    assert [len(notes(folder, "moved", steps)) for steps in (2, 4, 6)] == [2, 1, 4]
    seen = [batches(folder, "moved", steps) for steps in (2, 4, 6)]
    assert [list(part) for part in seen] == [[0, 1], [2, 3], [4, 5]]
    assert seen[0] | seen[1] | seen[2] == expected_batches()


@pytest.mark.parametrize(
    ("name", "shards"),
    grids.first(1, [("two", [{0, 1}, {2, 3}]), ("four", [{0}, {1}, {2}, {3}])]),
)
def test_a_process_reads_its_shards_and_evaluates_its_share(folder, name, shards):
    every = notes(folder, name)
    assert [{shard for shard, _ in note["read"]} for note in every] == shards
    rows = ROWS // len(every)
    for note in every:
        # The rows of each step and of at most three batches read ahead.
        assert STEPS * rows <= len(note["read"]) <= (STEPS + 3) * rows
    # The evaluator predicts and scores: all examples twice, by one process each.
    evaluated = [note["evaluated"] for note in every]
    assert sorted(itertools.chain(*evaluated)) == sorted(2 * list(range(EVALUATED)))
    assert not set(evaluated[0]) & set(evaluated[1])
    counts = [len(one) for one in evaluated]
    assert max(counts) - min(counts) <= 2


@pytest.mark.long
def test_processes_on_one_model_axis_share_their_rows(folder):
    """2 x 4: processes 0 and 1 feed the first four rows, 2 and 3 the others."""
    every = notes(folder, "moved")
    assert [note["part"] for note in every] == [0, 0, 1, 1]
    read = [{shard for shard, _ in note["read"]} for note in every]
    assert read == [{0, 1}, {0, 1}, {2, 3}, {2, 3}]
