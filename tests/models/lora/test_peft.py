"""Adapters, compared with the library peft on random models of every family."""

import dataclasses
import functools
import json

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.lora import layout, peft_folder
from jaxaug.models.lora.layout import layout_of
from jaxaug.models.weights import hf_folder
from tests.support import grids

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
    "llama-stable": (transformers.LlamaForCausalLM, LLAMA,
     {"target_modules": r".*\.1\.mlp\.(up|down)_proj", "use_rslora": True}),
    "gemma3": (transformers.Gemma3ForCausalLM, GEMMA3,
     {"target_modules": "all-linear"}),
    "gpt2": (transformers.GPT2LMHeadModel, GPT2,
     {"target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    "t5": (transformers.T5ForConditionalGeneration, T5,
     {"target_modules": ["q", "v", "o", "wi_0", "wo"]}),
    "t5-default": (transformers.T5ForConditionalGeneration, T5, {}),
    "bart": (transformers.BartForConditionalGeneration, BART,
     {"target_modules": ["q_proj", "k_proj", "out_proj", "fc1", "fc2"]}),
}  # fmt: skip
TOKENS = np.array([[5, 6, 7, 8, 9], [9, 4, 11, 12, 3]])
SHIFTED = np.concatenate([np.zeros((2, 1), int), TOKENS[:, :-1]], axis=1)


@pytest.fixture(scope="module", params=grids.first(5, CASES))
def case(request, tmp_path_factory):
    """Returns name, folder of the base, folder of the adapter, and peft's logits."""
    return made(request.param, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return made("llama", tmp_path_factory.mktemp("base"))


def made(name, folder, **more):
    kind, config, options = CASES[name]
    torch.manual_seed(0)
    base = kind(config).eval()
    base.save_pretrained(folder)
    decoder_only = name.startswith(DECODERS)
    adapted = peft.get_peft_model(
        base,
        peft.LoraConfig(
            **{
                "r": 3,
                "lora_alpha": 7,
                "lora_dropout": 0.5,
                "init_lora_weights": False,  # B is not zero
                "task_type": "CAUSAL_LM" if decoder_only else "SEQ_2_SEQ_LM",
            }
            | options
            | more
        ),
    ).eval()
    if "init_lora_weights" in more:  # One of the two is zero.
        for path, weight in adapted.named_parameters():
            if "lora_" in path:
                weight.data += 0.1 * torch.randn(weight.shape)
    adapted.save_pretrained(folder / "adapter")
    return name, folder, folder / "adapter", logits_of(adapted, decoder_only)


def logits_of(model, decoder_only):
    tokens = torch.tensor(TOKENS)
    more = {} if decoder_only else {"decoder_input_ids": torch.tensor(SHIFTED)}
    with torch.no_grad():
        return model(input_ids=tokens, **more).logits.numpy()


def ours(name, module, params, apply):
    """Returns logits [2, 5, 31] by published id."""
    if name.startswith(DECODERS):
        arguments = (jnp.asarray(TOKENS), jnp.asarray(TOKENS))
    else:
        arguments = tuple(map(jnp.asarray, (TOKENS, SHIFTED, TOKENS)))
    logits = apply({"params": params}, *arguments, enable_dropout=False)
    return np.asarray(logits)[..., -31:]


def loaded(folder, adapter):
    model = hf_folder.load(folder)
    settings = peft_folder.read_settings(adapter)
    found = layout_of(model.family, model.config, model.params, settings)
    return model, found, peft_folder.read(adapter, found)[0]


def assert_merged_is_peft(name, folder, adapter_folder, expected):
    """Checks that merged weights compute the same as peft."""
    model, found, adapter = loaded(folder, adapter_folder)
    merged = layout.merge(model.params, adapter, found)
    logits = ours(name, model.module, merged, model.module.apply)
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_logits_equal_peft(case):
    name, folder, adapter_folder, expected = case
    model, found, adapter = loaded(folder, adapter_folder)
    adapted = layout.AdaptedNetwork(model.module, found)
    both = layout.joined(model.params, adapter)
    logits = ours(name, model.module, both, adapted.apply)
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    plain = ours(name, model.module, model.params, model.module.apply)
    assert np.abs(plain - expected).max() > 0.01
    assert_merged_is_peft(*case)


def test_peft_reads_our_files(case, tmp_path):
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
    "init", grids.first(1, ["eva", "gaussian", "orthogonal", "mica"])
)
def test_an_initialization_that_leaves_the_base_alone_is_read(init, tmp_path):
    options = {"r": 4, "init_lora_weights": init, "target_modules": ["q_proj"]}
    assert_merged_is_peft(*made("llama", tmp_path, **options))


def test_conv1d_is_read_for_any_fan_in_fan_out(tmp_path):
    case = made("gpt2", tmp_path)
    edit(case[2], fan_in_fan_out=False)
    assert_merged_is_peft(*case)


