"""`jaxaug launch local` with two real processes and a toy run."""

import os
import socket
import sys
from pathlib import Path

import pytest
from t5x import checkpoints

from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "tests/runtime/programs"


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_train_together(tmp_path):
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
    launch += ["--processes=2", f"--port={port}", "--gin.MODEL_DIR='two'"]
    done = ran(launch, cwd=tmp_path, env=env, timeout=300)
    assert done.returncode == 0 and "finished" in done.stderr, done.stderr
    # tests/runtime/programs/test_hosts.py compares the numbers with one process.
    assert checkpoints.all_steps(tmp_path / "two") == [2]
    assert (tmp_path / "launch_logs/process_1.log").exists()
