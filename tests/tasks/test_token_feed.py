"""The token feed and SeqIO's pipeline give the same examples; stages of a run."""

import collections

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio
import tensorflow as tf
from t5x import utils

from jaxaug.core.errors import UserError
from jaxaug.feed.batches import LAYOUTS, layout_of
from tests.support import grids

LENGTHS = {"inputs": 80, "targets": 20}  # They truncate inputs and targets.
CONVERTERS = {
    "enc_dec": seqio.EncDecFeatureConverter,
    "prefix_lm": seqio.PrefixLMFeatureConverter,
    "decoder": seqio.DecoderFeatureConverter,
}
PERSONA = """1 your persona: i like tea and the long evenings of winter .
2 your persona: i have two cats .
3 hi , how are you doing this fine morning ?\tgood , and you ?
4 i am fine . what do you like ?\tnice , i like tea and cats .
"""


@pytest.fixture(scope="module", autouse=True)
def more_tasks(tasks, tmp_path_factory):
    """Registers tasks of the other kinds; all their splits have examples."""
    import tasks.paraphrase
    import tasks.personachat

    folder = tmp_path_factory.mktemp("persona")
    for name in ("train", "valid"):
        (folder / f"{name}_self_original_no_cands.txt").write_text(PERSONA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_PERSONACHAT_DIR", str(folder))
        tasks.paraphrase.register()
        tasks.personachat.register()
        tasks.register()
        yield


def config(name, **changes):
    """Has the fields of T5X's DatasetConfig."""
    values = {
        "mixture_or_task_name": name, "task_feature_lengths": LENGTHS, "split": "train",
        "batch_size": 8, "shuffle": True, "seed": 3, "use_cached": False, "pack": False,
        "use_custom_packing_ops": False, "trim_output_features": True,
    }  # fmt: skip
    return utils.DatasetConfig(**(values | changes))


def feed(cfg, converter=seqio.EncDecFeatureConverter, shard=(0, 1), num_epochs=None):
    from tasks import token_feed

    return token_feed.get_dataset(
        cfg, *shard, converter, num_epochs, otherwise=utils.get_dataset
    )


def rows_of(batches):
    return collections.Counter(
        tuple((name, tuple(row)) for name, row in sorted(zip(batch, rows, strict=True)))
        for batch in batches
        for rows in zip(*batch.values(), strict=True)
    )


@grids.diagonal(
    "name, lengths, kind",
    [
        ("d3st_sgd", LENGTHS),
        ("d3st_aug_v1_short2", LENGTHS),
        ("paraphrase_aug", {"inputs": 6, "targets": 6}),
        *(
            ("personachat_self_original", {"inputs": n, "targets": 4})
            for n in (9, 24, 60)
        ),
        ("personachat_turns_self_original", {"inputs": 12, "targets": 40}),
    ],
    CONVERTERS,
)
def test_an_epoch_has_the_examples_of_seqio(name, lengths, kind):
    expected = seqio.get_dataset(
        name, lengths, dataset_split="train",
        feature_converter=CONVERTERS[kind](pack=False), num_epochs=1, shuffle=False,
        batch_size=1,
    )  # fmt: skip
    cfg = config(name, task_feature_lengths=lengths, batch_size=1)
    found = rows_of(feed(cfg, CONVERTERS[kind], num_epochs=1))
    assert found == rows_of(expected.as_numpy_iterator())
    # A packed epoch has the same tokens.
    cfg = config(name, task_feature_lengths=lengths, batch_size=1, pack=True)
    sums = [
        sum(int(batch["decoder_loss_weights"].sum()) for batch in batches)
        for batches in (
            feed(cfg, CONVERTERS[kind], num_epochs=1),
            expected.as_numpy_iterator(),
        )
    ]
    assert sums[0] == sums[1] > 0


@pytest.mark.parametrize("kind", LAYOUTS)
def test_packed_rows_are_those_of_seqios_converters(kind):
    rng = np.random.default_rng(0)
    rows = [
        [
            {
                name: np.append(rng.integers(2, 50, rng.integers(1, 9)), 1)
                for name in LENGTHS
            }
            for _ in range(number)
        ]
        for number in (1, 3, 2)
    ]
    # Each example fits into one of the first rows, and no example of the next row does.
    lengths = {"inputs": 30, "targets": 30}
    batch = layout_of(kind).fill(rows, lengths, pack=True)
    for number, row in enumerate(rows):
        source = tf.data.Dataset.from_generator(
            lambda row=row: iter(row),
            output_signature=dict.fromkeys(LENGTHS, tf.TensorSpec([None], tf.int32)),
        )
        converted = CONVERTERS[kind](pack=True)(source, lengths)
        (expected,) = converted.as_numpy_iterator()
        assert batch.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(batch[name][number], value, err_msg=name)
            assert batch[name].dtype == value.dtype


def levels(steps):
    """Returns a mixture of levels: the original schema, then v1, then v2."""
    from jaxaug.curriculum import mixture, schedule

    stages = schedule.gradual(steps, levels=2, original_fraction=0.0)
    names = ["d3st_sgd", "d3st_aug_v1", "d3st_aug_v2"]
    return mixture.level_mixture(names, stages)


def texts_of(batch):
    return {
        tuple(row[segments == number])
        for row, segments in zip(
            batch["encoder_input_tokens"], batch["encoder_segment_ids"], strict=True
        )
        for number in range(1, segments.max() + 1)
    }


@pytest.fixture(scope="module")
def texts():
    """Returns the inputs of each level of `levels`."""
    found = []
    for name in ("d3st_sgd", "d3st_aug_v1", "d3st_aug_v2"):
        cfg = config(name, pack=True, batch_size=1)
        batches = list(feed(cfg, num_epochs=1))
        found.append(set.union(*map(texts_of, batches)))
    return found


@pytest.mark.parametrize("shard", [(0, 1), (1, 2)])
def test_stages_of_packed_rows_change_at_their_step(texts, shard):
    batches = feed(config(levels(30), batch_size=16, pack=True), shard=shard)
    for step in range(120):
        level = min(step // 30, 2)
        assert texts_of(next(batches)) <= texts[level], step


def test_a_prompt_curriculum_and_a_mixture():
    from jaxaug.curriculum import mixture

    found = mixture.prompt_curriculum("d3st_aug_2x", 10)
    batches = feed(config(found, pack=True))
    lengths = [
        np.mean([len(text) for text in texts_of(next(batches))]) for _ in range(10)
    ]
    # Stages end after 0.2 and 0.4 of the run.
    assert max(lengths[:2]) + 5 < min(lengths[4:])
    assert [stage.end for stage in found.stages] == [2, 4, 10]
    batches = feed(config("d3st_aug_4x", pack=True), seqio.PrefixLMFeatureConverter)
    assert next(batches)["decoder_causal_attention"].shape == (8, 100)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seed": None}, "DatasetConfig.seed is None"),
        ({"trim_output_features": False}, "trim_output_features is not set"),
        ({"task_feature_lengths": {"targets": 8}}, "not both given"),
        ({"use_cached": True}, "DatasetConfig.use_cached is set"),
        ({"mixture_or_task_name": "own"}, "'own' is no set of jaxaug.feed.sets"),
        ({"split": "dev"}, "no task of d3st_sgd has the split dev"),
    ],
)  # fmt: skip
def test_other_data_come_from_seqio(changes, reason):
    from tasks import token_feed

    cfg = config("d3st_sgd", **changes)
    assert reason in token_feed.why_not(cfg, seqio.EncDecFeatureConverter)


