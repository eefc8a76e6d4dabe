"""The task that `jaxaug launch sky` gives to SkyPilot, and its commands on a node."""

import json
import re
import subprocess

import pytest
import yaml

from jaxaug import cli
from tests.launch.test_dry_runs import DATA, RUN
from tests.support.launch_tools import environment

WORDS = ["launch", "sky", "--accelerator=A100-80GB", "--nodes=2", "--name=d3st"]
WORDS += ["--spot", "--infra=gcp/us-central1", "--restarts=1", *DATA, *RUN]
# Fields of SkyPilot's schema of tasks (sky/utils/schemas.py) that we write.
RESOURCES = {
    "accelerators": r"[\w-]+:\d+",
    "infra": r"(?i:gcp|aws)(/[^/]+){0,2}",
    "use_spot": bool,
    "job_recovery": {"max_restarts_on_errors": int},
}
TASK = {
    "name": r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*", "workdir": r"/.+",
    "num_nodes": int, "resources": RESOURCES, "envs": {"JAXAUG_DATA_DIR": str},
    "setup": str, "run": str,
}  # fmt: skip
# Prints what `sky` is given, as JSON.
SKY = """#!/bin/sh
[ "$1 $2" = "jobs launch" ] && cat "$3"
"""


def meets(value, schema):
    """Checks types and patterns; every field has to be known."""
    if isinstance(schema, dict):
        assert value.keys() == schema.keys()
        for name, item in value.items():
            meets(item, schema[name])
    elif isinstance(schema, str):
        assert re.fullmatch(schema, value)
    else:
        assert type(value) is schema


@pytest.fixture
def task(tools, capsys):
    """Runs the command with a stand-in for `sky`; returns the task that it gets."""
    assert cli.main([*WORDS, "--dry-run"]) == 0
    sky = tools.folder / "sky"
    sky.write_text(SKY)
    sky.chmod(0o755)
    script = capsys.readouterr().out
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(tools),
        capture_output=True,
        text=True,
        check=True,
    )
    return yaml.safe_load(done.stdout)


def test_the_task_meets_the_schema(task):
    meets(task, TASK)
    assert task["resources"] == {
        "accelerators": "A100-80GB:8",
        "infra": "gcp/us-central1",
        "use_spot": True,
        "job_recovery": {"max_restarts_on_errors": 1},
    }
    assert task["envs"] == {"JAXAUG_DATA_DIR": "gs://bucket/sgd"}


def test_a_node_starts_its_process(task, tools):
    given = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NUM_NODES": "2"}
    done = subprocess.run(
        ["bash", "-c", task["run"]],
        cwd=task["workdir"],
        env=environment(tools, SKYPILOT_NODE_RANK="1", **given),
        capture_output=True,
        text=True,
        check=True,
    )
    words, _ = json.loads(done.stdout)
    assert words == [
        *("-m", "t5x.train", *RUN, "--multiprocess_gpu"),
        *("--coordinator_address=10.0.0.1:8476", "--process_count=2"),
        "--process_index=1",
    ]


def test_a_value_with_a_line_break_stays_whole(tools, capsys):
    text = "--gin.A='''x\n  y'''"
    assert cli.main([*WORDS, text, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    (document,) = re.findall(r"'END_OF_FILE'\n(.*)END_OF_FILE\n", shown, re.DOTALL)
    assert text.replace("'", "'\"'\"'") in yaml.safe_load(document)["run"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--accelerator=H100:8"], "--accelerator 'H100:8': is no name of SkyPilot"),
        (["--infra=; rm"], "--infra '; rm': is no name of SkyPilot, such as gcp/us"),
        (["--gpus=0"], "--gpus is 0: give a whole number from 1 to 16"),
        (["--gin.MODEL_DIR='runs/x'"], "what is written to the machines is lost"),
    ],
)
def test_values_that_are_refused(words, message, capsys):
    assert cli.main([*WORDS, *words, "--dry-run"]) == 1
    assert message in capsys.readouterr().err
