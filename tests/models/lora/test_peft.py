"""Adapters against the library peft, on random models of every family."""

import functools
import json

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.lora import merge, network, peft_folder
from jaxaug.models.lora.layout import layout
from jaxaug.models.weights import hf_folder

peft = pytest.importorskip("peft")

LLAMA = transformers.LlamaConfig(
    vocab_size=31, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
    tie_word_embeddings=True, pad_token_id=0, bos_token_id=7, eos_token_id=1,
    initializer_range=0.3,
)  # fmt: skip
GPT2 = transformers.GPT2Config(
    vocab_size=31, n_embd=24, n_layer=2, n_head=4, n_positions=32, pad_token_id=0,
    bos_token_id=7, eos_token_id=1, initializer_range=0.3,
)  # fmt: skip
T5 = transformers.T5Config(
    vocab_size=31, d_model=12, d_kv=5, d_ff=20, num_heads=3, num_layers=2,
    feed_forward_proj="gated-gelu", initializer_factor=1.0,
)  # fmt: skip
BART = transformers.BartConfig(
    vocab_size=31, d_model=12, encoder_layers=1, decoder_layers=2,
    encoder_attention_heads=3, decoder_attention_heads=2, encoder_ffn_dim=18,
    decoder_ffn_dim=14, max_position_embeddings=16, init_std=0.6,
    forced_eos_token_id=None, pad_token_id=0, eos_token_id=2,
    decoder_start_token_id=0,
)  # fmt: skip
GEMMA3 = transformers.Gemma3TextConfig(
    vocab_size=31, hidden_size=12, intermediate_size=20, num_hidden_layers=2,
    num_attention_heads=3, num_key_value_heads=1, head_dim=4, sliding_window=3,
    sliding_window_pattern=2, query_pre_attn_scalar=4, pad_token_id=0, bos_token_id=7,
    eos_token_id=1, initializer_range=0.3,
)  # fmt: skip
DECODERS = ("llama", "gpt2", "gemma3")
CASES = {
    "llama": (transformers.LlamaForCausalLM, LLAMA, {"target_modules": "all-linear"}),
    "llama-stable": (
        transformers.LlamaForCausalLM,
        LLAMA,
        {"target_modules": r".*\.1\.mlp\.(up|down)_proj", "use_rslora": True},
    ),
    "gemma3": (
        transformers.Gemma3ForCausalLM,
        GEMMA3,
        {"target_modules": "all-linear"},
    ),
    "gpt2": (
        transformers.GPT2LMHeadModel,
        GPT2,
        {"target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True},
    ),
    "t5": (
        transformers.T5ForConditionalGeneration,
        T5,
        {"target_modules": ["q", "v", "o", "wi_0", "wo"]},
    ),
    "t5-default": (transformers.T5ForConditionalGeneration, T5, {}),
    "bart": (
        transformers.BartForConditionalGeneration,
        BART,
        {"target_modules": ["q_proj", "k_proj", "out_proj", "fc1", "fc2"]},
    ),
}
TOKENS = np.array([[5, 6, 7, 8, 9], [9, 4, 11, 12, 3]])
SHIFTED = np.concatenate([np.zeros((2, 1), int), TOKENS[:, :-1]], axis=1)


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """Name, folder of the base, folder of the adapter, peft's logits."""
    return made(request.param, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return made("llama", tmp_path_factory.mktemp("base"))


def made(name, folder):
    kind, config, options = CASES[name]
    torch.manual_seed(0)
    base = kind(config).eval()
    base.save_pretrained(folder)
    decoder_only = name.startswith(DECODERS)
    adapted = peft.get_peft_model(
        base,
        peft.LoraConfig(
            r=3,
            lora_alpha=7,
            lora_dropout=0.5,
            init_lora_weights=False,  # B is not zero
            task_type="CAUSAL_LM" if decoder_only else "SEQ_2_SEQ_LM",
            **options,
        ),
    ).eval()
    adapted.save_pretrained(folder / "adapter")
    return name, folder, folder / "adapter", logits_of(adapted, decoder_only)


def logits_of(model, decoder_only):
    tokens = torch.tensor(TOKENS)
    more = {} if decoder_only else {"decoder_input_ids": torch.tensor(SHIFTED)}
    with torch.no_grad():
        return model(input_ids=tokens, **more).logits.numpy()


def ours(name, module, params, apply):
    """Logits [2, 5, 31] by published id."""
    if name.startswith(DECODERS):
        arguments = (jnp.asarray(TOKENS), jnp.asarray(TOKENS))
    else:
        arguments = tuple(map(jnp.asarray, (TOKENS, SHIFTED, TOKENS)))
    logits = apply({"params": params}, *arguments, enable_dropout=False)
    return np.asarray(logits)[..., -31:]


def loaded(folder, adapter):
    model = hf_folder.load(folder)
    settings = peft_folder.read_settings(adapter)
    found = layout(model.family, model.config, model.params, settings)
    return model, found, peft_folder.read(adapter, found)[0]


def test_logits_are_those_of_peft(case):
    name, folder, adapter_folder, expected = case
    model, found, adapter = loaded(folder, adapter_folder)
    adapted = network.AdaptedNetwork(model.module, found)
    both = network.joined(model.params, adapter)
    logits = ours(name, model.module, both, adapted.apply)
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    plain = ours(name, model.module, model.params, model.module.apply)
    assert np.abs(plain - expected).max() > 0.01

    merged = merge.merge(model.params, adapter, found)
    logits = ours(name, model.module, merged, model.module.apply)
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_peft_reads_what_is_written(case, tmp_path):
    name, folder, adapter_folder, expected = case
    _, found, adapter = loaded(folder, adapter_folder)
    notes = peft_folder.Notes("ab12", "some-base", "Text: {text}\nParaphrase:")
    peft_folder.write(tmp_path, adapter, found, notes)

    kind = CASES[name][0]
    theirs = peft.PeftModel.from_pretrained(kind.from_pretrained(folder), tmp_path)
    logits = logits_of(theirs.eval(), name.startswith(DECODERS))
    np.testing.assert_allclose(logits, expected, atol=1e-5)

    assert peft_folder.read_settings(tmp_path).rank == 3
    again, read_notes = peft_folder.read(tmp_path, found)
    assert read_notes == notes
    for path in found.shapes():
        left, right = (functools.reduce(dict.get, path, t) for t in (adapter, again))
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"r": 4}, "has rank 3, the settings say 4"),
        ({"r": 0}, "rank of an adapter is 0"),
        ({"target_modules": ["q_proj"]}, "has besides 24 matrices: .*k_proj"),
        ({"target_modules": ["q_prj"]}, "no linear map 'q_prj'; .*'?q_proj"),
        ({"use_dora": True}, "use_dora = True, which is not supported"),
        ({"bias": "all"}, "bias = 'all', which is not supported"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
    ],
)
def test_refused(llama, change, message, tmp_path):
    _, folder, adapter_folder, _ = llama
    config = json.loads((adapter_folder / peft_folder.CONFIG).read_text())
    (tmp_path / peft_folder.CONFIG).write_text(json.dumps({**config, **change}))
    weights = (adapter_folder / peft_folder.FILE).read_bytes()
    (tmp_path / peft_folder.FILE).write_bytes(weights)
    with pytest.raises(UserError, match=message):
        loaded(folder, tmp_path)