def test_every_level_needs_the_split():
    with pytest.raises(UserError, match="only 1 of the 3 tasks of .*'test'; every"):
        feed(config(levels(5), split="test"))
    with pytest.raises(UserError, match="'curriculum' is no task or mixture of SeqIO"):
        utils.get_dataset(config(levels(5)), 0, 1, seqio.EncDecFeatureConverter)


def test_features_of_other_converters_come_from_seqio():
    from tasks import token_feed

    asked = []
    made = token_feed.get_dataset(
        config("d3st_sgd"), 0, 2, seqio.LMFeatureConverter, 1, False,
        otherwise=lambda *arguments: asked.append(arguments) or "batches",
    )  # fmt: skip
    assert made == "batches"
    assert asked[0][1:] == (0, 2, seqio.LMFeatureConverter, 1, False)
    both = lambda pack: seqio.PrefixLMFeatureConverter(False, pack=pack)
    reason = token_feed.why_not(config("d3st_sgd"), both)
    assert reason == "the loss is computed on inputs, too"


def test_wordings_of_a_frame_share_a_batch(tasks):
    from tasks import token_feed

    cfg = config("d3st_aug_6x", task_feature_lengths={"inputs": 200, "targets": 40})
    options = {"otherwise": utils.get_dataset, "wordings": 2}
    converter = seqio.EncDecFeatureConverter
    batches = token_feed.get_dataset(cfg, 0, 1, converter, **options)
    different = 0
    for _ in range(5):
        batch = next(batches)
        targets, inputs = batch["decoder_target_tokens"], batch["encoder_input_tokens"]
        np.testing.assert_array_equal(targets[::2], targets[1::2])
        different += np.sum(np.any(inputs[::2] != inputs[1::2], axis=1))
    assert different == 20
    with pytest.raises(UserError, match="wordings = 2 needs the token feed: Dataset"):
        cached = config("d3st_aug_6x", use_cached=True)
        token_feed.get_dataset(cached, 0, 1, converter, **options)
    with pytest.raises(UserError, match="task 'paraphrase_aug' has no wordings"):
        lines = config("paraphrase_aug")
        token_feed.get_dataset(lines, 0, 1, converter, **options)
