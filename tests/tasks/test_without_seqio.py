"""Training and evaluation of dialogue sets without SeqIO, against the same through it."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from jaxaug_base.event_files import read_scalars

from jaxaug_papers import minisgd
from tests.support.gin_files import ROOT

# A run in which neither can be imported.
ABSENT = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def find_present(name, path=None, target=None):
    if name.partition(".")[0] not in ("seqio", "tensorflow", "tensorflow_text"):
        return find_spec(name, path, target)

PathFinder.find_spec = find_present
"""
LATE = """
import sys
import tasks
from tasks import curriculum, dialogues, evaluation, report_logger, token_feed, vocabulary

assert not {"seqio", "tensorflow"} & sys.modules.keys()
assert [each.name for each in dialogues.find("d3st_eval").tasks][0] == "d3st_sgd"
assert dialogues.find("personachat_self_original") is None
words = vocabulary.default_vocabulary()
import seqio

assert "tasks.dst" not in sys.modules  # Nothing has used a registry yet.
assert {"d3st_sgd", "paraphrase_aug"} <= {*seqio.TaskRegistry.names()}
assert "d3st_eval" in seqio.MixtureRegistry.names()
assert tasks.dst is sys.modules["tasks.dst"]
assert dialogues.find("d3st_eval") is None
task = seqio.get_mixture_or_task("d3st_sgd")
assert task.output_features["inputs"].vocabulary is words
same = seqio.SentencePieceVocabulary(words.file)
assert same == words and words == same and isinstance(words, seqio.Vocabulary)
assert same.encode("two cats") == words.encode("two cats")
ids = [*same.encode("two cats"), 10**6, 1, 5]
assert same.decode(ids) == words.decode(ids)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("without_seqio")
    minisgd.write(root / "data", train_dialogues=20, dev_dialogues=2, test_dialogues=3)
    (root / "absent").mkdir()
    (root / "absent" / "sitecustomize.py").write_text(ABSENT)
    (root / "seqio.gin").write_text(
        "from __gin__ import dynamic_registration\nimport seqio\n"
        "seqio.Evaluator.use_memory_cache = True\n"
    )
    return root


def environment(world, *paths):
    given = [*map(str, paths), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "JAXAUG_DATA_DIR": str(world / "data"),
        "JAXAUG_CACHE_DIR": str(world / "cache"),
        "PYTHONPATH": os.pathsep.join(given),
    }


def train(world, name, config, *arguments, paths=()):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "t5x.train", f"--gin_file=configs/{config}.gin"),
            *("--gin.TRAIN_STEPS=2", "--gin.EVAL_PERIOD=2", "--accept_truncation"),
            *("--gin.train.stats_period=1", f'--gin.MODEL_DIR="{world / name}"'),
            *arguments,
        ],
        env=environment(world, *paths),
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return world / name


def outputs(folder):
    """File below the folder -> bytes, without events and notes on the process."""
    found = {}
    for path in sorted((folder / "inference_eval").rglob("*")):
        if path.is_file() and "events.out" not in path.name:
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def scalars(folder):
    """(folder of an event file, tag, step) -> value, without times."""
    return {
        (str(path.parent.relative_to(folder)), tag, step): value
        for path in sorted(folder.rglob("events.out*"))
        for tag, points in read_scalars(path.parent).items()
        if not tag.startswith("timing/")
        for step, value in points.items()
    }


@pytest.mark.slow
def test_a_run_without_seqio_writes_the_same(world):
    without = train(world, "without", "d3st_aug", paths=[world / "absent"])
    through = train(world, "through", "d3st_aug", f"--gin_file={world}/seqio.gin")
    expected = outputs(through)
    assert "inference_eval/d3st_sgdx_v5-000002.jsonl" in expected
    assert "inference_eval/robustness/d3st-000002.json" in expected
    assert outputs(without) == expected
    curve = scalars(through)
    assert ("train", "loss", 2) in curve
    assert ("inference_eval/d3st_sgd", "eval/joint_goal_accuracy", 2) in curve
    assert scalars(without) == curve


def test_tasks_are_registered_when_seqio_is_used(world):
    pytest.importorskip("seqio")
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        env=environment(world),
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_shards_are_interleaved_as_in_tf_data():
    tf = pytest.importorskip("tensorflow")
    from tasks.evaluation import interleaved

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
