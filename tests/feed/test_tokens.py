"""Token caches: exact tokens, truncation, and no import of TensorFlow."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import cache, tokens, vocabulary
from jaxaug.feed.parallel import Corpus
from jaxaug.formats.d3st import D3STOptions
from jaxaug_papers import minisgd


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokens")
    minisgd.write(root / "data", train_dialogues=30, dev_dialogues=8, test_dialogues=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        patch.delenv("JAXAUG_VOCABULARY", raising=False)
        yield root / "data"


@pytest.fixture(scope="module")
def records(data):
    return cache.build(cache.Recipe(Corpus(str(data), "dev"), D3STOptions()))


@pytest.fixture(scope="module")
def words(data):
    return vocabulary.TokenVocabulary(vocabulary.train_words(data))


def test_tokens_equal_the_vocabulary(records, words, monkeypatch):
    found = tokens.build(records, words.path)
    assert len(found) == records.examples > 10
    for index, example in enumerate(records.read()):
        assert found.get("inputs", index).tolist() == words.encode(example.inputs)
        assert words.decode(found.get("targets", index)) == example.targets
    monkeypatch.setattr(tokens, "_write", None)
    again = tokens.build(records, words.path)
    assert again.name == found.name
    np.testing.assert_array_equal(again.ids["inputs"], found.ids["inputs"])


def test_a_damaged_cache_is_made_again(records, words, tmp_path, caplog):
    """`test_cache` has all kinds of damage."""
    before = tokens.build(records, words.path, tmp_path)
    folder = tmp_path / "tokens" / before.name
    data = bytearray((folder / "inputs.npy").read_bytes())
    data[-3] ^= 1
    (folder / "inputs.npy").write_bytes(bytes(data))
    caplog.clear()
    after = tokens.build(records, words.path, tmp_path)
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    problem = "inputs.npy holds other bytes than were written"
    assert line.startswith(f"cache {folder} is damaged and made again: {problem}")
    for index, example in enumerate(records.read()):
        assert after.get("inputs", index).tolist() == words.encode(example.inputs)


def test_tokens_of_another_encoder(records, words, tmp_path):
    found = tokens.build(
        records, words.path, tmp_path, encode=lambda texts: [[len(t)] for t in texts]
    )
    for index, example in enumerate(records.read()):
        assert found.get("inputs", index).tolist() == [len(example.inputs)]
        assert found.get("targets", index).tolist() == [len(example.targets)]
    # The tokens of the SentencePiece model in the same file are kept apart.
    plain = tokens.build(records, words.path, tmp_path)
    assert plain.name != found.name and len(plain.get("inputs", 0)) > 1


def config(**changes):
    values = {
        "mixture_or_task_name": "d3st_aug_2x",
        "task_feature_lengths": {"inputs": 152, "targets": 32},
        "split": "train",
        "batch_size": 8,
        "shuffle": True,
        "seed": 0,
        "pack": False,
        "use_cached": False,
    }
    return SimpleNamespace(**(values | changes))


def test_get_dataset_of_a_mixture(data, words, caplog):
    with caplog.at_level("INFO", logger="absl"):
        batches = tokens.get_dataset(config(), 1, 2, None, data_dir=data)
    reports = [
        r.getMessage()
        for r in caplog.records
        if "inputs lose their left end at 152 tokens" in r.getMessage()
    ]
    assert len(reports) == 2
    assert reports[0].startswith("d3st_sgd train: 0 of ")
    batch = next(batches)
    assert batch["encoder_input_tokens"].shape == (4, 152)
    for row in batch["decoder_target_tokens"]:
        assert words.decode(row).startswith("[states]")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 7}, "batch_size = 7 does not divide by 2 hosts"),
        ({"mixture_or_task_name": "d3st_x"}, "'d3st_x' is no task and no mixture; did"),
        (
            {"split": "trian"},
            "has no split 'trian'. Splits are train, validation, test",
        ),
        (
            {"task_feature_lengths": {"inputs": 152, "targets": 4}},
            (
                r"The feature lengths {'inputs': 152, 'targets': 4} would cut too many "
                r"examples of d3st_sgd train:(?s:.*)targets \(100.0%\) exceed 4 "
                r"tokens(?s:.*)DatasetConfig.task_feature_lengths = {'inputs': 1\d\d, "
                r"'targets': (16|32)} \(or accept the cut with "
                r"tokens.get_dataset.accept_truncation = True\)"
            ),
        ),
    ],
)
def test_wrong_configuration(data, changes, message):
    with pytest.raises(UserError, match=message):
        tokens.get_dataset(config(**changes), 0, 2, None, data_dir=data)


PROGRAM = """
import sys
from types import SimpleNamespace

for name in ("tensorflow", "tensorflow_text", "seqio", "jax"):
    sys.modules[name] = None  # as if it were not installed
from jaxaug.feed import tokens

cfg = SimpleNamespace(
    mixture_or_task_name="d3st_sgd_short2",
    task_feature_lengths={"inputs": 176, "targets": 32},
    split="train", batch_size=4, shuffle=True, seed=1, pack=True,
    use_cached=False,
)
first = tokens.get_dataset(cfg, 0, 1, None)
next(first)
first.save(sys.argv[1])
second = tokens.get_dataset(cfg, 0, 1, None)
second.restore(sys.argv[1])
name = "encoder_input_tokens"
assert (next(first)[name] == next(second)[name]).all()
print("trained without TensorFlow")
"""


def test_without_tensorflow(data, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(data))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "position")],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained without TensorFlow\n"
