"""Configurations of BART, Pegasus, and Marian, and their torch models."""

import jax
import jax.numpy as jnp
import numpy as np
import torch

from jaxaug.models import bart
from tests.models import torch_kit

VOCAB, LENGTH = 29, 10
SIZES = {
    "vocab_size": VOCAB, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 3, "decoder_attention_heads": 2, "encoder_ffn_dim": 18,
    "decoder_ffn_dim": 14, "max_position_embeddings": 16, "init_std": 0.6,
    "forced_eos_token_id": None, "num_beams": 1,
}  # fmt: skip


BART = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
PEGASUS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
MARIAN = {"pad_token_id": 28, "eos_token_id": 0, "decoder_start_token_id": 28}
CASES = [
    ("BartForConditionalGeneration", BART),
    ("BartForConditionalGeneration", BART | {"scale_embedding": True}),
    ("BartForConditionalGeneration", BART | {"activation_function": "relu",
     "encoder_layers": 3, "decoder_layers": 2}),
    ("PegasusForConditionalGeneration", PEGASUS | {"scale_embedding": True}),
    ("PegasusForConditionalGeneration", PEGASUS | {"activation_function": "relu"}),
    ("MarianMTModel", MARIAN | {"activation_function": "swish"}),
    ("MarianMTModel", MARIAN | {"scale_embedding": True}),
    ("MarianMTModel", MARIAN | {"share_encoder_decoder_embeddings": False,
     "decoder_vocab_size": 29}),
]  # fmt: skip


# Padding may be 0 already, and the decoder may start with another token.
STARTS = [
    ("BartForConditionalGeneration", BART | {"pad_token_id": 0}),
    ("PegasusForConditionalGeneration", PEGASUS | {"decoder_start_token_id": 3}),
]


def rows(lengths: np.ndarray, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(3, 28, (3, lengths.max()))
    return np.where(np.arange(lengths.max()) < lengths[:, None], drawn, -1)


def torch_model(name: str, options: dict):
    model = torch_kit.random_torch(name, **SIZES | options)
    if hasattr(model, "final_logits_bias"):
        bias = model.final_logits_bias
        bias.copy_(torch.randn(bias.shape))
        bias[:, options["eos_token_id"]] = -3.0
    return model


def keys() -> dict:
    return {"params": jax.random.PRNGKey(0), "dropout": jax.random.PRNGKey(1)}


def ours(published: np.ndarray, config: bart.Config) -> jax.Array:
    """Returns ids for T5X, where 0 is padding."""
    return jnp.where(published < 0, 0, published + config.id_offset)


def shifted(targets: jax.Array) -> jax.Array:
    return jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]
