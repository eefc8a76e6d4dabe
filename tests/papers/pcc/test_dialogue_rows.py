"""The rows of PCC's dialogue table: gin files on top of each experiment."""

import importlib
import json
import os
import subprocess
import sys

import gin
import pytest

pytest.importorskip("seqio")

from t5x.training.actions import EarlyStoppingAction

from tests.papers.pcc.dialogue_rows_program import parse, value

EXPERIMENTS = ("t5", "smollm2", "transfertransfo", "percvae", "dialogpt")
ROWS = ("flatten", "official", "rt", "cda", "pcc")
# Levels of each row, as parts of the names of tasks, and the order of its stages.
LEVELS = {
    "flatten": [f"pcc_level{level}" for level in range(1, 6)],
    "official": ["self_revised"],
    "rt": ["rt_level1"],
    "cda": [f"eda_level{level}" for level in range(1, 6)],
    "pcc": [f"pcc_level{level}" for level in range(1, 6)],
}


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    # The files bind `train` of the program that reads them.
    program = importlib.import_module("t5x.train")
    monkeypatch.setitem(sys.modules, "__main__", program)
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture(scope="module")
def found(python, pytestconfig):
    """Returns `ROW-EXPERIMENT` -> settings of the combined files."""
    script = "tests/papers/pcc/dialogue_rows_program.py"
    done = subprocess.run(
        [python, script, ",".join(EXPERIMENTS), ",".join(ROWS)],
        cwd=pytestconfig.rootpath,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_stacks_over_an_experiment(found, row, experiment):
    made = found[f"{row}-{experiment}"]
    prefix = "personachat_turns_" if experiment == "dialogpt" else "personachat_"
    names = ["self_original", *LEVELS[row]]
    assert made["tasks"] == [prefix + name for name in names]
    weights, ends = made["weights"], made["ends"]
    assert weights[0] == pytest.approx([1.0, *[0.0] * (len(names) - 1)])
    last = weights[-1]
    assert last[0] == pytest.approx(0.2)
    if row in ("flatten", "official", "rt"):
        assert len(ends) == 2
        assert last[1:] == pytest.approx([0.8 / (len(names) - 1)] * (len(names) - 1))
    else:
        assert len(ends) == (12 if row == "pcc" else 6)
        assert last[-1] == pytest.approx(0.8)
    assert ends[-1] <= made["train_steps"]


def test_dialogpt_trains_as_published():
    parse("dialogpt", "pcc")
    assert value("BATCH_SIZE") == 4
    clip = gin.query_parameter("adafactor.Adafactor.global_norm_clip_threshold")
    assert clip == 0.1
    ends = value("CURRICULUM").ends
    lengths = [end - start for start, end in zip((0, *ends), ends, strict=False)]
    assert lengths == [130000, *[60000] * 5] * 2
    gin.clear_config()
    parse("dialogpt", "rt")
    assert value("CURRICULUM").ends == (130000, 430000)


def test_dialogpt_stops_after_ten_losses_without_improvement():
    parse("dialogpt")
    (reference,) = gin.query_parameter("train_script.train.actions")["TRAIN_EVAL"]
    action = reference.scoped_configurable_fn()
    assert isinstance(action, EarlyStoppingAction)
    task = "personachat_turns_self_original"

    class State:
        step = 0

    # A single better loss restarts the count.
    losses = [3.0, 2.0, *[2.5, 2.4] * 4, 1.9, *[1.9, 2.1] * 5]
    stops = []
    for loss in losses:
        State.step += 1
        stops.append(action.run(State, {task: {"loss": float(loss)}}))
    assert stops == [False] * (len(losses) - 1) + [True]
