"""Damaged models: safetensors, PyTorch, GGUF, tokenizers, and configurations."""

import functools
import json
import math
import shutil
import struct
from pathlib import Path

import gguf
import jax
import ml_dtypes
import numpy as np
import pytest
from flax import traverse_util
from fuzz_kit import Reader
from mutators import (
    BYTES,
    JSON,
    LINES,
    flip_bits,
    huge_number,
    in_front,
    pickle_numbers,
    safetensors_header,
    set_bytes,
    splice,
    truncate,
    zip_member,
)
from t5x import checkpoints, models, partitioning, train_state
from t5x.examples.t5 import network

from jaxaug.feed import vocabulary
from jaxaug.models.text import checkpoint
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import gguf as gguf_file
from jaxaug.models.weights import hf_folder, safetensors_io, torch_file
from jaxaug_papers import minisgd
from tests.support.tiny_run import CONFIG

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3) + 0.5,
    "b": np.arange(4, dtype=np.float16),
    "c": np.arange(3).astype(ml_dtypes.bfloat16),
    "d.e": np.arange(2, dtype=np.int64),
}
LARGE = 10**7  # A view repeats a few values; it is never copied.


def plain(tensors):
    """Returns name -> (type, shape, bytes)."""
    return {
        name: (
            str(array.dtype),
            array.shape,
            b"" if array.size > LARGE else array.tobytes(),
        )
        for name, array in tensors.items()
    }


def make_safetensors(folder, material):
    safetensors_io.write(folder / "fuzzed.safetensors", TENSORS)
    return folder / "fuzzed.safetensors"


def read_safetensors(path, material):
    with safetensors_io.Tensors(path) as tensors:
        return plain(tensors)


