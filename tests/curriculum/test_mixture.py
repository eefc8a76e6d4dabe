"""The scheduled mixture, on data sets whose elements say which level they are."""

import numpy as np
import pytest
import seqio
import tensorflow as tf

from jaxaug.curriculum import mixture, schedule
from jaxaug.errors import UserError

STAGE = schedule.staged((0.5,), ((1, 0), (1, 3)))
LEVELS = [0, 1, 1]


def source(level: int) -> tf.data.Dataset:
    """100000 * level, 100000 * level + 1, ... without end."""
    return tf.data.Dataset.counter().map(lambda i: 100_000 * level + i)


def mixed(total: int, seed: int = 0) -> tf.data.Dataset:
    sample = mixture.scheduled_sample_fn(STAGE, LEVELS, total)
    return sample([source(0), source(1), source(2)], [1.0, 1.0, 3.0], seed)


def take(dataset: tf.data.Dataset, count: int) -> np.ndarray:
    return np.asarray(list(dataset.take(count).as_numpy_iterator()))


def test_only_the_first_level_before_the_stage_ends():
    drawn = take(mixed(400), 400)
    assert (drawn[:200] < 100_000).all()
    assert (drawn[200:] >= 100_000).any()


def test_shares_follow_the_weights_and_rates():
    drawn = take(mixed(2000), 4000)[1000:] // 100_000
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    # Level weights 1 : 3, and tasks 1 and 2 share their level at rates 1 : 3.
    np.testing.assert_allclose(shares, [0.25, 0.1875, 0.5625], atol=0.03)


def test_order_is_a_function_of_the_seed():
    np.testing.assert_array_equal(take(mixed(100, 3), 100), take(mixed(100, 3), 100))
    assert (take(mixed(100, 3), 100) != take(mixed(100, 4), 100)).any()


def test_a_restored_iterator_continues_at_the_right_stage(tmp_path):
    straight = take(mixed(60), 60)
    iterator = iter(mixed(60))
    first = [next(iterator).numpy() for _ in range(25)]
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "it"))
    again = iter(mixed(60))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    rest = [next(again).numpy() for _ in range(35)]
    np.testing.assert_array_equal(first + rest, straight)


def test_wrong_arguments_are_refused():
    with pytest.raises(UserError, match="total_examples is 0"):
        mixture.scheduled_sample_fn(STAGE, LEVELS, 0)
    with pytest.raises(UserError, match=r"levels \[0\], the schedule weighs"):
        mixture.scheduled_sample_fn(STAGE, [0, 0], 10)


def test_prompt_curriculum_takes_the_companions_of_each_task():
    feature = seqio.Feature(seqio.PassThroughVocabulary(10), add_eos=False)
    for index, name in enumerate(("cur_a", "cur_b")):
        for level, suffix in enumerate(("_short2", "_short5", "")):
            value = [10 * level + index + 1]
            seqio.TaskRegistry.add(
                name + suffix,
                source=seqio.FunctionDataSource(
                    lambda split, shuffle_files, seed=None, value=value: (
                        tf.data.Dataset.from_tensors(
                            {"inputs": value, "targets": value}
                        ).repeat(50)
                    ),
                    ["train"],
                ),
                output_features={"inputs": feature, "targets": feature},
            )
    seqio.MixtureRegistry.add("cur_mix", [("cur_a", 1.0), ("cur_b", 2.0)])
    found = mixture.prompt_curriculum(
        "cur_mix",
        total_steps=30,
        batch_size=10,
        stage_ends=(0.25, 0.5),
        stage_weights=((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    )
    stream = found.get_dataset(split="train", seed=0).take(300)
    drawn = np.asarray([item["inputs"][0] for item in stream.as_numpy_iterator()])
    assert (drawn[:75] < 10).all()
    assert ((drawn[75:150] > 10) & (drawn[75:150] < 20)).all()
    assert (drawn[150:] > 20).all()
    # cur_b is drawn twice as often as cur_a.
    assert 0.55 < (drawn % 10 == 2).mean() < 0.78


def test_unknown_names_are_answered_with_the_nearest():
    source = seqio.FunctionDataSource(lambda split, shuffle_files: None, [])
    seqio.TaskRegistry.add("cur_lonely", source=source, output_features={})
    with pytest.raises(UserError, match="named 'cur_lonly'; .*: cur_lonely"):
        mixture.prompt_curriculum("cur_lonly", total_steps=1, batch_size=1)
    with pytest.raises(UserError, match="named 'cur_lonely_short2'"):
        mixture.prompt_curriculum("cur_lonely", total_steps=1, batch_size=1)
