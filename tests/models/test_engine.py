"""Folders for CTranslate2: their greedy outputs equal the outputs of transformers."""

import dataclasses
import json

import ctranslate2
import jax
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import models as token_models

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.models import convert
from jaxaug.models.engine import runner
from jaxaug.models.scorers import pairs
from jaxaug.models.text import in_engine, language, prompts
from jaxaug.paraphrase import engine, samplers
from jaxaug.paraphrase.decoder import Decoder

T5 = {
    "vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_heads": 6,
    "num_layers": 1, "num_decoder_layers": 2, "decoder_start_token_id": 0,
}  # fmt: skip
BART = {
    "vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2,
    "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "max_position_embeddings": 64,
}  # fmt: skip
LLAMA = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "bos_token_id": 3, "eos_token_id": 2,
}  # fmt: skip
MODELS = {
    "t5": ("T5ForConditionalGeneration", T5),
    "t5 v1.1": (
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "bart": ("BartForConditionalGeneration", BART),
    "pegasus": (
        "PegasusForConditionalGeneration",
        {**BART, "activation_function": "relu", "scale_embedding": True},
    ),
    "marian": (
        "MarianMTModel",
        {
            **BART, "activation_function": "swish", "scale_embedding": True,
            "decoder_start_token_id": 39, "pad_token_id": 39, "eos_token_id": 0,
        },
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        {
            "vocab_size": 40, "n_positions": 64, "n_embd": 16, "n_layer": 2,
            "n_head": 2, "bos_token_id": 3, "eos_token_id": 2,
            "scale_attn_by_inverse_layer_idx": True,
        },
    ),
    "llama": ("LlamaForCausalLM", {**LLAMA, "tie_word_embeddings": True}),
    "linear": (
        "LlamaForCausalLM",
        {**LLAMA, "rope_parameters": {
            "rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0,
        }},
    ),
    "llama3": (
        "LlamaForCausalLM",
        {**LLAMA, "rope_parameters": {
            "rope_type": "llama3", "factor": 4.0, "rope_theta": 100.0,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }},
    ),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 8}),
}  # fmt: skip
LENGTH = 12
INPUTS = [[5, 6, 7, 8], [9, 30, 31, 12, 4, 8], [20, 21, 5]]


