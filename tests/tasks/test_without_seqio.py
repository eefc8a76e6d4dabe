"""Training and evaluation without SeqIO, against the same runs through it."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars

from jaxaug_papers import minisgd
from tests.support.gin_files import ROOT

# sitecustomize.py of a program in which the libraries are not installed: they cannot be
# imported, and `importlib.util.find_spec`, which some packages ask, returns None.
ABSENT = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def find_present(name, path=None, target=None):
    if name.partition(".")[0] not in ("clu", "seqio", "tensorflow", "tensorflow_text"):
        return find_spec(name, path, target)

PathFinder.find_spec = find_present
"""
VIEWS = """
import sys
import tasks
from jaxaug.feed import sets
from tasks import curriculum, evaluation, report_logger, token_feed, vocabulary

ours = sets.find("d3st_tree_6x")
assert sets.find("personachat_rt") and not sets.find("own")
words = vocabulary.default_vocabulary()
assert not {"seqio", "tensorflow"} & sys.modules.keys()
import seqio
from t5x.feed import registered

assert {"d3st_sgd", "paraphrase_aug"} <= registered.names()
same = seqio.get_mixture_or_task("d3st_tree_6x")
assert [task.name for task in ours.tasks] == [task.name for task in same.tasks]
assert {same.get_rate(task) for task in same.tasks} == {1.0}
task = seqio.get_mixture_or_task("d3st_sgd")
assert task.output_features["inputs"].vocabulary is words
same = seqio.SentencePieceVocabulary(words.file)
assert words == same and words != seqio.SentencePieceVocabulary(words.file, 9)
assert same.encode("two cats") == words.encode("two cats")
assert same.encode_tf("two cats").numpy().tolist() == words.encode("two cats")
ids = [*same.encode("two cats"), 10**6, 1, 5]
assert same.decode(ids) == words.decode(ids)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python in a small MiniSGD; returns its exit status and its messages."""
    root = tmp_path_factory.mktemp("without_seqio")
    minisgd.write(root / "data", train_dialogues=20, dev_dialogues=2, test_dialogues=3)
    (root / "absent").mkdir()
    (root / "absent" / "sitecustomize.py").write_text(ABSENT)

    def run(*arguments, absent=False):
        paths = [str(root / "absent")] * absent + [os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ
            | {
                "JAXAUG_DATA_DIR": str(root / "data"),
                "JAXAUG_CACHE_DIR": str(root / "cache"),
                "PYTHONPATH": os.pathsep.join(paths),
            },
            cwd=ROOT,
            capture_output=True,
            check=False,
            text=True,
        )
        return done.returncode, done.stderr

    return run


def outputs(folder):
    """Returns the bytes of the files of an evaluation, and the values of its events."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "inference_eval").rglob("*.*"))
        if path.is_file() and "events.out" not in path.name
    }
    values = {
        (str(path.parent.relative_to(folder)), tag, step): value
        for path in sorted(folder.rglob("events.out*"))
        for tag, points in read_scalars(path.parent).items()
        if not tag.startswith("timing/")
        for step, value in points.items()
    }
    return files, values


@pytest.mark.slow
@pytest.mark.long
def test_a_run_without_seqio_writes_the_same(run, tmp_path):
    bound = tmp_path / "seqio.gin"
    bound.write_text(
        "from __gin__ import dynamic_registration\nimport seqio\n"
        "seqio.Evaluator.use_memory_cache = True\n"
    )
    found = []
    for name, *more in ("without",), ("through", f"--gin_file={bound}"):
        status, messages = run(
            *("-m", "t5x.train", "--gin_file=configs/d3st.gin", *more),
            *("--gin.TRAIN_STEPS=2", "--gin.EVAL_PERIOD=2", "--accept_truncation"),
            *("--gin.train.stats_period=1", f'--gin.MODEL_DIR="{tmp_path / name}"'),
            absent=not more,
        )
        assert status == 0, messages
        found.append(outputs(tmp_path / name))
    files, values = found[1]
    assert "inference_eval/d3st_sgdx_v5-000002.jsonl" in files
    assert "inference_eval/robustness/d3st-000002.json" in files
    assert ("train", "loss", 2) in values
    assert ("inference_eval/d3st_sgd", "eval/joint_goal_accuracy", 2) in values
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_dry_run_without_seqio_checks_all(run):
    """It compares the shapes of `mini`, and imports nothing that takes long."""
    program = "t5x.train", "--gin_file=configs/d3st.gin", "--dry_run"
    status, messages = run("-m", *program, absent=True)
    assert (status, messages.splitlines()[-1]) == (
        0,
        "dry run: the configuration is valid; nothing was run.",
    )
    assert "not compared" not in messages and "not checked" not in messages


@pytest.mark.slow
@pytest.mark.long
def test_sizes_of_t5_need_no_seqio(run):
    sizes = "--gin_file=configs/scale/base_hf.gin", '--gin.MODEL_DIR="x"', "--dry_run"
    status, messages = run(
        "-m", "t5x.train", "--gin_file=configs/d3st.gin", *sizes, absent=True
    )
    assert status == 1
    assert "models/t5-v1_1-base/checkpoint_0 does not exist" in messages


def test_other_tasks_name_the_extra(run):
    program = "t5x.train", "--gin_file=configs/paraphrase_minisgd.gin", "--dry_run"
    status, messages = run("-m", *program, "--gin.TASK='own'", absent=True)
    expected = "seqio is not installed, and SeqIO tasks need it. Run `pip install"
    assert status == 1 and f"{expected} 'jaxaug[seqio]'`." in messages


def test_caches_are_made_before_training(run, tmp_path):
    command = ["-m", "jaxaug.cli", "data", "cache", "--out", str(tmp_path / "cache")]
    status, messages = run(*command, absent=True)
    assert status == 1 and "name tasks (--task) or mixtures (--mixture)" in messages
    status, messages = run(*command, "--mixture", "d3st_x", absent=True)
    assert status == 1 and "'d3st_x' is no task and no mixture" in messages
    status, messages = run(*command, "--module", "mine.tasks", "--task", "a")
    assert "--module mine.tasks: there is no module 'mine'. Name one of" in messages
    status, messages = run(*command, "--mixture", "d3st_aug_2x", absent=True)
    assert status == 0, messages
    assert "d3st_aug_v1: train " in messages and "d3st_sgd: train " in messages
    assert len(list((tmp_path / "cache/tokens").iterdir())) == 4


def test_tasks_are_registered_when_seqio_is_used(run):
    pytest.importorskip("seqio")
    status, messages = run("-c", VIEWS)
    assert status == 0, messages


def test_shards_are_interleaved_as_in_tf_data():
    tf = pytest.importorskip("tensorflow")
    from tasks.dialogues import interleaved

    for seed in range(20):
        draw = random.Random(seed)
        count = draw.choice([1, 16, 17, 40])
        counts = [draw.choice([0, 1, 15, 16, 17, 32, 33]) for _ in range(count)]
        ends = np.cumsum(counts)
        shards = tf.data.Dataset.from_tensor_slices((ends - counts, ends))
        expected = shards.interleave(
            tf.data.Dataset.range, cycle_length=16, block_length=16
        )
        assert interleaved(counts) == [int(x) for x in expected.as_numpy_iterator()]
