"""Scalars of a run in other sinks than TensorBoard, with a stand-in for wandb."""

import sys
import types

import clu.values
import numpy as np
import pytest
from t5x import train_state  # noqa: F401  Before the rooms that it needs.
from t5x.errors import UserError
from t5x.logs import metrics_writer, sinks


class Run:
    def __init__(self, given):
        self.given, self.defined, self.logged, self.finished = given, [], [], 0

    def define_metric(self, name, step_metric):
        self.defined.append((name, step_metric))

    def log(self, values):
        self.logged.append(values)

    def finish(self):
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch):
    """Stands for the package; `runs` are the started runs."""
    module = types.ModuleType("wandb")
    module.errors = types.SimpleNamespace(Error=type("Error", (Exception,), {}))
    module.runs = []

    def init(**given):
        module.runs.append(Run(given))
        return module.runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_a_resumed_run_continues_there(wandb, tmp_path):
    folder = tmp_path / "mine"
    for _ in range(2):
        sinks.Wandb(model_dir=str(folder), config="A = 1", project="p").close()
    first, second = (run.given for run in wandb.runs)
    assert first == second
    assert (
        first["id"] == (folder / "wandb_id.txt").read_text() and len(first["id"]) == 32
    )
    wanted = {"project": "p", "name": "mine", "dir": str(folder), "resume": "allow"}
    assert wanted.items() <= first.items()
    assert first["config"] == {"gin": "A = 1"}
    assert [run.finished for run in wandb.runs] == [1, 1]
    assert wandb.runs[0].defined == [("*", "step")]


def test_scalars_of_a_metrics_manager_arrive(wandb, tmp_path):
    sink = sinks.Wandb(model_dir=str(tmp_path), config="")
    manager = metrics_writer.MetricsManager("train", summary_dir=None)
    manager.sinks = [sink]
    manager.write_scalar("timing/x", np.float32(2), 7)
    manager.close()
    assert wandb.runs[0].logged == [{"train/timing/x": 2.0, "step": 7}]


def test_numbers_alone_are_sent():
    values = {
        "loss": clu.values.Scalar(np.array([1.5])),
        "jga": 50,
        "sample": clu.values.Text("a"),
        "histogram": np.zeros(3),
    }
    assert sinks.scalars_of("a/b", values) == {"a/b/loss": 1.5, "a/b/jga": 50.0}


def test_without_wandb_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="wandb is not installed. Run `pip install wan"):
        sinks.Wandb(model_dir=str(tmp_path), config="")
    assert not list(tmp_path.iterdir())


def test_refusals_contain_advice(wandb, tmp_path):
    def refuse(**_):
        raise wandb.errors.Error("No API key.")

    wandb.init = refuse
    with pytest.raises(UserError, match="No API key. Run `wandb login`, or"):
        sinks.Wandb(model_dir=str(tmp_path), config="")
