"""The scheduled mixture, on data sets whose elements name their level."""

from collections.abc import Iterator

import numpy as np
import pytest
import seqio
import tensorflow as tf

from jaxaug.core.errors import UserError
from jaxaug.curriculum import mixture, schedule, scheduled
from tests.support import grids

LEVELS = [0, 1, 1]


def source(level: int) -> tf.data.Dataset:
    """Yields 100000 * level, 100000 * level + 1, ... without end."""
    return tf.data.Dataset.counter().map(lambda i: 100_000 * level + i)


def mixed(total: int, seed: int = 0) -> tf.data.Dataset:
    stages = schedule.staged((total // 2, total), ((1, 0), (1, 3)))
    sample = scheduled.scheduled_sample_fn(stages, LEVELS)
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
    stages = schedule.gradual(1, 1)
    with pytest.raises(UserError, match=r"levels \[0\], the schedule weighs"):
        scheduled.scheduled_sample_fn(stages, [0, 0])
    sample = scheduled.scheduled_sample_fn(stages, [0, 1])
    with pytest.raises(UserError, match="only 1 of the 2 tasks of the mixture have"):
        sample([source(0)], [1.0], 0)


@pytest.fixture(scope="module")
def level_tasks() -> list[str]:
    """Registers tasks of levels 0 to 2; example i of level l is (l + 1, i + 1)."""
    feature = seqio.Feature(seqio.PassThroughVocabulary(1000), add_eos=False)
    names = [f"cur_level{level}" for level in range(3)]
    for level, name in enumerate(names):
        examples = {
            "inputs": [[level + 1, index + 1] for index in range(40)],
            "targets": [[level + 1]] * 40,
        }
        seqio.TaskRegistry.add(
            name,
            source=seqio.FunctionDataSource(
                lambda split, shuffle_files, seed=None, examples=examples: (
                    tf.data.Dataset.from_tensor_slices(examples)
                ),
                ["train"],
            ),
            output_features={"inputs": feature, "targets": feature},
        )
    return names


def batches(
    source: str, *, rows: int, length: int = 2, shard: int = 0, hosts: int = 1
) -> tf.data.Dataset:
    """Returns batches as T5X makes them; packed if rows are longer than an example."""
    return seqio.get_dataset(
        source,
        {"inputs": length, "targets": length},
        dataset_split="train",
        shuffle=True,
        feature_converter=seqio.EncDecFeatureConverter(pack=length > 2),
        shard_info=seqio.ShardInfo(shard, hosts),
        num_epochs=None,
        seed=0,
        batch_size=rows,
    )


def tokens(dataset: tf.data.Dataset, count: int) -> list[np.ndarray]:
    """Returns the (level, example) pairs of each batch, in order."""
    found = []
    for batch in dataset.take(count).as_numpy_iterator():
        inputs = batch["encoder_input_tokens"].reshape(-1, 2)
        found.append(inputs[inputs[:, 0] > 0] - 1)
    return found


@pytest.mark.parametrize("told", [True, False])
def test_stages_change_at_their_step_on_every_host(level_tasks, told):
    hosts = 2
    stages = schedule.cyclic(3, levels=2, original_fraction=0.0)
    drawn = mixture.level_mixture(
        level_tasks, stages, batch_size=8, num_hosts=hosts if told else None
    )
    for shard in range(hosts):
        data = batches(drawn, rows=8 // hosts, shard=shard, hosts=hosts)
        for step, batch in enumerate(tokens(data, stages.steps)):
            assert len(batch) == 8 // hosts
            assert set(batch[:, 0]) == {step // 3 % 3}
            # An example belongs to one host.
            assert set(batch[:, 1] % hosts) == {shard}


def test_a_fifth_of_a_stage_is_original(level_tasks):
    stages = schedule.staged((60,), ((0.2, 0.0, 0.8),))
    drawn = mixture.level_mixture(level_tasks, stages, batch_size=50)
    levels = np.concatenate(tokens(batches(drawn, rows=50), 60))[:, 0]
    assert abs((levels == 0).mean() - 0.2) < 0.02
    assert not (levels == 1).any()


@pytest.mark.parametrize("length", grids.first(1, [2, 16]))
def test_any_restart_gives_the_same_examples(level_tasks, tmp_path, length):
    stages = schedule.cyclic(2, levels=2)
    packed = (8.0, 8.0, 8.0) if length > 2 else ()
    drawn = mixture.level_mixture(level_tasks, stages, 4, packed)

    def start() -> Iterator:
        # Built again, as a program does; iterating a data set again would shuffle
        # again.
        return iter(batches(drawn, rows=4, length=length))

    straight, iterator = start(), start()
    for step in range(12):
        if step == 5:
            path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "it"))
            iterator = start()
            tf.train.Checkpoint(iterator=iterator).read(path).assert_consumed()
        expected, found = next(straight), next(iterator)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])


