"""GGUF files: a tiny one of every type, as transformers reads it."""

import json
import struct
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType as Type

from jaxaug.core.errors import UserError
from jaxaug.models.weights import gguf as ours
from tests.models.weights.gguf_kit import all_tokens, reference, write
from tests.support import compiled, grids


@grids.diagonal(
    "type_, tied", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0, Type.Q4_1], [True, False]
)
def test_logits_equal_transformers(tmp_path: Path, type_: Type, tied: bool):
    write(tmp_path / "m.gguf", type_, tied)
    theirs = reference(tmp_path / "m.gguf")
    tokens = np.random.default_rng(1).integers(1, 256, (2, 8)).astype(np.int32)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(tokens).long()).logits.numpy()
    published = ours.load(tmp_path / "m.gguf")
    assert published.config.tie_embeddings == tied
    module, params = published.module, published.params
    logits = compiled.apply(module, params, tokens, tokens, enable_dropout=False)
    assert np.std(expected) > 0.5
    np.testing.assert_allclose(logits, expected, atol=2e-4)


def test_float32_tensors_return_bit_by_bit(tmp_path: Path):
    written = write(tmp_path / "m.gguf")
    tensors = ours.Gguf(tmp_path / "m.gguf").tensors
    assert len(tensors) == len(written) == 2 + 9 * 2
    for name, values in written.items():
        np.testing.assert_array_equal(tensors[ours.hf_name(name)], values)


def test_config_and_tokenizer_files(tmp_path: Path):
    write(tmp_path / "m.gguf")
    file = ours.Gguf(tmp_path / "m.gguf")
    assert file.hf_config == {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_act": "silu", "vocab_size": 264, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
        "rms_norm_eps": pytest.approx(1e-5), "rope_theta": 1000.0,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    file.save_tokenizer(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text()) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 128,
        "clean_up_tokenization_spaces": False,
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "chat_template": "{{ messages }}",
    }
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    text = "in the 12th, é\n<|im_end|>"
    tokens = file.tokenizer.encode(text).ids
    assert loaded(text)["input_ids"] == tokens
    assert tokens[-1] == loaded.eos_token_id == 2
    assert loaded.decode(tokens) == text


def test_pieces_of_the_tokenizers(tmp_path: Path):
    text = "t the 12"
    write(tmp_path / "digits.gguf")
    digits = ours.Gguf(tmp_path / "digits.gguf").tokenizer
    # SmolLM2 splits numbers into digits before it merges.
    assert digits.encode(text).tokens == ["t", "Ġthe", "Ġ", "1", "2"]
    write(tmp_path / "plain.gguf", tokenizer=("gpt2", "gpt-2"), add_bos=True)
    plain = ours.Gguf(tmp_path / "plain.gguf").tokenizer
    assert plain.encode(text).tokens == ["<|im_start|>", "t", "Ġthe", "Ġ1", "2"]
    assert plain.decode(plain.encode(text).ids) == text


def test_fields_that_are_off(tmp_path: Path):
    def change(writer):
        writer.add_rope_scaling_factor(1.0)
        writer.add_causal_attention(True)
        writer.add_sliding_window(0)
        writer.add_string("llama.tensor_data_layout", "Meta AI original pth")

    write(tmp_path / "m.gguf", change=change)
    assert ours.Gguf(tmp_path / "m.gguf").hf_config["head_dim"] == 16


def test_the_end_that_a_tokenizer_adds(tmp_path: Path):
    write(tmp_path / "m.gguf", add_bos=True, change=lambda w: w.add_add_eos_token(True))
    tokens = ours.Gguf(tmp_path / "m.gguf").tokenizer.encode("t the").tokens
    assert tokens == ["<|im_start|>", "t", "Ġthe", "<|im_end|>"]


def test_a_file_that_is_cut_off(tmp_path: Path):
    path = tmp_path / "m.gguf"
    write(path)
    whole = path.read_bytes()
    for size in (0, 3, 20, 400, 4000, len(whole) // 2, len(whole) - 4000):
        path.write_bytes(whole[:size])
        with pytest.raises(
            UserError, match=r"m\.gguf is cut off, or is not a GGUF file"
        ):
            ours.load(path)
    path.write_bytes(b"GARB" + whole[4:])
    with pytest.raises(
        UserError, match=r"m\.gguf is cut off, or is not a GGUF file .*magic"
    ):
        ours.load(path)
    with pytest.raises(UserError, match=r"absent\.gguf: no such file"):
        ours.load(tmp_path / "absent.gguf")


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"change": lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN)},
            "llama.rope.scaling.type is 'yarn', but only 'none'",
        ),
        (
            {"change": lambda w: w.add_expert_count(8)},
            "llama.expert_count is 8, but only 0",
        ),
        (
            # Without a type, the scaling is linear.
            {"change": lambda w: w.add_rope_scaling_factor(4.0)},
            "has llama.rope.scaling.factor = 4.0, which may change what the network",
        ),
        (
            {"change": lambda w: w.add_causal_attention(False)},
            "has llama.attention.causal = False, which .* Take the safetensors",
        ),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, Any], message: str):
    write(tmp_path / "m.gguf", **options)
    with pytest.raises(UserError, match=message):
        ours.load(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda w: w.add_head_count(0),
         ("llama.attention.head_count is 0, but must be a whole number from 1 to "
         "16777216.")),
        (lambda w: w.add_head_count([4, 4]),
         ("llama.attention.head_count is array([4, 4], dtype=int32), but must be "
         "a single value.")),
        (lambda w: w.add_string("llama.embedding_length", "64"),
         ("llama.embedding_length is '64', but must be a whole number from 1 to "
         "16777216.")),
        (lambda w: w.add_layer_norm_rms_eps(0.0),
         ("llama.attention.layer_norm_rms_epsilon is 0.0, but must be a number "
         "above 0.")),
        (lambda w: w.add_eos_token_id(264),
         "tokenizer.ggml.eos_token_id is 264, but must be an id below 264."),
        (lambda w: w.add_array("tokenizer.ggml.tokens", [1, 2]),
         ("tokenizer.ggml.tokens is array([1, 2], dtype=int32), but must be a "
         "list of te")),
    ],
)  # fmt: skip
def test_metadata_of_wrong_types(tmp_path: Path, change: Any, message: str):
    write(tmp_path / "m.gguf", change=change)
    with pytest.raises(UserError) as error:
        ours.load(tmp_path / "m.gguf")
    assert str(error.value).startswith(f"{tmp_path}/m.gguf: {message}")


