"""The rows of PCC's table of dialogue: files that stack over each experiment."""

import importlib
import sys

import gin
import pytest

pytest.importorskip("seqio")

from t5x import gin_utils
from t5x.training.actions import EarlyStoppingAction

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


def parse(experiment, *rows):
    files = [f"configs/personachat_{experiment}.gin"]
    files += [f"configs/runs/personachat_{row}.gin" for row in rows]
    lines = ["from __gin__ import dynamic_registration"]
    gin_utils.parse_gin_flags(
        [], [], [*lines, *(f"include {file!r}" for file in files)]
    )


def value(macro):
    """What a macro stands for, made if need be."""
    found = gin.query_parameter(f"%{macro}")
    if isinstance(found, gin.config.ConfigurableReference):
        return found.scoped_configurable_fn()
    return found


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_stacks_over_an_experiment(experiment, row):
    parse(experiment, row)
    prefix = "personachat_turns_" if experiment == "dialogpt" else "personachat_"
    names = ["self_original", *LEVELS[row]]
    assert value("LEVEL_TASKS") == [prefix + name for name in names]
    curriculum = value("CURRICULUM")
    assert curriculum.levels == len(names) - 1
    assert curriculum.weights[0] == pytest.approx((1.0, *[0.0] * (len(names) - 1)))
    last = curriculum.weights[-1]
    assert last[0] == pytest.approx(0.2)
    if row in ("flatten", "official", "rt"):
        assert len(curriculum.ends) == 2
        assert last[1:] == pytest.approx([0.8 / (len(names) - 1)] * (len(names) - 1))
    else:
        assert len(curriculum.ends) == (12 if row == "pcc" else 6)
        assert last[-1] == pytest.approx(0.8)
    assert curriculum.steps <= value("TRAIN_STEPS")


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


def test_dialogpt_stops_after_ten_losses_that_are_no_better():
    parse("dialogpt")
    (reference,) = gin.query_parameter("train_script.train.actions")["TRAIN_EVAL"]
    action = reference.scoped_configurable_fn()
    assert isinstance(action, EarlyStoppingAction)
    task = "personachat_turns_self_original"

    class State:
        step = 0

    # One better loss among worse ones begins the count anew.
    losses = [3.0, 2.0, *[2.5, 2.4] * 4, 1.9, *[1.9, 2.1] * 5]
    stops = []
    for loss in losses:
        State.step += 1
        stops.append(action.run(State, {task: {"loss": float(loss)}}))
    assert stops == [False] * (len(losses) - 1) + [True]