def test_stages_change_at_their_step_when_rows_are_packed(level_tasks):
    # Eight examples fill a row; only rows with both levels come at a wrong step.
    stages = schedule.gradual(4, levels=2, original_fraction=0.0)
    drawn = mixture.level_mixture(level_tasks, stages, 4, (8.0, 8.0, 8.0))
    for step, batch in enumerate(tokens(batches(drawn, rows=4, length=16), 12)):
        assert len(batch) == 32
        assert set(batch[:, 0]) == {step // 4}


def test_a_mixture_goes_by_its_name(level_tasks):
    def made(steps: int, rates: int = 3) -> str:
        stages = schedule.gradual(steps, levels=rates - 1)
        return mixture.level_mixture(level_tasks[:rates], stages, 4, name="cur_named")

    assert made(7) == "cur_named"
    assert made(7) == "cur_named"  # the same one once more
    assert made(8) == "cur_named_2"
    assert made(7, rates=2) == "cur_named_3"
    assert made(8) == "cur_named_2"
    found = seqio.get_mixture_or_task("cur_named_3")
    assert [task.name for task in found.tasks] == level_tasks[:2]
    with pytest.raises(UserError) as error:
        mixture.level_mixture(
            level_tasks, schedule.gradual(1, levels=2), 4, name="cur_level1"
        )
    assert str(error.value) == (
        "curriculum: 'cur_level1' is the name of another task or mixture; give "
        "level_mixture another `name`"
    )


def test_wrong_levels_are_refused(level_tasks):
    stages = schedule.gradual(1, levels=2)
    with pytest.raises(
        UserError, match=r"2 levels of tasks, the .* weighs 3 \(0, 1, 2"
    ):
        mixture.level_mixture(level_tasks[:2], stages, 4)
    again = [*level_tasks[:2], level_tasks[:1]]
    with pytest.raises(UserError, match="'cur_level0' is in levels 0 and 2"):
        mixture.level_mixture(again, stages, 4)
    with pytest.raises(UserError, match="batch_size 4 does not divide by 3 hosts"):
        mixture.level_mixture(level_tasks, stages, 4, num_hosts=3)
    with pytest.raises(UserError, match="named 'cur_level9'; .*: cur_level"):
        mixture.level_mixture([*level_tasks[:2], "cur_level9"], stages, 4)


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
    assert found == "cur_mix_prompt_curriculum"
    registered = seqio.get_mixture_or_task(found)
    stream = registered.get_dataset(split="train", seed=0).take(300)
    drawn = np.asarray([item["inputs"][0] for item in stream.as_numpy_iterator()])
    assert (drawn[:75] < 10).all()
    assert ((drawn[75:150] > 10) & (drawn[75:150] < 20)).all()
    assert (drawn[150:] > 20).all()
    # cur_b is drawn twice as often as cur_a.
    assert 0.55 < (drawn % 10 == 2).mean() < 0.78


def test_tasks_of_another_kind_next_to_the_prompts():
    feature = seqio.Feature(seqio.PassThroughVocabulary(10), add_eos=False)
    names = ("cur_c_short2", "cur_c_short5", "cur_c", "cur_beside")
    for value, name in enumerate(names):
        seqio.TaskRegistry.add(
            name,
            source=seqio.FunctionDataSource(
                lambda split, shuffle_files, seed=None, value=value: (
                    tf.data.Dataset.from_tensors(
                        {"inputs": [value], "targets": [value]}
                    ).repeat(50)
                ),
                ["train"],
            ),
            output_features={"inputs": feature, "targets": feature},
        )
    found = mixture.prompt_curriculum(
        "cur_c",
        total_steps=40,
        batch_size=10,
        examples_per_row=(1, 1, 1, 1),
        stage_ends=(0.25, 0.5),
        stage_weights=((0.5, 0, 0, 0.5), (0, 1, 0, 0), (0, 0, 0.8, 0.2)),
        beside="cur_beside",
    )
    stream = seqio.get_mixture_or_task(found).get_dataset(split="train", seed=0)
    items = stream.take(400).as_numpy_iterator()
    drawn = np.asarray([item["inputs"][0] for item in items])
    assert {*drawn[:100]} == {0, 3}
    assert 0.35 < (drawn[:100] == 3).mean() < 0.65
    assert {*drawn[100:200]} == {1}
    assert 0.1 < (drawn[200:] == 3).mean() < 0.3


def test_unknown_names_are_answered_with_the_nearest():
    source = seqio.FunctionDataSource(lambda split, shuffle_files: None, [])
    seqio.TaskRegistry.add("cur_lonely", source=source, output_features={})
    with pytest.raises(UserError, match="named 'cur_lonly'; .*: cur_lonely"):
        mixture.prompt_curriculum("cur_lonly", total_steps=1, batch_size=1)
    with pytest.raises(UserError, match="named 'cur_lonely_short2'"):
        mixture.prompt_curriculum("cur_lonely", total_steps=1, batch_size=1)
