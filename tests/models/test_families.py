"""All families: their interface, logical axes, and rejected settings."""

import re

import pytest
from t5x import partitioning

from jaxaug.core.errors import UserError
from jaxaug.models.weights import families, keymap

_BERT = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 24,
}  # fmt: skip
BASES = {
    "bart": {
        "model_type": "bart", "architectures": ["BartModel"], "vocab_size": 29,
        "d_model": 12, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 3, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 18, "decoder_ffn_dim": 14, "max_position_embeddings": 16,
        "pad_token_id": 1, "decoder_start_token_id": 2,
    },
    "bert": {"model_type": "bert", "architectures": ["BertModel"], **_BERT},
    "deberta": {
        "model_type": "deberta-v2", **_BERT, "relative_attention": True,
        "architectures": ["DebertaV2ForSequenceClassification"],
        "pos_att_type": "p2c|c2p", "conv_kernel_size": 3, "embedding_size": 6,
    },
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 29, "n_embd": 12, "n_layer": 1,
        "n_head": 2, "n_positions": 16,
    },
    "llama": {"model_type": "llama", **_BERT, "pretraining_tp": 1},
    "gemma3": {
        "model_type": "gemma3_text", **_BERT, "num_hidden_layers": 6,
        "num_attention_heads": 4,
    },
    "t5": {"model_type": "t5"},
}  # fmt: skip
LINEAR, SCALED = "rope_scaling", "rope_parameters"
TABLE = [
    ("bart", {"model_type": "mbart"}, "is 'mbart'.*bart, pegasus, marian"),
    ("bart", {"architectures": ["BartForCausalLM"]}, "BartForCausalLM.*BartForCond"),
    ("bart", {"normalize_before": True}, "normalize_before is True, but only False"),
    ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings is False"),
    ("bart", {"activation_function": "swosh"}, "'swosh' is not known.*swish"),
    ("bart", {"forced_bos_token_id": [1, 2]}, r"bos_token_id is \[1, 2\], but must be"),
    ("bart", {"forced_eos_token_id": "x"}, "eos_token_id is 'x', but must be one"),
    ("bart", {"d_model": None}, "config.json: lacks d_model"),
    ("bert", {"model_type": "albert"}, "model_type is 'albert'.*bert, roberta"),
    ("bert", {"architectures": ["BertForTokenClass"]}, "BertForTokenCl.*BertMod"),
    ("bert", {"position_embedding_type": "relative_key"}, "embedding_type is 'rel"),
    ("bert", {"is_decoder": True}, "is_decoder is True"),
    ("bert", {"hidden_size": None}, "config.json: lacks hidden_size"),
    ("deberta", {"model_type": "deberta"}, "model_type is 'deberta'.*'deberta-v2'"),
    ("deberta", {"architectures": ["XForMaskedLM"]}, "XForMaskedLM.*SequenceC"),
    ("deberta", {"pos_att_type": "p2c|p2p"}, "pos_att_type names 'p2p'.*c2p and p2c"),
    ("deberta", {"norm_rel_ebd": "batch_norm"}, "is 'batch_norm'.*'layer_norm'"),
    ("deberta", {"conv_kernel_size": 4}, "conv_kernel_size is 4.*odd"),
    ("deberta", {"hidden_size": 13}, "hidden_size is 13 and num_attention_heads 3"),
    ("deberta", {"attention_head_size": 5}, "attention_head_size is 5, but only 4"),
    ("deberta", {"pooler_hidden_size": 6}, "pooler_hidden_size is 6, but only 12"),
    ("deberta", {"position_buckets": 1}, "position_buckets is 1, but must be from 2"),
    ("deberta", {"position_buckets": 48}, r"position_buckets is 48.*distance \(24\)"),
    ("gpt2", {"model_type": "gpt_neo"}, "model_type is 'gpt_neo', but must be 'gpt2'"),
    ("gpt2", {"architectures": ["GPT2Model"]}, "must name one of GPT2LMHeadModel"),
    ("gpt2", {"n_layer": None}, "lacks n_layer"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention is True, but only Fa"),
    ("gpt2", {"forced_bos_token_id": 5}, "token_id is 5, but a GPT-2 here decodes"),
    ("gpt2", {"activation_function": "mish"}, "activation 'mish' is not known"),
    ("llama", {"model_type": "gemma"}, "'gemma', but must be one of llama, mis"),
    ("llama", {"architectures": ["LlamaModel"]}, "must name one of LlamaForCausalLM"),
    ("llama", {"model_type": "mistral", "architectures": ["LlamaForCausalLM"]},
     "must name one of MistralForCausalLM"),
    ("llama", {"hidden_size": None, "vocab_size": None},
     "lacks vocab_size, hidden_size"),
    ("llama", {"rope_interleaved": True}, "rope_interleaved is True, but only False"),
    ("llama", {"forced_eos_token_id": 2}, "token_id is 2, but a Llama here decodes"),
    ("llama", {LINEAR: {"type": "dynamic"}}, "type 'dynamic', but only default, linea"),
    ("llama", {LINEAR: {"rope_type": "yarn"}}, "type 'yarn', but only default, linea"),
    ("llama", {SCALED: {"rope_type": "llama3", "factor": 8.0}},
     "'llama3' need low_freq_factor, a number above 0, but it is None"),
    ("llama", {SCALED: {"rope_type": "default", "partial_rotary_factor": 0.5}},
     "have unknown fields: partial_rotary_factor"),
    ("llama", {"sliding_window": 512, "clip_qkv": 8},
     "llama has unknown fields here: clip_qkv = 8, sliding_window = 512. They may"),
    ("llama", {"hidden_act": "mish"}, "activation 'mish' is not known"),
    ("gemma3", {"attn_logit_softcapping": 50.0}, "softcapping is 50.0, but only None"),
    ("gemma3", {"use_bidirectional_attention": True},
     "unknown fields here: use_bidirectional_"),
    ("gemma3", {"layer_types": ["full_attention"]}, "for each of the 6 layers"),
    ("gemma3", {"sliding_window": None}, "layers slide, but sliding_window is null"),
    ("t5", {"architectures": ["T5EncoderModel"]}, "architectures is .*T5EncoderModel"),
    ("t5", {"relative_attention_num_buckets": 16}, "num_buckets is 16, but only 32"),
    ("t5", {"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon is 1e-05"),
    ("t5", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj is 'gated-mish'"),
    ("t5", {"decoder_start_token_id": 5},
     "decoder_start_token_id is 5; the T5 of the runtime pads with 0 and starts"),
    ("t5", {"pad_token_id": 3}, "pad_token_id is 3; the T5 of the runtime pads with 0"),
]  # fmt: skip


def family_of(base):
    return families.FAMILIES["llama" if base == "gemma3" else base]


@pytest.mark.parametrize(("base", "changes", "message"), TABLE)
def test_refused(base, changes, message):
    family = family_of(base)
    family.config(BASES[base])
    with pytest.raises(UserError, match=message):
        family.config(BASES[base] | changes)


def test_every_family_keeps_the_interface():
    for family in families.FAMILIES.values():
        code = family.code
        assert callable(code.NETWORK) and callable(code.key_map)
        assert callable(code.Config.from_hf) and callable(code.to_hf)
        for pattern in code.IGNORED:
            re.compile(pattern)


@pytest.mark.parametrize("base", BASES)
def test_every_parameter_has_logical_axes(base):
    family = family_of(base)
    variables = family.variables(family.build(family.config(BASES[base])))
    axes, params = (keymap.flat(variables[name]) for name in ("params_axes", "params"))
    assert {path.removesuffix("_axes") for path in axes} == set(params)
    known = {name for name, _ in partitioning.standard_logical_axis_rules()}
    for path, leaf in params.items():
        names = axes[f"{path}_axes"].names
        assert len(names) == leaf.ndim and set(names) <= known, path
        if path.endswith("query/kernel"):
            joined = ("embed", "joined_kv")
            assert names == (joined if base == "t5" else ("embed", "heads", "kv"))
        if path.endswith("distances/embedding"):
            assert names == ("relpos_buckets", "embed")
