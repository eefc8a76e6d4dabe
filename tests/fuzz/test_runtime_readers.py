"""Damaged gin files, and damaged checkpoints of both layouts."""

import importlib.util
import os
from pathlib import Path

import gin
import jax
import numpy as np
import pytest
from fuzz_kit import Reader
from mutators import BYTES, LINES
from t5x import checkpoints, digests, gin_utils
from t5x.partitioning import PjitPartitioner

MAIN = """\
# main.gin of a run; part.gin has the rest.
from __gin__ import dynamic_registration
from t5x import adafactor
from t5x import partitioning
from t5x import trainer
from t5x import utils

include 'part.gin'

MODEL_DIR = 'runs/here'
TRAIN_STEPS = 1200
BATCH_SIZE = 32
OPTIMIZER = @adafactor.Adafactor()
adafactor.Adafactor.decay_rate = 0.8

train/utils.DatasetConfig:
  mixture_or_task_name = 'numbers'
  task_feature_lengths = {'inputs': 64, 'targets': 16}
  batch_size = %BATCH_SIZE
  shuffle = True

utils.CheckpointConfig.save = @utils.SaveCheckpointConfig()
"""
PART = """\
from __gin__ import dynamic_registration
from t5x import partitioning
from t5x import trainer
from t5x import utils

utils.SaveCheckpointConfig:
  period = 1000  # steps
  keep = None
partitioning.PjitPartitioner.num_partitions = 1
trainer.Trainer:
  num_microbatches = None
  learning_rate_fn = @utils.create_learning_rate_scheduler()
utils.create_learning_rate_scheduler:
  factors = 'constant * rsqrt_decay'
  base_learning_rate = 1.0
"""


def make_gin(folder, material):
    (folder / "fuzzed").mkdir()
    (folder / "fuzzed" / "main.gin").write_text(MAIN)
    (folder / "fuzzed" / "part.gin").write_text(PART)
    return folder / "fuzzed"


def read_gin(path, material):
    os.chdir(path)
    try:
        return parsed("main.gin")
    finally:
        os.chdir("/")


def parsed(name):
    with gin.unlock_config():
        gin.clear_config()
        gin_utils.parse_gin_flags([], [name], [])
        return gin.config_str()


def is_configuration(found, expected, path):
    """Checks that the stored configuration of a run reads back unchanged."""
    stored = path / "stored.gin"
    stored.write_text(found)
    assert parsed(str(stored)) == found


def runtime_kit():
    """Returns the helpers of the checkpoint tests."""
    path = Path(__file__).parents[1] / "runtime" / "checkpoint_kit.py"
    spec = importlib.util.spec_from_file_location("checkpoint_kit", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WIDTH = 64  # So large that each array has a separate file.


def checkpoint_reader(layout):
    """Returns a maker of `checkpoint_1`, with the reader for that layout."""
    kit = runtime_kit()

    def manager_of(folder, iterator):
        state = kit.make_state(0, width=WIDTH)
        partitioner = PjitPartitioner(num_partitions=1)
        return checkpoints.Checkpointer(state, partitioner, str(folder), iterator)

    def make(folder, material):
        iterator = kit.Iterator()
        iterator.position = 5
        state = kit.make_state(1, seed=1, width=WIDTH)
        if layout == "legacy":
            saved = folder / "fuzzed" / "checkpoint_1"
            # Values that gzip compresses; see `jaxaug_base.files.checksums`.
            state = jax.tree.map(lambda leaf: np.round(leaf, 1), state)
            kit.write_legacy(saved, state, ["target/layer/kernel"])
            iterator.save(saved / "train_ds-000-of-001")
            digests.write(saved)
        else:
            manager_of(folder / "fuzzed", iterator).save(state)
        return folder / "fuzzed"

    def read(path, material):
        iterator = kit.Iterator()
        manager = manager_of(path, iterator)
        state = manager.restore(path=str(path / "checkpoint_1"))
        return iterator.position, arrays(state.state_dict())

    return make, read


def read_without_model(path, material):
    return arrays(checkpoints.load_t5x_checkpoint(path, 1))


def arrays(tree):
    leaves = map(np.asarray, jax.tree.leaves(tree))
    return [(leaf.shape, str(leaf.dtype), leaf.tobytes()) for leaf in leaves]


READERS = {
    "gin": Reader(make_gin, read_gin, LINES, is_configuration),
    "orbax checkpoint": Reader(*checkpoint_reader("orbax"), BYTES),
    "legacy checkpoint": Reader(*checkpoint_reader("legacy"), BYTES),
    "checkpoint without a model": Reader(
        checkpoint_reader("orbax")[0], read_without_model, BYTES
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(fuzzer, tmp_path, name, files):
    report = fuzzer.run(name, tmp_path, files)
    assert not report.defects, report.text()
    assert report.counts["refused"] + report.counts["same"] > 0
