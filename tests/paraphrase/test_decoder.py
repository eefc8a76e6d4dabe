"""Outputs and log probabilities of a decoder with a tiny model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import decoding, models

from jaxaug.core.buckets import Batch, pad
from jaxaug.core.errors import UserError
from jaxaug.models.text import registry
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.decoder import Decoder, log_probabilities

LENGTH = 6
LINES = [
    "city where the bus leaves from",
    "find a hotel",
    "number of passengers for the trip on the bus",
    "find a hotel",
    "Date",
]


def test_greedy_outputs_and_scores_equal_t5x(small_world):
    """Text and log probability equal the runtime's greedy decoding and scoring."""
    loaded = registry.load("random-tiny")
    params = jax.device_put(loaded.params)
    sequences = [loaded.encode(text) for text in LINES]
    length = max(map(len, sequences))
    source = pad(sequences, len(sequences), length)
    words = loaded.output_vocabulary
    t5x = models.EncoderDecoderModel(
        loaded.module, words, words, None, decoding.temperature_sample
    )
    width = np.zeros((len(LINES), LENGTH), np.int32)
    batch = {"encoder_input_tokens": source, "decoder_input_tokens": width}
    tokens = np.asarray(jax.jit(t5x.predict_batch)(params, batch))
    ended = np.cumsum(tokens == 1, axis=1) - (tokens == 1) > 0
    expected = jax.jit(t5x.score_batch)(
        params,
        {
            "encoder_input_tokens": source,
            "decoder_input_tokens": np.pad(tokens[:, :-1], ((0, 0), (1, 0))),
            "decoder_target_tokens": tokens,
            "decoder_loss_weights": np.where(ended, 0.0, 1.0),
        },
    )
    decoder = Decoder(
        loaded,
        samplers.find("greedy").build(1, samplers.find("greedy").complete({})),
        num=1,
        max_length=LENGTH,
        seed=0,
    )
    outputs = decoder(sequences)
    assert [o.text for (o,) in outputs] == [
        loaded.decode([t for t in row if t]) for row in tokens.tolist()
    ]
    np.testing.assert_allclose(
        [o.log_probability for (o,) in outputs], expected, rtol=1e-5
    )
    assert len({o.text for (o,) in outputs}) > 1


def test_tokens_after_eos_do_not_count(small_world):
    """The sum ends with EOS, whatever follows."""
    loaded = registry.load("random-tiny")
    source = np.array([loaded.encode("find a hotel")], np.int32)
    outputs = np.array([[9, 8, 1, 0], [9, 8, 1, 5], [9, 8, 7, 1]], np.int32)
    first, second, third = map(
        float, log_probabilities(loaded, loaded.params, source, outputs)
    )
    assert first == second != third


def test_nan_log_probabilities_raise_an_error_that_names_the_input(
    small_world, monkeypatch
):
    """Log probabilities come from another program than the outputs."""
    loaded = registry.load("random-tiny")
    decoder = Decoder(
        loaded, samplers.find("sampling").build(2, {}), num=2, max_length=LENGTH, seed=0
    )
    monkeypatch.setattr(
        decoder, "_log_probabilities", lambda *_: jnp.array([-1, np.nan])
    )
    sequences = [loaded.encode(text) for text in LINES[:2]]
    with pytest.raises(UserError, match="^random-tiny.*, input 8: .* is nan"):
        decoder.batch(dict(zip((7, 3), sequences, strict=True)), Batch((7, 3), 2, 32))
