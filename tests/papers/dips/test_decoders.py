"""The LSTM of the DiPS paper under every decoder of `jaxaug paraphrase`."""

import numpy as np
import pytest

from jaxaug.core.buckets import Batch
from jaxaug.feed import vocabulary
from jaxaug.models.text import registry
from jaxaug.models.text.registry import draw_parameters
from jaxaug.paraphrase import decoder, samplers
from jaxaug_papers.dips import lstm
from tests.support import grids

TEXTS = ["what is a cat?", "where do i get that film?", "a dog"]
LENGTH = 6
# The first three search in different ways.
NAMES = sorted(
    samplers.SAMPLERS.data, key=lambda name: name not in ("bottom_k", "beam", "dips")
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "words.model"
    path.write_bytes(
        vocabulary.sentencepiece_model(
            TEXTS, model_type="word", vocab_size=30, hard_vocab_limit=False
        )
    )
    words = vocabulary.TokenVocabulary(path)
    config = lstm.Config(
        vocab_size=words.vocab_size, emb_dim=5, hidden_dim=6, num_layers=2,
        bidirectional=True, dropout_rate=0.0,
    )  # fmt: skip
    module = lstm.Transducer(config)
    params = draw_parameters(module, words)
    return registry.TextModel("lstm", module, params, words, words, True)


def outputs(model, name, places, rows):
    sampler = samplers.find(name)
    num = 1 if sampler.single else 3
    options = {"width": 6} if "width" in sampler.options else {}
    decode = decoder.Decoder(
        model, sampler.build(num, sampler.complete(options)),
        num=num, max_length=LENGTH, seed=0,
    )  # fmt: skip
    sequences = [model.encode(TEXTS[place]) for place in places]
    return num, decode(sequences, Batch(tuple(places), rows, 8))


@pytest.mark.parametrize("name", grids.first(3, NAMES))
def test_outputs_do_not_depend_on_the_batch(model, name):
    num, together = outputs(model, name, [0, 1, 2], 4)
    assert [len(found) for found in together] == [num] * 3
    _, (alone,) = outputs(model, name, [1], 1)
    assert [one.text for one in alone] == [one.text for one in together[1]]
    np.testing.assert_allclose(
        [one.log_probability for one in alone],
        [one.log_probability for one in together[1]],
        atol=1e-5,
    )
    assert all(one.log_probability < 0 for found in together for one in found)
    if num > 1:
        assert len({one.log_probability for one in alone}) > 1
