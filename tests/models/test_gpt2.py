"""Possible config.json files of the GPT-2 family; numbers are in test_causal."""

import re
from typing import Any

from jaxaug.models import gpt2

# The relevant part of the config.json of DialoGPT-small.
DIALOGPT: dict[str, Any] = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
    "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "resid_pdrop": 0.1, "vocab_size": 50257,
}  # fmt: skip


def test_dialogpt():
    assert gpt2.Config.from_hf(DIALOGPT) == gpt2.Config(
        vocab_size=50257,
        emb_dim=768,
        num_layers=12,
        num_heads=12,
        head_dim=64,
        mlp_dim=3072,
        bos_token_id=50256,
    )


def test_names_with_and_without_prefix():
    key_map = gpt2.key_map(gpt2.Config.from_hf(DIALOGPT))
    assert len(key_map) == 4 + 12 * 16
    query = key_map["decoder/layers_3/self_attention/query/kernel"]
    assert query.name == "transformer.h.3.attn.c_attn.weight"
    assert query.aliases == ("h.3.attn.c_attn.weight",)
    assert (query.part, query.parts, query.axis) == (0, 3, 1)
    table = key_map["decoder/token_embedder/embedding"]
    assert table.aliases == ("wte.weight", "lm_head.weight")


def test_stored_masks_are_ignored():
    (pattern,) = gpt2.IGNORED
    for name in ("h.0.attn.bias", "transformer.h.11.attn.masked_bias"):
        assert re.fullmatch(pattern, name)
    assert not re.fullmatch(pattern, "transformer.h.0.attn.c_attn.bias")
