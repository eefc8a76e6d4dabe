"""The generators of the DiPS paper and its baselines, trained by their gin files."""

import os
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from t5x import checkpoints

from jaxaug.metrics import training

ROOT = Path(__file__).resolve().parents[3]

# Settings that make the runs short; other settings are from the Quora runs.
TINY = """
TASK = 'paraphrase_toy_both'
TASK_FEATURE_LENGTHS = {'inputs': 6, 'targets': 6}
VOCABULARY_SIZE = 250
EMB_DIM = 4
HIDDEN_DIM = 4
NUM_LAYERS = 1
LATENT_DIM = 2
BATCH_SIZE = 8
EVAL_BATCH_SIZE = 8
EVAL_STEPS = 1
EVAL_PERIOD = 2
TRAIN_STEPS = 2
ANNEAL_STEPS = 2
TEACHER_FORCING = 1.0  # Less takes long to compile; test_free_running.py has it.
"""

# For RbM, whose evaluation would repeat the evaluation of the generator.
NOT_EVALUATED = """
from __gin__ import dynamic_registration
import __main__ as train_script
from t5x import checkpoints
from t5x import utils

train_script.train:
  infer_eval_dataset_cfg = None
  train_eval_dataset_cfg = None
  actions = {}
utils.SaveCheckpointConfig.checkpointer_cls = @checkpoints.Checkpointer
"""


@pytest.fixture(scope="module")
def train(python, tmp_path_factory):
    """Returns a function (name of an experiment, flags) -> folder of its run."""
    root = tmp_path_factory.mktemp("experiments")
    pairs = [f"what is n{i} ?\twhich one is n{i} ?" for i in range(100)]
    (root / "toy.tsv").write_text("\n".join(pairs) + "\n")
    (root / "tiny.gin").write_text(TINY)
    (root / "rbm.gin").write_text(NOT_EVALUATED + TINY)

    def run(name, *flags):
        done = subprocess.run(
            [*(python, "-m", "t5x.train"), f"--gin_file=configs/paraphrase_{name}.gin",
             f"--gin_file={root}/{'rbm' if name == 'rbm' else 'tiny'}.gin",
             f"--gin.MODEL_DIR='{root}/{name}'", *flags],
            cwd=ROOT,
            env={**os.environ, "JAX_PLATFORMS": "cpu",
             "JAXAUG_PARAPHRASES": str(root / "toy.tsv"),
             "JAXAUG_CACHE_DIR": str(root / "cache")},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return root / name

    return run


def weights(folder, step):
    """Returns the parameters of a run by path."""
    state = checkpoints.load_t5x_checkpoint(str(folder), step)
    return {
        jax.tree_util.keystr(path): np.asarray(value)
        for path, value in jax.tree_util.tree_leaves_with_path(state["target"])
    }


@pytest.mark.slow
@pytest.mark.long
def test_rbm_starts_from_a_generator_and_an_evaluator(train):
    generator, evaluator = train("lstm"), train("evaluator")
    run = train(
        "rbm", f"--gin.GENERATOR='{generator}'", f"--gin.EVALUATOR='{evaluator}'"
    )
    assert training.read(generator).scores["paraphrase_toy_both"]["bleu"].keys() == {2}
    # The run has two further steps after the generator, whose vocabulary it uses.
    (reward,) = training.read(run).steps["reward"].values()
    assert 0 < reward < 1
    name = "vocabulary.model"
    assert (run / name).read_bytes() == (generator / name).read_bytes()
    before, after = weights(generator, 2), weights(run, 4)
    assert before.keys() == after.keys()
    # Two steps of Adam at 1e-5 change weights by at most 2e-5.
    moved = [np.abs(after[name] - before[name]).max() for name in before]
    assert 0 < max(moved) < 3e-5


@pytest.mark.slow
@pytest.mark.long
def test_vae_svg_logs_the_divergence_and_its_weight(train):
    run = train("vae_svg")
    found = training.read(run)
    (divergence,) = found.steps["kl"].values()
    assert divergence > 0
    # The weight is 1/2 in the first of two ANNEAL_STEPS and 1 in the second.
    (weight,) = found.steps["kl_weight"].values()
    assert weight == pytest.approx(0.75)
    assert found.scores["paraphrase_toy_both"]["bleu"].keys() == {2}
    assert found.held_out["paraphrase_toy_both"]["kl"].keys() == {2}
