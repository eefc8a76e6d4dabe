"""Possible config.json files of Llama and GPT-2; numbers are in test_causal."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import gin
import jax
import pytest
from gin import config_parser

from jaxaug.core.errors import UserError
from jaxaug.models import gpt2, llama
from jaxaug.models.weights import families, hf_config
from tests.support import grids

ROOT = Path(__file__).resolve().parents[2]

# The config.json of SmolLM2-135M-Instruct.
SMOLLM2: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False,
    "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
    "intermediate_size": 1536, "is_llama_config": True, "max_position_embeddings": 8192,
    "mlp_bias": False, "model_type": "llama", "num_attention_heads": 9,
    "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False,
    "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True,
    "vocab_size": 49152,
}  # fmt: skip


# The relevant fields of each config.json; other fields do not change the network.
_GEMMA = {
    "bos_token_id": 2, "cache_implementation": "hybrid", "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "num_hidden_layers": 26,
    "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "torch_dtype": "bfloat16",
}  # fmt: skip
_QWEN = {
    "bos_token_id": 151643, "hidden_act": "silu", "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": True,
    "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = {
    "smollm2": SMOLLM2,
    "qwen2_5": {**_QWEN, "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896,
     "intermediate_size": 4864, "max_position_embeddings": 32768,
     "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
     "num_hidden_layers": 24, "num_key_value_heads": 2, "use_mrope": False},
    "qwen3": {**_QWEN, "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
     "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
     "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
     "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
     "rope_scaling": None},
    "mistral": {"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
     "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
     "max_position_embeddings": 32768, "model_type": "mistral",
     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
     "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
     "tie_word_embeddings": False, "vocab_size": 32000},
    "llama3": {"architectures": ["LlamaForCausalLM"], "bos_token_id": 128000,
     "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
     "intermediate_size": 8192, "max_position_embeddings": 131072,
     "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
     "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
     "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
     "rope_theta": 500000.0, "tie_word_embeddings": True, "vocab_size": 128256},
    "gemma2": {**_GEMMA, "architectures": ["Gemma2ForCausalLM"],
     "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
     "hidden_act": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
     "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
     "num_key_value_heads": 4, "rope_theta": 10000.0, "sliding_window": 4096,
     "vocab_size": 256000},
    "gemma3": {**_GEMMA, "architectures": ["Gemma3ForCausalLM"],
     "attn_logit_softcapping": None, "eos_token_id": [1, 106],
     "final_logit_softcapping": None, "hidden_size": 1152, "intermediate_size": 6912,
     "max_position_embeddings": 32768, "model_type": "gemma3_text",
     "num_attention_heads": 4, "num_key_value_heads": 1, "rope_local_base_freq": 10000,
     "rope_scaling": None, "rope_theta": 1000000, "sliding_window": 512,
     "sliding_window_pattern": 6, "vocab_size": 262144},
}  # fmt: skip


def of_gin(name: str) -> llama.Config:
    """Returns the config of configs/models/NAME.gin, without training options."""
    text = (ROOT / f"configs/models/{name}.gin").read_text()
    values = {
        statement.arg_name: statement.value
        for statement in config_parser.ConfigParser(
            text, gin.config.ParserDelegate(True)
        )
        if isinstance(statement, config_parser.BindingStatement)
        and statement.selector == "llama.Config"
    }
    return llama.Config(**values)


@pytest.mark.parametrize("name", PUBLISHED)
def test_gin_files_equal_the_published_ones(name: str):
    config = of_gin(name)
    hf_config.check_types(PUBLISHED[name])
    assert llama.Config.from_hf(PUBLISHED[name]) == config
    assert llama.Config.from_hf(llama.to_hf(config)) == config


# In millions, as their publishers count.
SIZES = {"mistral": 7241.7, "gemma3": 999.9}


@pytest.mark.parametrize("name", grids.first(1, SIZES))
def test_numbers_of_parameters(name: str):
    family = families.FAMILIES["llama"]
    config = of_gin(name)
    shapes = family.variables(family.build(config))["params"]
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert round(count / 1e6, 1) == SIZES[name]


def test_a_kind_is_written_with_its_own_options_alone():
    config = llama.Config.from_hf(SMOLLM2)
    odd = dataclasses.replace(config, qk_norm=True, sliding_window=8)
    with pytest.raises(UserError) as caught:
        llama.to_hf(odd)
    assert str(caught.value) == (
        "llama.Config with model_type = 'llama' and qk_norm = True, sliding_window = "
        "8: a config.json of that type cannot express this. Give the model_type that "
        "has these options, or leave them out."
    )


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"sliding_window": 0},
            "sliding_window is 0: give a whole number of at least 1",
        ),
        ({"rope_scaling": "yarn"}, "rope_scaling is 'yarn': give one of default"),
        ({"rope_high_frequency": 1.0}, "give more than rope_low_frequency, 1.0"),
    ],
)
def test_options_without_sense(change: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(llama.Config.from_hf(SMOLLM2), **change)


def test_tensors_of_a_block():
    key_map = llama.key_map(llama.Config.from_hf(SMOLLM2))
    assert len(key_map) == 2 + 30 * 9
    last = {
        path.removeprefix("decoder/layers_29/"): weight.name
        for path, weight in key_map.items()
        if path.startswith("decoder/layers_29/")
    }
    assert last == {
        "pre_self_attention_layer_norm/scale": "model.layers.29.input_layernorm.weight",
        "self_attention/query/kernel": "model.layers.29.self_attn.q_proj.weight",
        "self_attention/key/kernel": "model.layers.29.self_attn.k_proj.weight",
        "self_attention/value/kernel": "model.layers.29.self_attn.v_proj.weight",
        "self_attention/out/kernel": "model.layers.29.self_attn.o_proj.weight",
        "pre_mlp_layer_norm/scale": "model.layers.29.post_attention_layernorm.weight",
        "mlp/wi_0/kernel": "model.layers.29.mlp.gate_proj.weight",
        "mlp/wi_1/kernel": "model.layers.29.mlp.up_proj.weight",
        "mlp/wo/kernel": "model.layers.29.mlp.down_proj.weight",
    }


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
        vocab_size=50257, emb_dim=768, num_layers=12, num_heads=12, head_dim=64,
        mlp_dim=3072, bos_token_id=50256,
    )  # fmt: skip


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
