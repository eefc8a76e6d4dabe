"""`python -m t5x.train` on arrays in memory: devices, processes, and kills."""

import os
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars
from process_kit import free_port
from t5x import checkpoints

from tests.support import grids

pytestmark = pytest.mark.slow

ABSENT = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def find_present(name, path=None, target=None):
    if name.partition(".")[0] not in ("seqio", "tensorflow", "tensorflow_text"):
        return find_spec(name, path, target)

PathFinder.find_spec = find_present
"""

# A T5.1.1 instead of the toy model.
T5 = """
from __gin__ import dynamic_registration

import __main__ as train_script
import toy_run
from t5x import adafactor
from t5x import models
from t5x.examples.t5 import network

train_script.train:
  model = @models.EncoderDecoderModel()
  train_eval_dataset_cfg = None
models.EncoderDecoderModel:
  module = @network.Transformer()
  input_vocabulary = @toy_run.vocabulary()
  output_vocabulary = @toy_run.vocabulary()
  optimizer_def = @adafactor.Adafactor()
adafactor.Adafactor.logical_factor_rules = @adafactor.standard_logical_factor_rules()
network.Transformer.config = @network.T5Config()
network.T5Config:
  vocab_size = 32
  emb_dim = 8
  num_heads = 2
  num_encoder_layers = 1
  num_decoder_layers = 1
  head_dim = 4
  mlp_dim = 16
  mlp_activations = ('gelu', 'linear')
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def start(folder, here, start_program):
    """Starts a run of the toy model in `folder/<model_dir>`."""

    def start(model_dir, *more, files=("toy_train.gin",), env=None, fresh=False):
        return start_program(
            "train",
            f"--gin_search_paths={here},.",
            *(f"--gin_file={name}" for name in files),
            f"--gin.MODEL_DIR='{model_dir}'",
            *more,
            cwd=folder,
            env={
                # Programs of this module compile the same functions.
                "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                **(env or {}),
            },
            fresh=fresh,
        )

    return start


def finish(*processes):
    """Returns the standard error of programs that must succeed."""
    outputs = []
    try:
        for process in processes:
            _, err = process.communicate(timeout=240)
            outputs.append(err)
            assert process.returncode == 0, err
    finally:
        for process in processes:
            process.kill()
    return outputs


@pytest.fixture(scope="module")
def straight(folder, start):
    """Returns the losses of 8 uninterrupted steps on one device, 8 rows per batch."""
    finish(start("straight", "--gin.BATCH_SIZE=8"))
    return losses(folder / "straight")


def losses(model_dir):
    by_step = read_scalars(model_dir / "train")["loss"]
    assert list(by_step) == list(range(1, 9))
    return np.array(list(by_step.values()))


def start_two(start, *args, **kwargs):
    """Starts a run of two processes, 8 rows per batch."""
    port = free_port()
    return [
        start(
            *args, "--gin.BATCH_SIZE=8", "--multiprocess_gpu",
            f"--coordinator_address=127.0.0.1:{port}", "--process_count=2",
            f"--process_index={index}", **kwargs,
        )
        for index in range(2)
    ]  # fmt: skip


LOST = "test_the_survivor_of_a_killed_process_names_it"
# Each process records its id.
IMPATIENT = """
import os, pathlib, sys
from t5x import peers
peers.INTERVAL, peers.PATIENCE = 1.0, 15.0
(index,) = (word[-1] for word in sys.argv if word.startswith("--process_index="))
pathlib.Path(f"pid_{index}").write_text(str(os.getpid()))
"""


