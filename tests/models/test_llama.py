"""What a config.json of the Llama family may say; numbers are in test_causal."""

from typing import Any

import pytest

from jaxaug.core.errors import UserError
from jaxaug.models import llama

# That of SmolLM2-135M-Instruct.
SMOLLM2: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 576,
    "initializer_range": 0.041666666666666664,
    "intermediate_size": 1536,
    "is_llama_config": True,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}


def test_smollm2():
    assert llama.Config.from_hf(SMOLLM2) == llama.Config(
        vocab_size=49152,
        emb_dim=576,
        num_layers=30,
        num_heads=9,
        head_dim=64,
        mlp_dim=1536,
        norm_epsilon=1e-5,
        activation="silu",
        tie_embeddings=True,
        bos_token_id=1,
        num_kv_heads=3,
        rope_theta=100000.0,
        max_positions=8192,
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "mistral"}, "model_type is 'mistral', but must be 'llama'"),
        (
            {"architectures": ["LlamaForSequenceClassification"]},
            "must name LlamaForCausalLM",
        ),
        ({"hidden_size": None, "vocab_size": None}, "lacks vocab_size, hidden_size"),
        ({"rope_interleaved": True}, "rope_interleaved is True, but only False"),
        (
            {"forced_eos_token_id": 2},
            "forced_eos_token_id is 2, but a Llama here decodes",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "type 'linear', but only 'default'",
        ),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}},
            "type 'llama3', but only 'default'",
        ),
        ({"hidden_act": "mish"}, "activation 'mish' is not known"),
    ],
)
def test_refused(change: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        llama.Config.from_hf(SMOLLM2 | change)


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
