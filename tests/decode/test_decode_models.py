"""Decode functions inside models of T5X: caches, gin files, and their arguments."""

import pathlib
import types

import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decode_kit import EOS, first_ones, random_table, table_cache, table_model
from decode_program import WORDS, make_examples, make_model, make_params
from t5x import models
from t5x.examples.decoder_only import network

from jaxaug.decode import beam, diverse, warpers
from jaxaug.decode.sample import sample
from jaxaug.models.t5 import SourceEncoderDecoderModel
from tests.support import grids

ROOT = pathlib.Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "decode"
GREEDY = {"warpers": (warpers.top_k(1),)}
LM_BATCH = {
    # Inputs [9, 4, 6, 1] and [7, 1], with room for four and five more tokens.
    "decoder_input_tokens": np.array(
        [[0, 9, 4, 6, 1, 0, 0, 0], [0, 7, 1, 0, 0, 0, 0, 0]]
    ),
    "decoder_causal_attention": np.array(
        [[1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]
    ),
}  # fmt: skip


def lm_predictions(decode_fn, k):
    config = network.TransformerConfig(
        vocab_size=20, emb_dim=32, num_heads=2, head_dim=4, mlp_dim=16, num_layers=2,
        mlp_activations=("gelu", "linear"),
    )  # fmt: skip
    model = models.DecoderOnlyModel(
        network.DecoderWrapper(config), WORDS, None, decode_fn=decode_fn
    )
    shapes = {"decoder_input_tokens": (2, 8)}
    variables = jax.eval_shape(
        lambda key: model.get_initial_variables(key, shapes), jax.random.key(0)
    )
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda x: np.float32(0.7 * rng.standard_normal(x.shape)), variables["params"]
    )
    predict = jax.jit(
        lambda params, batch: model.predict_batch_with_aux(
            params,
            batch,
            num_decodes=k,
            return_all_decodes=True,
        )
    )
    return predict(params, LM_BATCH)


def wide(inputs, cache, tokens_to_logits, eos_id, num_decodes=3, **options):
    """Beam search with six beams for any number of outputs."""
    return beam.search(
        inputs, cache, tokens_to_logits, eos_id, num_decodes, last=first_ones, width=6,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", grids.first(1, ["encoder-decoder", "decoder-only"]))
def test_a_wide_beam_splits_a_real_cache_into_sets_of_rows(name):
    """Three outputs of six beams, in two sets of rows, are the best of all six."""

    def outputs(k):
        if name == "decoder-only":
            return lm_predictions(wide, k)[0]
        batch = {
            key: np.stack([example[key] for _, example in make_examples()[:3]])
            for key in ("encoder_input_tokens", "decoder_input_tokens")
        }
        predict = jax.jit(
            lambda params, batch: make_model(wide).predict_batch_with_aux(
                params, batch, num_decodes=k, return_all_decodes=True
            )
        )
        return predict(make_params(), batch)[0]

    np.testing.assert_array_equal(outputs(3), outputs(6)[:, 3:])


def test_the_prompt_of_a_task_is_not_part_of_the_source():
    words = types.SimpleNamespace(
        eos_id=1, vocab_size=40, encode=lambda text: [len(x) for x in text.split()]
    )
    model = SourceEncoderDecoderModel(
        None, words, words, None, source_prompt="paraphrase this:"
    )
    inputs = jnp.array([[10, 5, 7, 8, 1], [10, 7, 5, 8, 1]])
    # The second source does not start with the prompt.
    assert model._sources(inputs).tolist() == [[7, 8, 1, 0, 0], [10, 7, 5, 8, 1]]


GIN = {
    "greedy": (sample, {**GREEDY, "rescale_log_probs": False}),
    "sampling": (sample, {"seed": 0}),
    "top_k_top_p": (sample, {"warpers": warpers.FALLBACK, "seed": 0}),
    "bottom_k": (
        sample,
        {"warpers": (warpers.min_length(1, EOS), warpers.bottom_k()), "seed": 0},
    ),
    "beam": (beam.search, {}),
    "diverse_beam": (diverse.decode, {}),
}


@pytest.mark.parametrize("name", GIN)
def test_gin_files_make_the_decode_function(name):
    inputs = jnp.zeros((2, 6), jnp.int32)
    source = jnp.array([[4, 5, 1], [6, 1, 0]])
    arguments = (inputs, table_cache(inputs), table_model(random_table(1)), EOS)
    gin.clear_config()
    try:
        gin.parse_config_file(str(CONFIGS / f"{name}.gin"))
        model = gin.get_configurable(SourceEncoderDecoderModel)(
            None, WORDS, WORDS, None
        )
        tokens, scores = model.decode_fn(*arguments, num_decodes=3, source=source)
    finally:
        gin.clear_config()
    decode, options = GIN[name]
    expected = decode(*arguments, num_decodes=3, source=source, **options)
    np.testing.assert_array_equal(tokens, expected[0])
    np.testing.assert_allclose(scores, expected[1], atol=1e-5)


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.gin")))
def test_a_shipped_model_takes_the_decoder(name):
    bindings = ["DROPOUT_RATE = 0.0", "VOCABULARY = None", "OPTIMIZER = None"]
    files = [ROOT / "configs/models/t5_source.gin", CONFIGS / f"{name}.gin"]
    gin.clear_config()
    try:
        gin.parse_config(
            [
                "from __gin__ import dynamic_registration",
                "include 't5x/examples/t5/t5_1_1/tiny.gin'",
                *(f"include '{path}'" for path in files),
                *bindings,
            ]
        )
        model = gin.query_parameter("%MODEL").scoped_configurable_fn()
        assert type(model) is SourceEncoderDecoderModel
        assert model.decode_fn.__module__.startswith("jaxaug.decode.")
        assert model.module.config.emb_dim == 8
        assert model._z_loss == 1e-4
    finally:
        gin.clear_config()