def test_invalid_merges(tmp_path: Path):
    write(tmp_path / "m.gguf", change=lambda w: w.add_token_merges(["a b c"]))
    with pytest.raises(UserError, match=r"m.gguf: its tokenizer cannot be made \("):
        _ = ours.Gguf(tmp_path / "m.gguf").tokenizer


def test_tokens_of_one_text(tmp_path: Path):
    """Otherwise tokens would have ids that the vocabulary does not count."""
    tokens = all_tokens()
    tokens[100] = tokens[50]
    write(tmp_path / "m.gguf", change=lambda w: w.add_token_list(tokens))
    with pytest.raises(UserError) as error:
        _ = ours.Gguf(tmp_path / "m.gguf").tokenizer
    assert str(error.value) == (
        f"{tmp_path}/m.gguf: tokens 50 and 100 are both {tokens[50]!r}. Get the file "
        "again; a download may have stopped half-way."
    )


def header(fields: bytes, num_fields: int, num_tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_fields) + fields


def field(key: bytes, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + value


NUMBERS = struct.pack("<IQ", 0, 2) + b"\x01\x02"


def test_lists_in_lists(tmp_path: Path):
    path, inner = tmp_path / "m.gguf", struct.pack("<IIQ", 9, 9, 2) + NUMBERS * 2
    path.write_bytes(header(field(b"a", inner), 1))
    metadata, tensors = ours.read(path)
    assert [list(one) for one in metadata["a"]] == [[1, 2], [1, 2]]
    assert tensors == {}


@pytest.mark.parametrize(
    "content, problem",
    [
        (header(b"", 2**62), "4611686018427387904 entries at byte 24 exceed the file"),
        (header(b"", 0, 2**62), "4611686018427387904 entries at byte 24 exceed"),
        (
            header(struct.pack("<Q", 2**63) + bytes(9), 1),
            "9223372036854775808 entries at byte 32",
        ),
        (
            header(field(b"a", struct.pack("<IIQ", 9, 4, 2**60)), 1),
            "1152921504606846976 entries at byte 49 exceed the file",
        ),
        (
            header(field(b"a", struct.pack("<IIQ", 9, 8, 3) + bytes(16)), 1),
            "3 entries at byte 49 exceed the file",
        ),
        (
            header(field(b"a", b"\x09\0\0\0" + struct.pack("<IQ", 9, 1) * 9), 1),
            "lists at byte 85 are nested too deeply",
        ),
        (header(field(b"a", b"\x0d\0\0\0"), 1), "a value of unknown type 13 at byte"),
        (header(field(b"a", b"\x07\0\0\0\1") * 2, 2), "'a' occurs twice"),
        (
            header(field(b"t", struct.pack("<I", 2**31) + bytes(99)), 0, 1),
            "tensor 't' has 2147483648 dimensions",
        ),
        (
            header(field(b"t", struct.pack("<IQIQ", 1, 2**40, 0, 0)), 0, 1),
            "4398046511104 entries at byte 64 exceed the file",
        ),
        (
            header(field(b"t", struct.pack("<IQIQ", 1, 2, 0, 2**63)), 0, 1),
            "8 entries at byte 9223372036854775872 exceed the file",
        ),
        (
            header(field(b"t", struct.pack("<IQIQ", 1, 33, 2, 0)), 0, 1),
            "tensor 't' of shape (33,)",
        ),
        (
            header(
                field(b"general.alignment", struct.pack("<II", 4, 0)), 1
            ),
            "general.alignment is 0, not a power of two",
        ),
    ],
)  # fmt: skip
def test_numbers_beyond_the_file(tmp_path: Path, content: bytes, problem: str):
    """They are compared with the size of the file before memory is allocated."""
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        ours.load(path)
    assert str(error.value).startswith(
        f"{path} is cut off, or is not a GGUF file ({problem}"
    )


def test_an_unknown_type(tmp_path: Path):
    path = tmp_path / "m.gguf"
    path.write_bytes(header(field(b"t", struct.pack("<IQIQ", 1, 32, 99, 0)), 0, 1))
    with pytest.raises(UserError, match="tensor t has dtype 99 .*, but .* bfloat16"):
        ours.load(path)


def test_another_architecture(tmp_path: Path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UserError, match="architecture 'qwen2', but only 'llama'"):
        ours.Gguf(tmp_path / "m.gguf")


def test_another_tokenizer(tmp_path: Path):
    write(tmp_path / "m.gguf", tokenizer=("llama", "default"))
    with pytest.raises(UserError, match="its tokenizer is 'llama default'"):
        _ = ours.Gguf(tmp_path / "m.gguf").tokenizer


def test_without_the_reader_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    write(path)
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setitem(sys.modules, "gguf.constants", None)
    with pytest.raises(
        UserError, match=r"model.gguf is a GGUF file, .* 'hf': run `make install"
    ):
        ours.load(path)
