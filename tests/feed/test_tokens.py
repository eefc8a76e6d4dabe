"""Token caches: exact tokens, and damage."""

import numpy as np
import pytest

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
