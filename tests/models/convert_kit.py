"""Tiny models of each family, as transformers writes them, and their tensors."""

import json
import shutil

import safetensors.torch
import tokenizers
import torch
import transformers

# Options that shapes do not determine differ from the defaults of `transformers`.
TINY = {
    "t5": (
        transformers.T5ForConditionalGeneration,
        {
            "vocab_size": 40, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_heads": 2,
            "num_layers": 1, "num_decoder_layers": 2, "feed_forward_proj": "silu",
            "dropout_rate": 0.0,
        },
    ),
    "llama": (
        transformers.LlamaForCausalLM,
        {
            "vocab_size": 40, "hidden_size": 8, "intermediate_size": 16,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "tie_word_embeddings": False, "rms_norm_eps": 1e-3,
            "attention_dropout": 0.25,
        },
    ),
    "gpt2": (
        transformers.GPT2LMHeadModel,
        {
            "vocab_size": 40, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2,
            "activation_function": "relu", "attn_pdrop": 0.0,
        },
    ),
    "bart": (
        transformers.BartForConditionalGeneration,
        {
            "vocab_size": 40, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2,
            "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 16,
            "activation_function": "silu", "dropout": 0.0,
        },
    ),
    "bert": (
        transformers.BertForSequenceClassification,
        {
            "vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 16,
            "max_position_embeddings": 16, "hidden_act": "relu", "layer_norm_eps": 1e-5,
        },
    ),
    "deberta": (
        transformers.DebertaV2ForSequenceClassification,
        {
            "vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 16, "position_buckets": 8,
            "max_position_embeddings": 24, "relative_attention": True,
            "pos_att_type": "c2p|p2c", "conv_kernel_size": 3, "conv_act": "gelu",
            "position_biased_input": False, "type_vocab_size": 0, "cls_dropout": 0.3,
        },
    ),
}  # fmt: skip
WORDS = "spiece.model"


def write(folder, name, words, dtype=torch.float32, **changes):
    """Writes a random tiny model as transformers does, with a tokenizer file."""
    cls, options = TINY[name]
    torch.manual_seed(1)
    model = cls(cls.config_class(**options | changes)).to(dtype)
    model.save_pretrained(folder)
    shutil.copy(words, folder / WORDS)
    return folder


def tensors(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def assert_same_tensors(folder, expected):
    found, expected = tensors(folder), tensors(expected)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def config_of(folder):
    config = json.loads((folder / "config.json").read_text())
    # The same model, under its name in version 4.
    config["dtype"] = config.pop("torch_dtype", config.get("dtype"))
    return config


def word_level(folder, *special):
    """Returns a tokenizer of whole words, as a tokenizer.json; BART's special ids."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "c", "d"]
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(names)}, "<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.add_special_tokens([*names[:4], *special])
    words.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
