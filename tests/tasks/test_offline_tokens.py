"""A machine without SeqIO and TensorFlow reads the examples of offline caches."""

import itertools
import os
import pickle
import subprocess
from collections import Counter
from types import SimpleNamespace

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio

import tasks.vocabulary
from jaxaug.core.errors import UserError
from jaxaug.feed import offline_tokens, tokens
from jaxaug_papers import minisgd
from tasks import dst, offline

LENGTHS = {"inputs": 60, "targets": 24}


@pytest.fixture(scope="module", autouse=True)
def out(tmp_path_factory):
    """Returns the cache of `d3st_sgd`, with more shards than SeqIO opens at once."""
    root = tmp_path_factory.mktemp("offline")
    minisgd.write(root / "data", train_dialogues=90, dev_dialogues=4, test_dialogues=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_DATA_DIR", str(root / "data"))
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        patch.delenv("JAXAUG_VOCABULARY", raising=False)
        patch.setattr(seqio.TaskRegistry, "_REGISTRY", {})
        patch.setattr(seqio.MixtureRegistry, "_REGISTRY", {})
        patch.setattr(tasks.vocabulary, "_DEFAULT", tasks.vocabulary.FoundVocabulary())
        patch.setattr(seqio.utils, "_GLOBAL_CACHE_DIRECTORIES", [str(root / "out")])
        dst.register()
        for name in ("d3st_sgd", "d3st_aug_v1"):
            offline.cache_task(seqio.TaskRegistry.get(name), root / "out")
        yield root / "out"


def config(name="d3st_sgd", **changes):
    values = {
        "mixture_or_task_name": name,
        "task_feature_lengths": LENGTHS,
        "split": "train",
        "batch_size": 8,
        "shuffle": False,
        "seed": 3,
        "pack": False,
        "use_cached": True,
    }
    return SimpleNamespace(**(values | changes))


def of_seqio(split="train"):
    stream = seqio.get_dataset(
        "d3st_sgd",
        task_feature_lengths=LENGTHS,
        dataset_split=split,
        shuffle=False,
        num_epochs=1,
        use_cached=True,
        feature_converter=seqio.EncDecFeatureConverter(pack=False),
        batch_size=8,
    )
    return list(stream.as_numpy_iterator())


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name].dtype == other[name].dtype == np.int32
            np.testing.assert_array_equal(one[name], other[name])


PROGRAM = """
import itertools, pickle, sys
from types import SimpleNamespace

for name in ("tensorflow", "tensorflow_text", "seqio", "tasks"):
    sys.modules[name] = None  # as if it were not installed
from jaxaug.feed import tokens

out, path = sys.argv[1:]
cfg = SimpleNamespace(**%r)

def stream():
    return tokens.get_dataset(
        cfg, 0, 1, None, num_epochs=1, cache_dirs=[out], accept_truncation=True
    )

whole = list(stream())
first = stream()
before = list(itertools.islice(first, 3))
first.save(path)
second = stream()
second.restore(path)
pickle.dump((whole, before + list(second)), open(path, "wb"))
"""


def test_a_process_without_seqio_reads_its_caches(python, out, tmp_path):
    env = os.environ | {
        "JAXAUG_DATA_DIR": str(tmp_path / "none"),
        "JAXAUG_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [python, "-c", PROGRAM % vars(config()), str(out), str(tmp_path / "state")],
        capture_output=True,
        check=False,
        text=True,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    whole, resumed = pickle.loads((tmp_path / "state").read_bytes())
    plain = tokens.get_dataset(
        config(use_cached=False), 0, 1, None, num_epochs=1, accept_truncation=True
    )
    assert len(whole) > 20
    assert_same(whole, plain)  # The order equals the data without this cache.
    assert_same(resumed, whole)


def test_shuffled_batches_hold_each_example_once(out):
    batches = tokens.get_dataset(
        config(shuffle=True, batch_size=1),
        *(0, 1, None, 1),
        cache_dirs=[out],
        accept_truncation=True,
    )
    found = [batch["encoder_input_tokens"][0].tolist() for batch in batches]
    plain = [row.tolist() for b in of_seqio() for row in b["encoder_input_tokens"]]
    # SeqIO drops an incomplete batch of eight.
    assert 0 <= len(found) - len(plain) < 8 and found[: len(plain)] != plain
    rest = Counter(map(tuple, found)) - Counter(map(tuple, plain))
    assert rest.total() == len(found) - len(plain)


def test_a_mixture_and_what_is_missing(out):
    batches = tokens.get_dataset(
        config("d3st_aug_2x"), 0, 1, None, cache_dirs=[out], accept_truncation=True
    )
    assert len(list(itertools.islice(batches, 4))) == 4
    with pytest.raises(UserError, match="'d3st_aug_v2' is in no folder of cache_dirs"):
        tokens.get_dataset(config("d3st_aug_4x"), 0, 1, None, cache_dirs=[out])
    with pytest.raises(UserError, match="has no split 'tset'"):
        tokens.get_dataset(config(split="tset"), 0, 1, None, cache_dirs=[out])
    words = out.parent / "words"
    words.write_text("x")
    with pytest.raises(UserError, match="has ids of another vocabulary than"):
        tokens.get_dataset(
            config(), 0, 1, None, sentencepiece_model=words, cache_dirs=[out]
        )


def test_damaged_files(out, tmp_path):
    copied = tmp_path / "d3st_aug_v1"
    copied.mkdir()
    for path in (out / "d3st_aug_v1").iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    shard = max(copied.glob("train.tfrecord-*"), key=lambda path: path.stat().st_size)
    data = shard.read_bytes()
    flipped = bytearray(data)
    flipped[40] ^= 1
    long = (2**60).to_bytes(8, "little") + data[8:]
    for spoilt in (bytes(flipped), data[:-2], data + b"xx", b"text", long):
        shard.write_bytes(spoilt)
        with pytest.raises(
            UserError, match=r"is damaged or no file of TFRecords. Make"
        ):
            offline_tokens.build(copied, "train", root=tmp_path)
    shard.unlink()
    with pytest.raises(UserError, match=r": \d+ of \d+ files of 'train'"):
        offline_tokens.build(copied, "train", root=tmp_path)
    (copied / "info.train.json").write_text("{}")
    with pytest.raises(UserError, match="is no info of a cache"):
        offline_tokens.build(copied, "train", root=tmp_path)