@pytest.fixture(scope="module", autouse=True)
def survivors(request, folder, start):
    """Returns index of the killed process -> the survivor of its run, and both ids.

    Both hang in batch 6, after the checkpoint of step 4. A survivor waits 15 s for a
    sign of life, so this comes before the other tests of this module.
    """
    (folder / "impatient.py").write_text(IMPATIENT)
    (folder / "impatient.gin").write_text(
        "from __gin__ import dynamic_registration\nimport impatient\n"
    )
    left, started = {}, []
    try:
        tests = [item.name for item in request.session.items]
        for killed in (0, 1):
            if f"{LOST}[{killed}]" not in tests:
                continue
            name = f"lost_{killed}"
            both = start_two(
                start,
                name,
                files=("toy_train.gin", "impatient.gin"),
                env={"TOY_HANG_AT": "6"},
            )
            started += both
            deadline = time.time() + 120
            while checkpoints.all_steps(folder / name) != [4]:
                assert time.time() < deadline
                assert [process.poll() for process in both] == [None, None]
                time.sleep(0.05)
            both[killed].kill()
            pid = (folder / f"pid_{killed}").read_text()
            left[killed] = both[1 - killed], pid
        yield left
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_a_t5_trains_where_tensorflow_and_seqio_are_absent(folder, start):
    (folder / "absent").mkdir()
    (folder / "absent" / "sitecustomize.py").write_text(ABSENT)
    (folder / "t5.gin").write_text(T5)
    path = os.pathsep.join([str(folder / "absent"), os.environ.get("PYTHONPATH", "")])
    for name in ("seqio", "tensorflow"):
        attempt = subprocess.run(
            [sys.executable, "-c", f"import {name}"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"No module named '{name}'" in attempt.stderr
    (err,) = finish(
        start(
            "without",
            "--gin.trainer.Trainer.learning_rate_fn=@fixed/utils."
            "create_learning_rate_scheduler()",
            "--gin.fixed/utils.create_learning_rate_scheduler.factors='constant'",
            "--gin.fixed/utils.create_learning_rate_scheduler.base_learning_rate=0.1",
            files=("toy_train.gin", "t5.gin"),
            fresh=True,
            env={"PYTHONPATH": str(folder / "absent")},
        )
    )
    assert "finished" in err
    by_step = losses(folder / "without")
    assert by_step[4:].mean() < by_step[:4].mean()
    state = checkpoints.load_t5x_checkpoint(str(folder / "without"))
    assert state["target"]["token_embedder"]["embedding"].shape == (32, 8)


@pytest.mark.parametrize(
    ("kill", "again"),
    grids.first(
        1, [("8 9", "step 4  restored"), ("4 7", "step 0  initialised from scratch")]
    ),
)
def test_sigkill_in_the_middle_of_a_save(straight, folder, start, kill, again):
    """The process is killed while it saves a step, after it drew a later batch."""
    name = f"killed_{kill[0]}"
    with start(name, "--gin.BATCH_SIZE=8", env={"TOY_KILL_IN_SAVE": kill}) as process:
        process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL
    left = {p.name.partition(".")[0] for p in (folder / name).glob("checkpoint_*.*")}
    assert left == {f"checkpoint_{kill[0]}"}
    assert int(kill[0]) not in checkpoints.all_steps(folder / name)
    (err,) = finish(start(name, "--gin.BATCH_SIZE=8"))
    assert again in err
    assert "Traceback" not in err
    assert not list((folder / name).glob("checkpoint_*.*"))
    both = [
        checkpoints.load_t5x_checkpoint(str(folder / n)) for n in (name, "straight")
    ]
    assert len(jax.tree.leaves(both[0])) > 5
    jax.tree.map(np.testing.assert_array_equal, *both)
    np.testing.assert_array_equal(losses(folder / name), straight)


@pytest.mark.parametrize("killed", grids.first(1, [0, 1]))
def test_the_survivor_of_a_killed_process_names_it(survivors, folder, killed):
    survivor, pid = survivors[killed]
    _, err = survivor.communicate(timeout=120)
    assert survivor.returncode == 1, err
    assert err.endswith(
        f"error: Lost process {killed} of 2 (host {socket.gethostname()}, pid {pid}): "
        f"it has ended or hangs, and process {1 - killed} cannot go on without it. The "
        f"last checkpoint is {folder}/lost_{killed}/checkpoint_4: run the same command "
        "again on all processes to go on from it.\n"
    ), err
    assert "Fatal Python error" not in err