def are_tensors_of_file(found, expected, path):
    """Checks that each tensor is the part of the file that the header names."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    assert set(header) == set(found)
    for name, (_, shape, content) in found.items():
        start, end = header[name]["data_offsets"]
        assert content == data[8 + length :][start:end]
        assert list(shape) == header[name]["shape"]


def make_torch(folder, material):
    import torch

    base = torch.arange(100.0, 112.0)
    shared = base.reshape(3, 4)
    tensors = {"a": shared, "view": shared[1:, 1:3], "t": shared.T, "b": base + 100}
    torch.save(tensors, folder / "fuzzed.bin")
    return folder / "fuzzed.bin"


def read_torch(path, material):
    with torch_file.Tensors(path) as tensors:
        return plain(tensors)


def are_tensors_of_torch(found, expected, path):
    """Compares with torch; if torch fails, all values must occur in the file."""
    import torch

    try:
        theirs = torch.load(path, weights_only=True)
    except Exception:  # noqa: BLE001 - torch is the reference, not what is tested
        theirs = {}
    for name, (dtype, shape, content) in found.items():
        assert dtype == "float32" or name in theirs
        values = np.frombuffer(content, dtype)
        if name in theirs and values.size:
            assert shape == tuple(theirs[name].shape)
            assert content == theirs[name].contiguous().numpy().tobytes()
        elif dtype == "float32":
            assert np.isin(values, np.arange(100, 212)).all(), "values of other memory"


WIDTH, HEADS, KV_HEADS = 16, 4, 2
TOKENS = ["<|begin|>", "<|end|>", *map(chr, range(33, 127)), "th"]


def make_gguf(folder, material):
    """Writes a Llama of one layer."""
    path = folder / "fuzzed.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(24)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3] + [1] * (len(TOKENS) - 2))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(TOKENS), WIDTH), "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,), "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH // HEADS * KV_HEADS, WIDTH),
        "blk.0.attn_v": (WIDTH // HEADS * KV_HEADS, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH), "blk.0.ffn_norm": (WIDTH,),
        "blk.0.ffn_gate": (24, WIDTH), "blk.0.ffn_up": (24, WIDTH),
        "blk.0.ffn_down": (WIDTH, 24),
    }  # fmt: skip
    for name, shape in shapes.items():
        values = rng.standard_normal(shape, np.float32)
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read_gguf(path, material):
    published = gguf_file.load(path)
    words = gguf_file.Gguf(path).tokenizer
    return model_of(published), words.encode("the end").ids, words.get_vocab_size()


def model_of(published):
    flat = traverse_util.flatten_dict(published.params, sep="/")
    return plain(flat), repr(published.config)


def is_gguf_model(found, expected, path):
    (params, _), ids, size = found
    are_weights(params)
    assert all(0 <= i < size for i in ids)


def are_weights(params):
    for name, (dtype, shape, content) in params.items():
        assert math.prod(shape) > 0, name
        if dtype == "float32":
            assert np.isfinite(np.frombuffer(content, dtype)).all(), f"NaN in {name}"


def make_published(folder, material):
    """Writes the model without its tokenizer."""
    (folder / "fuzzed").mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(material / name, folder / "fuzzed" / name)
    return folder / "fuzzed"


def read_published(path, material):
    return model_of(hf_folder.load(path))


def is_model(found, expected, path):
    are_weights(found[0])
    assert found[0].keys() == expected[0].keys()


def make_tokenizer(folder, material):
    (folder / "fuzzed").mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(material / name, folder / "fuzzed" / name)
    tokens = {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}}
    (folder / "fuzzed/tokenizer_config.json").write_text(json.dumps(tokens))
    return folder / "fuzzed"


TEXTS = ["in the 12th, é", "<|end|>\n", ""]


def read_tokenizer(path, material):
    hf._load.cache_clear()
    words = hf.load(path, id_offset=1)
    ids = words.encode_batch(TEXTS)
    special = (words.bos_id, words.eos_id, words.pad_id, words.unk_id, words.mask_id)
    texts = [words.decode(row) for row in ids]
    return words.vocab_size, ids, texts, special, sorted(words.specials)


def is_tokenizer(found, expected, path):
    size, ids, texts, special, specials = found
    assert all(0 < i < size for row in ids for i in row)
    assert all(isinstance(text, str) for text in texts)
    assert all(i is None or (type(i) is int and 0 <= i < size) for i in special)
    assert all(0 <= i < size for i in specials)


RUN_OF: dict[str, Path] = {}  # The checkpoint, which is outside the damaged folder.


def make_run(folder, material):
    """Writes a folder with the config.gin of a run, whose checkpoint is elsewhere."""
    minisgd.write(folder / "d", train_dialogues=1, dev_dialogues=1, test_dialogues=1)
    words = vocabulary.train_words(folder / "d", folder)
    config = network.T5Config(
        vocab_size=1152, emb_dim=8, num_heads=2, num_encoder_layers=1,
        num_decoder_layers=1, head_dim=4, mlp_dim=8,
    )  # fmt: skip
    model = models.EncoderDecoderModel(network.Transformer(config), None, None, None)
    names = ("encoder_input_tokens", "decoder_input_tokens", "decoder_target_tokens")
    init = functools.partial(
        model.get_initial_variables, input_shapes=dict.fromkeys(names, (1, 4))
    )
    variables = jax.jit(init)(jax.random.PRNGKey(0))
    state = train_state.InferenceState.create(variables).replace(step=np.int32(3))
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    checkpoints.Checkpointer(state, partitioner, folder).save(state)
    RUN_OF["checkpoint"] = folder / "checkpoint_3"
    (folder / "fuzzed").mkdir()
    (folder / "fuzzed" / "config.gin").write_text(CONFIG.format(words=words))
    return folder / "fuzzed"


def read_run(path, material):
    link = path / "checkpoint_3"
    link.symlink_to(RUN_OF["checkpoint"])
    try:
        run = checkpoint.load(path)
    finally:
        link.unlink()
    flat = traverse_util.flatten_dict(run.params, sep="/")
    return plain(flat), run.step, repr(run.model.module.config)


def is_run(found, expected, path):
    assert found[:2] == expected[:2]


HEADER = tuple(in_front(m, 2600) for m in (flip_bits, set_bytes, huge_number, splice))

READERS = {
    "safetensors": Reader(make_safetensors, read_safetensors,
     (*BYTES, *[safetensors_header] * 8, in_front(huge_number, 8)),
     are_tensors_of_file),
    "pytorch_model.bin": Reader(make_torch, read_torch,
     (*BYTES, zip_member("data.pkl", (flip_bits, set_bytes, huge_number, splice)),
     *[zip_member("data.pkl", (pickle_numbers,))] * 6,
     zip_member("data/0", (truncate,))), are_tensors_of_torch),
    "gguf": Reader(make_gguf, read_gguf, (*BYTES, *HEADER * 3, *[in_front(huge_number,
     40)] * 3), is_gguf_model),
    "published model": Reader(make_published, read_published, BYTES, is_model),
    "model folder": Reader(make_run, read_run, LINES, is_run),
    "tokenizer": Reader(make_tokenizer, read_tokenizer, JSON, is_tokenizer),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(fuzzer, tiny_lm, name, files):
    report = fuzzer.run(name, tiny_lm, files)
    assert not report.defects, report.text()
    assert report.counts["refused"] > 0
