"""`jaxaug launch local` with two real processes and a toy run."""

import os
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from t5x import checkpoints

from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "tests/runtime/programs"


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_train_as_one(python, tmp_path):
    for name in ("toy_train.gin", "toy_run.py"):
        (tmp_path / name).symlink_to(TOY / name)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = ["--gin_file=toy_train.gin", "--gin.BATCH_SIZE=8", "--gin.TRAIN_STEPS=2"]
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    launch = [sys.executable, "-m", "jaxaug.cli", "launch", "local", *words]
    alone = [python, "-m", "t5x.train", *words]
    for command in (
        [*launch, "--processes=2", f"--port={port}", "--gin.MODEL_DIR='two'"],
        [*alone, "--gin.MODEL_DIR='one'"],
    ):
        done = ran(command, cwd=tmp_path, env=env, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "finished" in done.stderr
    assert checkpoints.all_steps(tmp_path / "two") == [2]
    assert (tmp_path / "launch_logs/process_1.log").exists()
    two, one = (
        checkpoints.load_t5x_checkpoint(str(tmp_path / name))["target"]
        for name in ("two", "one")
    )
    assert two.keys() == one.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-6)