def edit(folder, **changes):
    path = folder / peft_folder.CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def plain(llama, tmp_path):
    """Returns the folder of the base, and a copy of the adapter's folder."""
    _, folder, adapter_folder, _ = llama
    for name in (peft_folder.CONFIG, peft_folder.FILE):
        (tmp_path / name).write_bytes((adapter_folder / name).read_bytes())
    return folder, tmp_path


# Values of unsupported fields of `LoraConfig` that change results.
SET = {
    "alora_invocation_tokens": [5, 6], "alpha_pattern": {"q_proj": 3},
    "arrow_config": {"top_k": 2}, "bias": "all", "corda_config": {"verbose": True},
    "ensure_weight_tying": True, "eva_config": {"rho": 2.0},
    "exclude_modules": ["q_proj"], "kasa_config": {"beta": 1e-4},
    "layer_replication": [[0, 2]], "layers_pattern": "layers", "layers_to_transform": 0,
    "loftq_config": {"loftq_bits": 4}, "lora_bias": True,
    "lora_ga_config": {"scale": 1}, "megatron_config": {"hidden_size": 8},
    "megatron_core": "other",
    "modules_to_save": ["lm_head"], "monteclora_config": {"n": 4},
    "qalora_group_size": 8, "rank_pattern": {"q_proj": 2},
    "runtime_config": {"ephemeral_gpu_offload": True},
    "target_parameters": ["w"], "trainable_token_indices": [0], "use_bdlora": {"n": 2},
    "use_dora": True, "use_qalora": True, "velora_config": {"groups": 1},
    "a_field_of_tomorrow": 0,
}  # fmt: skip
NOTES = {
    "auto_mapping": {"base_model_class": "LlamaModel"},
    "base_model_name_or_path": "other",
    "inference_mode": False,
    "peft_version": "9.0",
    "revision": "main",
    "task_type": "FEATURE_EXTRACTION",
}


@pytest.mark.parametrize("name", SET)
def test_a_field_that_is_not_understood_is_refused_by_name(name, plain):
    edit(plain[1], **{name: SET[name]})
    with pytest.raises(
        UserError, match=rf"has {name} = .*which is not supported: only plain"
    ):
        peft_folder.read_settings(plain[1])


def test_every_field_of_peft_is_known_or_refused(plain):
    known = {*SET, *NOTES, "peft_type", "fan_in_fan_out", "init_lora_weights"}
    known |= {"lora_alpha", "lora_dropout", "r", "target_modules", "use_rslora"}
    fields = {field.name for field in dataclasses.fields(peft.LoraConfig)}
    assert fields <= known
    # Defaults, as every version of peft writes them.
    config = peft.LoraConfig(target_modules=["q_proj"]).to_dict()
    path = plain[1] / peft_folder.CONFIG
    path.write_text(json.dumps(config, default=list))
    assert peft_folder.read_settings(plain[1]).rank == 8
    edit(plain[1], **NOTES)
    assert peft_folder.read_settings(plain[1]).rank == 8


@pytest.mark.parametrize(
    "init", ["pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", "new", 0]
)
def test_an_initialization_that_changes_the_base_is_refused(init, plain):
    edit(plain[1], init_lora_weights=init)
    message = rf"init_lora_weights is {init!r}, which may .*Merge the adapter with peft"
    with pytest.raises(UserError, match=message):
        peft_folder.read_settings(plain[1])


def test_an_adapter_for_part_of_the_sequence_is_not_to_be_merged(plain):
    edit(plain[1], alora_invocation_tokens=[5])
    with pytest.raises(
        UserError, match="cannot be merged: train one without alora_inv"
    ):
        peft_folder.read_settings(plain[1])


def test_matrices_in_a_torch_file_are_named(plain):
    folder, adapter_folder = plain
    (adapter_folder / peft_folder.FILE).rename(adapter_folder / "adapter_model.bin")
    message = (
        r"matrices are in adapter_model\.bin, .*write it again with save_pretrained"
    )
    with pytest.raises(UserError, match=message):
        loaded(folder, adapter_folder)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"r": 4}, "has rank 3, but the settings say 4"),
        ({"r": 0}, "adapter: rank=0: expected a whole number from 1"),
        ({"target_modules": ["q_proj"]}, "additionally has 24 matrices: .*k_proj"),
        ({"target_modules": ["q_prj"]}, "no linear map 'q_prj'; .*'?q_proj"),
        ({"use_rslora": "false"}, "rank_stabilized='false': .* use_rslora"),
        ({"lora_alpha": True}, "alpha=True: expected a finite number above 0"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
    ],
)
def test_refused(plain, change, message):
    folder, adapter_folder = plain
    edit(adapter_folder, **change)
    with pytest.raises(UserError, match=message):
        loaded(folder, adapter_folder)
