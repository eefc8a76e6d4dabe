"""The SeqIO source: fields, host shards, and streams that resume exactly."""

import itertools

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.feed.cache import Recipe, build
from jaxaug.feed.parallel import Corpus
from jaxaug.feed.source import RecordSource
from jaxaug.feed.vocabulary import train_words
from jaxaug.formats.d3st import D3STOptions
from jaxaug_papers import minisgd
from tests.support import grids

SHUFFLED = D3STOptions(order="shuffled")
FEW = 16  # Dialogues of a stream that is compared beyond the end of an epoch.


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("source")
    minisgd.write(root / "data", train_dialogues=60, dev_dialogues=9, test_dialogues=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        yield str(root / "data")


@pytest.fixture(scope="module")
def source(data):
    return RecordSource(
        {
            "train": Recipe(Corpus(data, "train"), SHUFFLED),
            "validation": Recipe(Corpus(data, "dev", "v1"), D3STOptions()),
        }
    )


def rows(dataset):
    return [
        tuple(v.decode() if isinstance(v, bytes) else v for v in example.values())
        for example in dataset.as_numpy_iterator()
    ]


def test_fields(source, data):
    found = list(source.get_dataset("validation", shuffle=False).as_numpy_iterator())
    records = build(Recipe(Corpus(data, "dev", "v1"), D3STOptions()))
    expected = {
        (e.inputs, e.targets, e.dialogue_id, e.turn, e.frame, e.service, e.key)
        for e in records.read()
    }
    names = ["inputs", "targets", "dialogue_id", "turn", "frame", "service", "key"]
    assert {
        tuple(
            v.decode() if isinstance(v, bytes) else int(v)
            for v in (example[name] for name in names)
        )
        for example in found
    } == expected
    assert {example["split"] for example in found} == {b"dev"}
    assert found[0]["turn"].dtype == np.int32
    assert source.num_input_examples("validation") == len(found) == len(expected)
    assert source.splits == ("train", "validation")


def test_unshuffled_order_is_the_same_each_time(source):
    first = rows(source.get_dataset("train", shuffle=False))
    assert first == rows(source.get_dataset("train", shuffle=False))
    mixed = rows(source.get_dataset("train", shuffle=True, seed=1))
    assert mixed != first and sorted(mixed) == sorted(first)
    assert mixed == rows(source.get_dataset("train", shuffle=True, seed=1))


def test_recipes_of_other_seeds_read_the_shards_in_another_order(data):
    def dialogues(seed):
        recipe = Recipe(Corpus(data, "train"), D3STOptions(order="shuffled", seed=seed))
        source = RecordSource({"train": recipe})
        found = source.get_dataset("train", shuffle=True, seed=1)
        return [item["dialogue_id"] for item in found.as_numpy_iterator()]

    one, two = dialogues(0), dialogues(1)
    same = set(one[:20]) & set(two[:20])
    assert sorted(one) == sorted(two)
    assert len(same) < 10


@pytest.mark.parametrize("hosts", [2, 3, 32])
def test_hosts_read_disjoint_shards(source, hosts):
    assert len(source.list_shards("train")) >= hosts
    parts = [
        rows(source.get_dataset("train", False, shard_info=seqio.ShardInfo(i, hosts)))
        for i in range(hosts)
    ]
    everything = rows(source.get_dataset("train", shuffle=False))
    assert sorted(itertools.chain(*parts)) == sorted(everything)
    assert sum(map(len, parts)) == len(everything) == source.num_input_examples("train")


@pytest.fixture(scope="module")
def mixture(request, data, tmp_path_factory):
    """Returns two tasks, and their numbers of examples.

    SeqIO keeps small tasks in memory, which must be resumable too.
    """
    vocabulary = seqio.SentencePieceVocabulary(str(train_words(data)))
    few = tmp_path_factory.mktemp("few") / "data"
    minisgd.write(few, train_dialogues=FEW, dev_dialogues=1, test_dialogues=1)
    features = {
        name: seqio.Feature(vocabulary, add_eos=True) for name in ("inputs", "targets")
    }
    tasks, count = [], 0
    for variant in (None, "v1"):
        recipe = Recipe(Corpus(str(few), "train", variant), SHUFFLED)
        source = RecordSource({"train": recipe})
        count += source.num_input_examples("train")
        if request.param == "large":
            source.num_input_examples = lambda split: 10**6
        tasks.append(
            seqio.Task(
                f"task_{variant}_{request.param}",
                source=source,
                output_features=features,
                preprocessors=[
                    seqio.preprocessors.tokenize,
                    seqio.preprocessors.append_eos_after_trim,
                ],
            )
        )
    return seqio.Mixture(f"mixture_{request.param}", tasks, default_rate=1.0), count


@grids.diagonal(
    "mixture, pack", ["small", "large"], [False, True], indirect=["mixture"]
)
def test_a_saved_stream_resumes_exactly(mixture, tmp_path, pack):
    both, count = mixture

    def batches():
        return seqio.get_dataset(
            both,
            {"inputs": 128, "targets": 64},
            seqio.EncDecFeatureConverter(pack=pack),
            "train",
            shuffle=True,
            seed=3,
            num_epochs=None,
        ).batch(8)

    dataset = batches()
    stream = iter(dataset)
    for _ in range(10):
        next(stream)
    saved = tf.train.Checkpoint(stream=stream).save(str(tmp_path / "position"))
    expected = [next(stream) for _ in range(25)]
    assert count < 8 * (10 + 25)  # They continue beyond the end of the epoch.

    restored = iter(batches())
    tf.train.Checkpoint(stream=restored).restore(saved).assert_consumed()
    for batch in expected:
        other = next(restored)
        assert batch.keys() == other.keys()
        for name in batch:
            np.testing.assert_array_equal(batch[name], other[name])
    first = next(iter(dataset))
    assert not np.array_equal(
        first["encoder_input_tokens"], expected[0]["encoder_input_tokens"]
    )
