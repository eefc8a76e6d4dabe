"""Predictions of the encoder-decoder and the decoder-only model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from jax.extend import core as jax_core
from model_kit import (
    BATCH,
    LM_BATCH,
    LM_CONFIG,
    LM_PARAMS,
    SIZES,
    T5_CONFIG,
    T5_PARAMS,
    VOCABULARY,
    language_model,
    random_params,
    t5_model,
)
from t5x import decoding, models
from t5x.errors import UserError
from t5x.examples.decoder_only import network as decoder_network
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from tests.support import grids


def recorder(calls):
    """Returns a decode function that records its arguments and takes one step."""

    def decode(inputs, cache, tokens_to_logits, num_decodes, **kwargs):
        rows = inputs.shape[0] * num_decodes
        expand = functools.partial(
            decoding.flat_batch_beam_expand, beam_size=num_decodes
        )
        state = decoding.DecodingState(
            cur_index=jnp.array(0),
            sequences=jnp.zeros((rows, inputs.shape[1]), jnp.int32),
            cur_token=jnp.zeros((rows, 1), jnp.int32),
            cache=decoding.cache_map(expand, cache),
        )
        logits, new_cache = tokens_to_logits(state)
        calls.append({"inputs": inputs, "cache": cache, "logits": logits, **kwargs})
        calls[-1] |= {"new_cache": new_cache, "num_decodes": num_decodes}
        decodes = jnp.arange(rows * inputs.shape[1])
        decodes = decodes.reshape(inputs.shape[0], num_decodes, -1)
        scores = jnp.arange(float(rows)).reshape(inputs.shape[0], num_decodes)
        return decodes, scores

    return decode


def test_arguments_of_the_decode_function():
    calls = []
    model = t5_model(decode_fn=recorder(calls))
    options = {"alpha": 0.25}
    rng = jax.random.key(5)
    best, aux = model.predict_batch_with_aux(
        T5_PARAMS(), BATCH, rng=rng, decoder_params=options, num_decodes=3
    )
    assert options == {"alpha": 0.25}
    (call,) = calls
    assert call["alpha"] == 0.25
    assert call["decode_rng"] is rng
    assert call["eos_id"] == 1
    assert call["cache_offset"] == 0
    assert "initial_index" not in call
    assert not call["inputs"].any() and call["inputs"].shape == (2, 5)
    for path, leaf in traverse_util.flatten_dict(call["cache"]).items():
        assert leaf.ndim == 0 if path[-1] == "cache_index" else leaf.shape[0] == 2
    # Three decodes of each row, next to each other, see the same inputs.
    first = jax.jit(model._compute_logits)(T5_PARAMS(), BATCH)[:, 0]
    np.testing.assert_allclose(call["logits"], np.repeat(first, 3, axis=0), atol=1e-4)
    layer = call["new_cache"]["decoder"]["layers_0"]
    assert layer["self_attention"]["cache_index"] == 1
    assert len(layer["self_attention"]["cached_key"]) == 6
    # Values shared by the decodes of an input are not repeated.
    assert len(layer["encoder_decoder_attention"]["cached_cross_key"]) == 2
    # The best decode is the last one.
    assert best.tolist() == [[10, 11, 12, 13, 14], [25, 26, 27, 28, 29]]
    assert aux["scores"].tolist() == [2, 5]


class StandIn:
    """Replaces a module if only the calls matter."""

    def __init__(self):
        self.calls = []

    def apply(self, variables, *args, method=None, **kwargs):
        self.calls.append(kwargs)
        if method == self.encode:
            return jnp.zeros((2, 6, 8))
        return None, {"cache": {"decoder": {"position_embedder": {}}}}

    def encode(self):
        """Is never called directly."""

    def decode(self):
        """Is never called directly."""


class PrefillingStandIn(StandIn):
    def decode(self, prefill, prefill_lengths):
        """Is never called directly."""


def stand_in_model(module, calls, **kwargs):
    def decode_fn(inputs, num_decodes, initial_index=None, **kwargs):
        calls.append({"inputs": inputs, "initial_index": initial_index, **kwargs})
        decodes = jnp.arange(2 * num_decodes).reshape(2, num_decodes, 1)
        return decodes, decodes[..., 0]

    return models.EncoderDecoderModel(
        module, VOCABULARY, VOCABULARY, None, decode_fn=decode_fn, **kwargs
    )


def test_all_decodes_and_defaults():
    calls = []
    defaults = models.DecoderParams(return_all_decodes=True, num_decodes=2)
    model = stand_in_model(StandIn(), calls, default_decoder_params=defaults)
    decodes, aux = model.predict_batch_with_aux({}, BATCH)
    assert decodes.tolist() == [[[0], [1]], [[2], [3]]]
    assert aux["scores"].tolist() == [[0, 1], [2, 3]]
    assert "decode_rng" not in calls[0]
    best, aux = model.predict_batch_with_aux(
        {}, BATCH, num_decodes=3, return_all_decodes=False
    )
    assert best.tolist() == [[2], [5]]
    assert aux["scores"].tolist() == [2, 5]
    assert model.predict_batch({}, BATCH).tolist() == decodes.tolist()


class WithoutCache(StandIn):
    """A module without a cache."""

    def apply(self, variables, *args, **kwargs):
        result = super().apply(variables, *args, **kwargs)
        return (result[0], {"cache": None}) if "mutable" in kwargs else result


def test_modules_need_no_cache():
    calls = []
    stand_in_model(WithoutCache(), calls).predict_batch({}, BATCH)
    assert calls[0]["cache"] is None


PROMPTED = {**BATCH, "decoder_input_tokens": np.array([[0, 3, 1, 0], [0, 4, 5, 1]])}


def test_prompt_is_the_targets_without_eos():
    calls = []
    model = stand_in_model(StandIn(), calls)
    model.predict_batch_with_aux({}, PROMPTED, prompt_with_targets=True)
    model.predict_batch_with_aux({}, PROMPTED)
    assert calls[0]["inputs"].tolist() == [[0, 3, 0, 0], [0, 4, 5, 0]]
    assert calls[0]["initial_index"] is None
    assert not calls[1]["inputs"].any()


def test_module_may_prefill_prompts():
    """A module with the parameter `prefill` caches its prompt in one call."""
    calls = []
    module = PrefillingStandIn()
    model = stand_in_model(module, calls)
    model.predict_batch_with_aux({}, PROMPTED, prompt_with_targets=True)
    prefill = module.calls[-1]
    assert prefill["prefill"] is True
    assert prefill["prefill_lengths"].tolist() == [1, 2]
    assert calls[0]["initial_index"].tolist() == [1, 2]
    position = calls[0]["cache"]["decoder"]["position_embedder"]
    assert position["position_embedder_index"].tolist() == [1, 2]


PREFILLS = [
    (decoding.beam_search, True, {}),
    (decoding.beam_search, None, {}),
    (decoding.temperature_sample, False, {"temperature": 0.0, "topk": 0}),
]


@pytest.mark.parametrize(("decode_fn", "scan", "options"), grids.first(1, PREFILLS))
def test_prompts_of_uneven_length_prefilled_equal_those_fed(decode_fn, scan, options):
    """T5 and scanned T5 give the same tokens and scores in fewer steps."""

    def without_prefill(
        inputs, cache, tokens_to_logits, eos_id, num_decodes, cache_offset, **options
    ):
        return decode_fn(
            inputs=inputs, cache=cache, tokens_to_logits=tokens_to_logits,
            eos_id=eos_id, num_decodes=num_decodes, cache_offset=cache_offset,
            **options,
        )  # fmt: skip

    module = network.Transformer(T5_CONFIG)
    if scan is not None:
        config = scalable.T5Config(
            num_encoder_layers=2, num_decoder_layers=2, scan_layers=scan, **SIZES
        )
        module = scalable.Transformer(config)
    make = functools.partial(
        models.EncoderDecoderModel, module, VOCABULARY, VOCABULARY, None
    )
    params = random_params(make)
    prompts = np.zeros((2, 9), np.int32)
    prompts[0, 1:6], prompts[1, 1:3] = [3, 4, 9, 2, 7], [13, 14]
    batch = {**BATCH, "decoder_input_tokens": prompts}

    def predict(function, params):
        return make(decode_fn=function).predict_batch_with_aux(
            params, batch, decoder_params=options, num_decodes=2,
            return_all_decodes=True, prompt_with_targets=True,
        )  # fmt: skip

    predict = jax.jit(predict, static_argnums=0)
    calls = []

    def recorded(inputs, initial_index=None, **kwargs):
        calls.append(initial_index)
        return decode_fn(inputs, initial_index=initial_index, **kwargs)

    decodes, aux = predict(recorded, params)
    expected, expected_aux = predict(without_prefill, params)
    assert calls[0] is not None
    assert decodes[0, :, :5].tolist() == [[3, 4, 9, 2, 7]] * 2
    np.testing.assert_array_equal(decodes, expected)
    np.testing.assert_allclose(aux["scores"], expected_aux["scores"], atol=1e-4)


def test_rng_given_twice_is_refused():
    with pytest.raises(ValueError) as error:
        t5_model().predict_batch_with_aux(
            {}, BATCH, rng=8, decoder_params={"decode_rng": 9}
        )
    assert str(error.value) == (
        "Got RNG both from the `rng` argument (8) and `decoder_params['decode_rng']` "
        "(9). Please specify one or the other."
    )


def test_greedy_predictions_equal_full_forward_passes():
    model = t5_model(decode_fn=decoding.temperature_sample)
    logits_of = jax.jit(model._compute_logits)
    shifted = np.zeros((2, 6), int)
    ended = np.zeros(2, bool)
    for i in range(5):
        forward = {
            "encoder_input_tokens": BATCH["encoder_input_tokens"],
            "decoder_input_tokens": shifted[:, :-1],
            "decoder_target_tokens": np.ones((2, 5), int),
        }
        best = np.argmax(logits_of(T5_PARAMS(), forward)[:, i], axis=-1)
        shifted[:, i + 1] = np.where(ended, 0, best)
        ended |= best == 1
    assert len(set(shifted.ravel().tolist())) > 2
    options = {"temperature": 0.0, "topk": 0}
    predict = functools.partial(model.predict_batch_with_aux, decoder_params=options)
    predictions, _ = jax.jit(predict)(T5_PARAMS(), BATCH)
    np.testing.assert_array_equal(predictions, shifted[:, 1:])


def test_beam_scores_equal_scores_by_full_forward_passes():
    predict = functools.partial(
        t5_model().predict_batch_with_aux,
        decoder_params={"alpha": 0.0},
        num_decodes=3,
        return_all_decodes=True,
    )
    decodes, aux = jax.jit(predict)(T5_PARAMS(), BATCH)
    assert len({tuple(row) for row in decodes[0].tolist()}) == 3
    assert (np.diff(aux["scores"], axis=1) >= 0).all()
    targets = np.asarray(decodes).reshape(6, 5)
    # Token 0 may be chosen before the end; after EOS it is padding.
    after_end = np.cumsum(targets == 1, axis=1) - (targets == 1) > 0
    batch = {
        "encoder_input_tokens": np.repeat(BATCH["encoder_input_tokens"], 3, axis=0),
        "decoder_input_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
        "decoder_target_tokens": np.ones((6, 5), int),
    }
    logits = jax.jit(t5_model()._compute_logits)(T5_PARAMS(), batch)
    log_probs = jax.nn.log_softmax(logits)
    chosen = np.take_along_axis(np.asarray(log_probs), targets[..., None], axis=-1)
    expected = np.where(after_end, 0, chosen[..., 0]).sum(1)
    np.testing.assert_allclose(np.ravel(aux["scores"]), expected, atol=1e-4)


def test_cross_attention_is_projected_once_per_decode():
    """The only product with a cross-attention key kernel is before the loop."""
    model = t5_model()
    predict = functools.partial(model.predict_batch_with_aux, num_decodes=2)
    jaxpr = jax.make_jaxpr(predict)(T5_PARAMS(), BATCH).jaxpr

    def products(jaxpr, in_loop=False):
        for equation in jaxpr.eqns:
            loop = in_loop or equation.primitive.name == "while"
            if equation.primitive.name == "dot_general":
                yield in_loop, equation.invars[0].aval.shape
            for inner in jax_core.jaxprs_in_params(equation.params):
                yield from products(inner, loop)

    found = list(products(jaxpr))
    # Encoder outputs of 2, or 2 * 2, rows of 6 positions, as a matrix.
    assert (False, (2 * 6, 8)) in found
    assert any(loop for loop, _ in found)
    rows = [shape[0] for loop, shape in found if loop and shape[1:] == (8,)]
    assert rows and max(rows) < 2 * 6
    assert not [shape for loop, shape in found if loop and shape[1:] == (6, 8)]


# Decoder-only model.


def test_language_model_loss_counts_targets_only():
    model = language_model()
    loss, _ = jax.jit(model.loss_fn)(LM_PARAMS(), LM_BATCH, None)
    scores = jax.jit(model.score_batch)(LM_PARAMS(), LM_BATCH)
    assert float(loss) == pytest.approx(-float(scores.sum()), rel=1e-5)
    logits = jax.jit(model._compute_logits)(LM_PARAMS(), LM_BATCH)
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    expected = sum(
        log_probs[0, i, LM_BATCH["decoder_target_tokens"][0, i]] for i in (4, 5, 6)
    )
    assert float(scores[0]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_language_model_predictions_equal_full_forward_passes(bidirectional):
    model = language_model(inputs_bidirectional_attention=bidirectional)
    logits_of = jax.jit(model._compute_logits)
    attention = LM_BATCH["decoder_causal_attention"]
    shifted = np.pad(LM_BATCH["decoder_input_tokens"] * attention, ((0, 0), (0, 1)))
    rows = np.arange(2)
    ends = attention.sum(1) - 1
    expected = np.zeros((2, 8), int)
    ended = np.zeros(2, bool)
    for i in range(4):
        forward = {
            "decoder_input_tokens": shifted[:, :-1],
            "decoder_target_tokens": np.ones((2, 8), int),
            "decoder_causal_attention": attention,
        }
        logits = logits_of(LM_PARAMS(), forward)[rows, ends + i]
        expected[:, i] = np.where(ended, 0, np.argmax(logits, axis=-1))
        shifted[rows, np.minimum(ends + i + 1, 8)] = expected[:, i]
        ended |= expected[:, i] == 1
    options = {"temperature": 0.0, "topk": 0}
    predict = functools.partial(
        model.predict_batch_with_aux, decoder_params=options, num_decodes=2
    )
    best, aux = jax.jit(predict)(LM_PARAMS(), LM_BATCH)
    assert aux["scores"].shape == (2,)
    # Row 0 has room for four tokens, row 1 for more than were computed above.
    np.testing.assert_array_equal(best[:, :4], expected[:, :4])
    assert not best[0, 4:].any()


def test_language_model_needs_the_end_of_the_inputs():
    batch = {k: v for k, v in LM_BATCH.items() if k != "decoder_causal_attention"}
    with pytest.raises(UserError, match="task_feature_lengths for both"):
        language_model().predict_batch(LM_PARAMS(), batch)
    model = language_model(inputs_bidirectional_attention=True)
    with pytest.raises(UserError, match="inputs_bidirectional_attention needs"):
        model.score_batch(LM_PARAMS(), batch)


def test_prefill_rules():
    module = decoder_network.DecoderWrapper(LM_CONFIG)
    tokens = LM_BATCH["decoder_input_tokens"]
    for kwargs in ({"decode": True, "prefill_lengths": tokens[:, 0]}, {}):
        with pytest.raises(ValueError, match="prefill=True needs prefill_lengths"):
            module.apply({}, tokens, tokens, prefill=True, **kwargs)
        with pytest.raises(ValueError, match="prefill=True needs prefill_lengths"):
            t5_model().module.apply(
                {}, *[tokens] * 4, prefill=True, method="decode", **kwargs
            )


def test_remove_prefix():
    sequences = jnp.array([[1, 2, 3, 4, 0], [5, 6, 7, 8, 9]])
    lengths = jnp.array([2, 0])
    expected = [[3, 4, 0, 0, 0], [5, 6, 7, 8, 9]]
    assert models.remove_prefix(sequences, lengths).tolist() == expected
    beams = models.remove_prefix(jnp.stack([sequences] * 2, axis=1), lengths)
    assert beams.tolist() == [[row, row] for row in expected]
