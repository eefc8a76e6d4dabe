"""Tiny models and batches for the model tests."""

import functools
import types

import jax
import numpy as np
from t5x import models
from t5x.examples.decoder_only import network as decoder_network
from t5x.examples.t5 import network

VOCABULARY = types.SimpleNamespace(eos_id=1, vocab_size=20)
SIZES = {
    "vocab_size": 20, "emb_dim": 8, "num_heads": 2, "head_dim": 4, "mlp_dim": 16,
    "mlp_activations": ("gelu", "linear"),
}  # fmt: skip
T5_CONFIG = network.T5Config(num_encoder_layers=1, num_decoder_layers=1, **SIZES)
LM_CONFIG = decoder_network.TransformerConfig(num_layers=2, **SIZES)
BATCH = {
    "encoder_input_tokens": np.array([[5, 6, 7, 1, 0, 0], [8, 9, 10, 11, 12, 1]]),
    "decoder_input_tokens": np.array([[0, 3, 4, 0, 0], [0, 13, 14, 15, 16]]),
    "decoder_target_tokens": np.array([[3, 4, 1, 0, 0], [13, 14, 15, 16, 1]]),
    "decoder_loss_weights": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.float32),
}
LM_BATCH = {
    # Inputs [9, 4, 6, 1] with targets [3, 9, 1], and [7, 1] with [5, 2, 8, 1].
    "decoder_target_tokens": np.array(
        [[9, 4, 6, 1, 3, 9, 1, 0], [7, 1, 5, 2, 8, 1, 0, 0]]
    ),
    "decoder_input_tokens": np.array(
        [[0, 9, 4, 6, 1, 3, 9, 1], [0, 7, 1, 5, 2, 8, 1, 0]]
    ),
    "decoder_loss_weights": np.array(
        [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1, 0, 0]]
    ),
    "decoder_causal_attention": np.array(
        [[1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]
    ),
}


def t5_model(**kwargs):
    return models.EncoderDecoderModel(
        network.Transformer(T5_CONFIG), VOCABULARY, VOCABULARY, None, **kwargs
    )


def language_model(**kwargs):
    module = decoder_network.DecoderWrapper(LM_CONFIG)
    return models.DecoderOnlyModel(module, VOCABULARY, None, **kwargs)


@functools.cache
def random_params(make_model):
    """Returns random values in the tree of the model's parameters."""
    model = make_model()
    shapes = {"encoder_input_tokens": (2, 6), "decoder_input_tokens": (2, 5)}
    variables = jax.eval_shape(
        functools.partial(model.get_initial_variables, input_shapes=shapes),
        jax.random.key(0),
    )
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.5 * rng.standard_normal(x.shape)), variables["params"]
    )


T5_PARAMS = functools.partial(random_params, t5_model)
LM_PARAMS = functools.partial(random_params, language_model)
