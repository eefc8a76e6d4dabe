"""Datasets from SeqIO, on tasks registered here."""

import numpy as np
import pytest
import seqio
import tensorflow as tf
from t5x import utils
from t5x.feed import datasets, vocabularies

BYTES = seqio.ByteVocabulary()


def register(name, splits, vocabulary=BYTES, features=("inputs", "targets")):
    """Example i of n is the text of its number, in every feature."""

    def of(split):
        numbers = tf.data.Dataset.range(splits[split])
        return numbers.map(lambda i: dict.fromkeys(features, tf.strings.as_string(i)))

    seqio.TaskRegistry.remove(name)
    seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(
            lambda split, shuffle_files, seed=None: of(split),
            splits=tuple(splits),
            num_input_examples=splits,
        ),
        preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],
        output_features={
            f: seqio.Feature(vocabulary, add_eos=True, dtype=tf.int32) for f in features
        },
        metric_fns=[],
    )


@pytest.fixture(autouse=True, scope="module")
def tasks():
    register("r4_numbers", {"train": 40, "validation": 5})
    register("r4_train_only", {"train": 3})
    seqio.MixtureRegistry.remove("r4_mixture")
    seqio.MixtureRegistry.add("r4_mixture", [("r4_numbers", 1), ("r4_train_only", 1)])


def config(**changes):
    settings = {
        "mixture_or_task_name": "r4_numbers",
        "task_feature_lengths": {"inputs": 4, "targets": 4},
        "split": "train",
        "batch_size": 4,
        "shuffle": False,
        "seed": 0,
    }
    return utils.DatasetConfig(**{**settings, **changes})


def texts(batches):
    rows = [row for b in batches for row in np.asarray(b["encoder_input_tokens"])]
    return [BYTES.decode(row.tolist()) for row in rows]


def training(shard=0, shards=1, *options, **changes):
    return datasets.get_dataset(
        config(**changes), shard, shards, seqio.EncDecFeatureConverter, *options
    )


def evaluation(steps, shard=0, shards=1, **changes):
    return datasets.get_training_eval_datasets(
        config(**changes), shard, shards, steps, seqio.EncDecFeatureConverter
    )


def test_batches_of_each_shard():
    shards = [training(shard, 2, 1) for shard in range(2)]
    found = [texts(ds.as_numpy_iterator()) for ds in shards]
    assert [len(f) for f in found] == [20, 20]
    assert sorted(map(int, found[0] + found[1])) == list(range(40))
    assert shards[0].element_spec["encoder_input_tokens"].shape == (2, 4)


def test_a_seed_of_none_is_drawn(monkeypatch):
    seeds = []
    real = datasets.get_dataset_inner
    monkeypatch.setattr(
        datasets,
        "get_dataset_inner",
        lambda cfg, info, conv, seed, epochs: (
            seeds.append(seed) or real(cfg, info, conv, seed, epochs)
        ),
    )
    monkeypatch.setattr(datasets, "fresh_seed", lambda: 77)
    training(seed=None)
    training(seed=5)
    assert seeds == [77, 5]


@pytest.mark.parametrize(
    ("changes", "shards", "message"),
    [
        ({"mixture_or_task_name": "r4_numbrs"}, 1, "Did you mean 'r4_numbers'"),
        ({"batch_size": 5}, 2, r"Batch size \(5\) must be divisible by number of sh"),
        ({"split": "test"}, 1, r"no split 'test'; it has \['train', 'validation'\]"),
        ({"module": "no_such_module_r4"}, 1, "no module named 'no_such_module_r4'"),
    ],
)
def test_mistakes(changes, shards, message):
    with pytest.raises(ValueError, match=message):
        training(0, shards, **changes)


def test_continuing_by_itself_is_not_offered():
    with pytest.raises(ValueError, match="cannot continue from the last checkpoint"):
        training(0, 1, None, True)


def test_evaluation_batches_repeat_to_fill_the_steps():
    found = evaluation(3, split="validation")
    assert list(found) == ["r4_numbers"]
    for _ in range(2):  # cached, and from its beginning every time
        got = texts(found["r4_numbers"].as_numpy_iterator())
        assert list(map(int, got)) == [i % 5 for i in range(12)]


def test_evaluation_batches_of_a_mixture_and_its_tasks():
    found = evaluation(2, mixture_or_task_name="r4_mixture", split="train")
    assert set(found) == {"r4_numbers", "r4_train_only", "r4_mixture"}
    assert all(len(list(ds)) == 2 for ds in found.values())
    found = evaluation(2, mixture_or_task_name="r4_mixture", split="validation")
    assert "r4_train_only" not in found


def test_evaluation_shards_share_the_rows():
    def rows(shard):
        found = evaluation(2, shard, 2, split="validation")
        return texts(found["r4_numbers"].as_numpy_iterator())

    assert list(map(int, rows(0))) == [0, 2, 4, 1]
    assert list(map(int, rows(1))) == [1, 3, 0, 2]


def test_zeros_like_a_dataset():
    zeros = datasets.get_zeros_batch_like_dataset(training(), batch_size=7)
    assert zeros["encoder_input_tokens"].shape == (7, 4)
    assert zeros["encoder_input_tokens"].dtype == np.int32
    assert not np.any(zeros["encoder_input_tokens"])


class Model:
    def __init__(self, inputs=BYTES, outputs=BYTES):
        self.input_vocabulary, self.output_vocabulary = inputs, outputs


def test_vocabularies_must_match():
    vocabularies.verify_matching_vocabs(config(), Model())
    with pytest.raises(ValueError, match="model and of 'r4_numbers' do not match"):
        vocabularies.verify_matching_vocabs(
            config(), Model(outputs=seqio.ByteVocabulary(extra_ids=3))
        )


def test_the_vocabulary_of_other_features():
    register("r4_one", {"train": 1}, features=("targets",))
    cfg = config(mixture_or_task_name="r4_one")
    assert vocabularies.get_vocabulary(cfg) == (BYTES, BYTES)


def test_vocabulary_sizes_are_rounded_up():
    sizes = [
        vocabularies.round_vocab_size_to_multiple(seqio.PassThroughVocabulary(n))
        for n in (1, 128, 129)
    ]
    assert sizes == [128, 128, 256]
    assert (
        vocabularies.round_vocab_size_to_multiple(seqio.PassThroughVocabulary(9), 8)
        == 16
    )