def write(folder, name, **changes):
    """Writes a random model and a tokenizer of 40 words with transformers."""
    architecture, options = MODELS[name]
    cls = getattr(transformers, architecture)
    torch.manual_seed(2)
    model = cls(cls.config_class(**options | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.4)
    model.save_pretrained(folder)
    words = {"a\n" if row == 9 else f"w{row}": row for row in range(39)} | {"<unk>": 39}
    backend = tokenizers.Tokenizer(token_models.WordLevel(words, "<unk>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "w2"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return model


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_transformers(tmp_path, name):
    model = write(tmp_path / "source", name)
    out = convert.convert(tmp_path / "source", tmp_path / "out", form="ctranslate2")
    words = json.loads((out / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = {row: token for token, row in words.items()}
    for rows in INPUTS:
        if model.config.is_encoder_decoder:
            made = ctranslate2.Translator(str(out))
            (found,) = made.translate_batch(
                [[tokens[row] for row in rows]],
                beam_size=1,
                max_decoding_length=LENGTH,
                min_decoding_length=0,
            )
            answer, before = found.hypotheses[0], 1
        else:
            rows = [model.config.bos_token_id, *rows]
            made = ctranslate2.Generator(str(out))
            (found,) = made.generate_batch(
                [[tokens[row] for row in rows]],
                max_length=LENGTH,
                include_prompt_in_result=False,
            )
            answer, before = found.sequences[0], len(rows)
        expected = model.generate(
            torch.tensor([rows]), max_new_tokens=LENGTH, do_sample=False, num_beams=1,
            use_cache=False, forced_eos_token_id=None,
            pad_token_id=model.config.pad_token_id or 0,
        )[0, before:].tolist()  # fmt: skip
        end = model.config.eos_token_id
        expected = expected[: expected.index(end)] if end in expected else expected
        assert [words[token] for token in answer] == expected


def test_outputs_of_a_language_model_are_those_of_jax(tmp_path, monkeypatch):
    """The model has several ends, and a prompt that passes through it once."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    write(tmp_path / "source", "llama")
    model = language.load(convert.absolute(tmp_path / "source"), "tiny", "plain")
    sizes = {"num": 1, "max_length": LENGTH}
    sequences = [model.encode(text) for text in ("w5 w6 w7", "w8 w30", "w11 w12 w5 w5")]
    greedy = samplers.find("greedy")
    options = greedy.complete({})
    ours = Decoder(model, greedy.build(1, options), seed=0, **sizes)(sequences)
    theirs = engine.EngineDecoder(
        model, engine.search("greedy", options, **sizes), precision="float32", seed=0,
        batch_size=2,
    )(sequences)  # fmt: skip
    assert [one[0].text for one in theirs] == [one[0].text for one in ours]
    assert len(in_engine.rules_of(model).ends) > 1


def test_likelihoods_are_those_of_jax_and_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    torch_model = write(tmp_path / "source", "llama")
    model = language.load(convert.absolute(tmp_path / "source"), "tiny", "plain")
    model = model.with_prompt(prompts.Prompt("", "", ""))
    texts = [("w5 w6 w7", "w8 w30"), ("w8", "w4 w5 w6"), ("w11 w12 w5 w5", "w7")]
    inputs, outputs = (
        [[row + 1 for row in map(int, one.replace("w", "").split())] for one in column]
        for column in zip(*texts, strict=True)
    )
    expected = []
    for one, other in zip(inputs, outputs, strict=True):
        rows = torch.tensor([[3, *(row - 1 for row in (*one, *other))]])
        each = torch.log_softmax(torch_model(rows).logits[0, :-1], dim=-1)
        chosen = each.gather(1, rows[0, 1:, None])[-len(other) :]
        expected.append(chosen.sum().item())
    kept = runner.Engine(
        in_engine.kept(model, "float32"), in_engine.rules_of(model), batch_size=2
    )
    assert kept.log_likelihoods(inputs, outputs) == pytest.approx(expected, rel=1e-4)
    ours = pairs.CausalPerplexity(model, batch_size=2)
    assert ours.continued(inputs, outputs) == pytest.approx(expected, rel=1e-4)


def test_nan_weights_are_an_error(tmp_path, monkeypatch):
    """CTranslate2 itself gives empty outputs."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    write(tmp_path / "source", "llama")
    model = language.load(convert.absolute(tmp_path / "source"), "tiny", "plain")
    params = jax.tree.map(lambda x: np.full_like(x, np.nan), model.params)
    broken = dataclasses.replace(model, params=params)
    folder = in_engine.kept(broken, "float32")
    found = runner.Engine(folder, in_engine.rules_of(broken))
    for use in (
        lambda: found([[5, 6]], runner.Search(max_length=4)),
        lambda: found([[5, 6]], runner.Search(num=2, beam=True, max_length=4)),
        lambda: found.log_likelihoods([[5, 6]], [[7]]),
    ):
        with pytest.raises(UserError, match=f"^{folder} .* is nan"):
            use()


def test_a_sliding_window_is_refused(tmp_path):
    window = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    write(tmp_path / "source", "qwen2", **window)
    with pytest.raises(UserError, match="sliding_window is 4: .* without a window"):
        convert.convert(tmp_path / "source", tmp_path / "out", form="ctranslate2")
    assert not (tmp_path / "out").exists()


def test_other_rotary_positions_are_refused():
    config = {"model_type": "llama", "rope_parameters": {"rope_type": "yarn"}}
    with pytest.raises(UserError, match="of type 'yarn', .* default, linear, llama3 "):
        runner.write("nowhere", config, {}, runner.Special(0, 1))


@pytest.mark.parametrize("kind", ["bert", "gemma2", "gemma3_text"])
def test_other_families_are_refused_by_name(kind):
    """CTranslate2 lacks Gemma's soft caps and its windows in every other layer."""
    special = runner.Special(0, 1)
    with pytest.raises(UserError, match=f"no models of type '{kind}' here; known are"):
        runner.write("nowhere", {"model_type": kind}, {}, special)


def test_the_program_writes_int8(tmp_path, capsys):
    write(tmp_path / "source", "t5")
    call = ["convert", "--from", str(tmp_path / "source"), "--to"]
    out = ["--format", "ctranslate2", "--precision"]
    sizes = {}
    for precision in ("float32", "int8"):
        folder = tmp_path / precision
        assert cli.main([*call, str(folder), *out, precision]) == 0
        sizes[precision] = (folder / "model.bin").stat().st_size
    assert sizes["int8"] < 0.6 * sizes["float32"]
    capsys.readouterr()
    assert cli.main([*call, str(tmp_path / "hf"), "--precision", "int8"]) == 1
    assert "use it with --format ctranslate2" in capsys.readouterr().err
