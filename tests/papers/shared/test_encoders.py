"""Encodings match hand-computed means."""

import types

import numpy as np
import pytest
import tokenizers

from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue
from jaxaug.models.scorers.encoder import Encoder
from jaxaug.models.tokenizers.hf import Tokenizer
from jaxaug_papers.pcc.fewshot import run as fewshot
from jaxaug_papers.pcc.fewshot import triplet
from jaxaug_papers.shared import encoders

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
TABLE = np.arange(21, dtype=np.float32).reshape(7, 3)


def encoder(params):
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", 3), ("[CLS]", 2)
    )
    words = Tokenizer("here", backend, {"pad": 0, "unk": 1})
    return Encoder("toy", types.SimpleNamespace(), params, words, 16, "toy")


def test_the_static_encoding_is_the_mean_of_the_words():
    toy = encoder({"embeddings": {"token_embedder": {"embedding": TABLE}}})
    found = encoders.static(toy, ["a c a", "b", " ", "x"])
    expected = [(2 * TABLE[4] + TABLE[6]) / 3, TABLE[5], np.zeros(3), TABLE[1]]
    np.testing.assert_allclose(found, expected)


def test_another_family_has_no_static_encoding():
    with pytest.raises(UserError, match="static:toy: has no table of words at"):
        encoders.static(encoder({"decoder": {}}), ["a"])


def test_scale():
    vectors = np.array([[3.0, 4.0], [0.0, 1.0]])
    assert encoders.scale(vectors, 6.0) == pytest.approx(2.0)
    with pytest.raises(UserError, match="encodings of all few-shot sentences are zero"):
        encoders.scale(np.zeros((2, 2)), 6.0)


def test_raw_neighbours_on_huffpost(real_data):
    """An independent implementation has 12.9 +- 0.3, and a deviation of 0.481."""
    if not catalogue.find("minilm").on_disk:
        pytest.skip("MiniLM is not there: `jaxaug models fetch minilm`")
    data_dir = real_data / "text"
    config = fewshot.configs.of(
        {
            "dataset": "fewshot/huff",
            "encoder": "static:minilm",
            "methods": ({"name": "none"},),
            "tables": (),
            "out": "",
        }
    )
    found = fewshot.data.load(data_dir / config.dataset)
    drawn = [fewshot.data.few_shot(found.train, 10, seed) for seed in config.seeds]
    texts, missing = fewshot._texts(config, drawn, data_dir)
    task = fewshot._task(config, found, drawn, texts)
    assert not missing and task.tests.shape == (12_250, 384)
    norms = np.linalg.norm(task.support, axis=-1)
    assert norms.mean() == pytest.approx(5.77, abs=1e-3)
    accuracy = triplet.nearest_right(*task[2:]).mean(axis=1)
    np.testing.assert_allclose(
        100 * accuracy, [13.22, 12.35, 13.44, 13.00, 12.43], atol=0.03
    )
