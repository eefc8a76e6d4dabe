"""Beams that look up their history predict the same as beams that copy their cache."""

import functools

import jax
import numpy as np
import pytest
from flax import traverse_util
from model_kit import (
    BATCH,
    LM_BATCH,
    LM_CONFIG,
    SIZES,
    T5_CONFIG,
    T5_PARAMS,
    VOCABULARY,
    random_params,
    t5_model,
)
from t5x import decoding, models
from t5x.examples.decoder_only import network as decoder_network
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from tests.support import grids

PROMPTED = {
    **BATCH,
    "decoder_input_tokens": np.array(
        [[0, 3, 4, 9, 0, 0, 0, 0, 0], [0, 13, 0, 0, 0, 0, 0, 0, 0]]
    ),
}


def t5(dtype, **options):
    config = network.T5Config(
        num_encoder_layers=1, num_decoder_layers=2, dtype=dtype, **SIZES
    )
    return models.EncoderDecoderModel(
        network.Transformer(config), VOCABULARY, VOCABULARY, None, **options
    )


def scanned_t5(dtype, **options):
    config = scalable.T5Config(
        num_encoder_layers=2,
        num_decoder_layers=2,
        scan_layers=True,
        dtype=dtype,
        **SIZES,
    )
    return models.EncoderDecoderModel(
        scalable.Transformer(config), VOCABULARY, VOCABULARY, None, **options
    )


def language_model(dtype, **options):
    module = decoder_network.DecoderWrapper(LM_CONFIG.replace(dtype=dtype, emb_dim=32))
    return models.DecoderOnlyModel(module, VOCABULARY, None, **options)


@pytest.mark.parametrize(
    "make, batch, dtype",
    grids.first(
        2,
        [
            (scanned_t5, PROMPTED, "float32"),
            (language_model, LM_BATCH, "float32"),
            (t5, PROMPTED, "float32"),
            (t5, PROMPTED, "bfloat16"),
        ],
    ),
)
def test_a_shared_history_changes_no_prediction(make, batch, dtype):
    """Prompts of uneven length are prefilled, and rows end at different steps."""
    make = functools.partial(make, dtype)
    params = random_params(make)
    offers = []

    def without_offer(inputs, cache, initial_index=None, **options):
        flat = traverse_util.flatten_dict(cache)
        known = {path: x for path, x in flat.items() if path[-1] != "cached_ancestors"}
        offers.append(len(flat) - len(known))
        cache = traverse_util.unflatten_dict(known)
        search = decoding.beam_search
        return search(inputs, cache, initial_index=initial_index, **options)

    def predict(function, params):
        prompts = (
            {} if "decoder_causal_attention" in batch else {"prompt_with_targets": True}
        )
        return make(decode_fn=function).predict_batch_with_aux(
            params, batch, num_decodes=3, return_all_decodes=True, **prompts
        )

    predict = jax.jit(predict, static_argnums=0)
    decodes, aux = predict(decoding.beam_search, params)
    expected, expected_aux = predict(without_offer, params)
    assert offers[0] > 0
    assert len(np.unique(expected.reshape(6, -1), axis=0)) > 3
    np.testing.assert_array_equal(decodes, expected)
    tolerance = 1e-4 if dtype == "float32" else 0.05
    np.testing.assert_allclose(aux["scores"], expected_aux["scores"], atol=tolerance)


def test_keys_of_beams_are_not_moved():
    """The loop carries the history of each input, and no cache with a row per beam."""
    predict = functools.partial(
        t5_model(decode_fn=decoding.beam_search).predict_batch_with_aux, num_decodes=3
    )
    loops = [
        [value.aval.shape for value in equation.invars]
        for equation in jax.make_jaxpr(predict)(T5_PARAMS(), BATCH).jaxpr.eqns
        if equation.primitive.name == "while"
    ]
    (carried,) = loops
    heads, dim = T5_CONFIG.num_heads, T5_CONFIG.head_dim
    assert carried.count((2, heads, dim, 5 * 3)) == 2
    assert (2, 3, 5) in carried
    assert not [s for s in carried if s[-3:] == (heads, dim, 5)]
