"""Key maps, weight files in and out, and rejected files."""

import json
import math
import re
import shutil
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.models.weights import hf_folder, keymap, safetensors_io, torch_file

SMALL = {
    "model_type": "bart", "vocab_size": 9, "d_model": 4, "pad_token_id": 1,
    "decoder_start_token_id": 2, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 1, "decoder_attention_heads": 1, "encoder_ffn_dim": 4,
    "decoder_ffn_dim": 4, "max_position_embeddings": 8,
}  # fmt: skip


class Shape:
    def __init__(self, *shape):
        self.shape = shape


def array(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@given(
    heads=st.integers(1, 3),
    dim=st.integers(1, 3),
    width=st.integers(1, 4),
    kind=st.sampled_from(["in", "out", "conv_in", "conv_out", "bias", "t"]),
)
def test_transforms_invert_each_other(heads, dim, width, kind):
    joined = heads * dim
    weight, hf, flax = {
        "in": (keymap.heads_in, (joined, width), (width, heads, dim)),
        "out": (keymap.heads_out, (width, joined), (heads, dim, width)),
        "conv_in": (keymap.conv_heads_in, (width, joined), (width, heads, dim)),
        "conv_out": (keymap.conv_heads_out, (joined, width), (heads, dim, width)),
        "bias": (keymap.bias_heads, (joined,), (heads, dim)),
        "t": (lambda n, h, d: keymap.transposed(n), (joined, width), (width, joined)),
    }[kind]
    weight = weight("w", heads, dim)
    tensor = array(*hf)
    leaf = weight.to_flax(tensor)
    assert leaf.shape == flax
    np.testing.assert_array_equal(weight.to_hf(leaf), tensor)


FUSED = {
    "a/query": keymap.part("qkv", 0, 3, keymap.conv_heads_in("", 2, 2), axis=1),
    "a/key": keymap.part("qkv", 1, 3, keymap.conv_heads_in("", 2, 2), axis=1),
    "a/value": keymap.part("qkv", 2, 3, keymap.conv_heads_in("", 2, 2), axis=1),
    "b": keymap.identity("b", "b_again"),
}
FUSED_SHAPES = {
    "a": dict.fromkeys(("query", "key", "value"), Shape(3, 2, 2)),
    "b": Shape(5),
}


def read(tensors, ignored=(), key_map=FUSED, shapes=FUSED_SHAPES, dtype=None):
    return keymap.params_from(
        tensors, key_map, ignored, shapes=shapes, source="file", dtype=dtype
    )


def test_fused_tensors():
    tensors = {"qkv": array(3, 12), "b": array(5)}
    params = read(tensors)
    np.testing.assert_array_equal(
        params["a"]["key"].reshape(3, 4), tensors["qkv"][:, 4:8]
    )
    back = keymap.tensors_from(params, FUSED)
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(back[name], tensor)
        assert back[name].flags.c_contiguous


def test_missing_and_left_over_keys_are_listed():
    with pytest.raises(UserError) as error:
        read({"qkv": array(3, 12), "x": array(1), "y.1.z": array(1)}, [r"y\.\d\.z"])
    assert str(error.value).startswith(
        "file: the weights do not fit the configuration: 1 missing: b; "
        "1 left over: x. Use the config.json"
    )
    # A pattern must match the whole name.
    with pytest.raises(UserError, match="1 left over: xy"):
        read({"qkv": array(3, 12), "b": array(5), "xy": array(1)}, ["x"])
    with pytest.raises(UserError, match="n11 and 4 more"):
        keys = {f"n{i:02}": array(1) for i in range(16)}
        read({"qkv": array(3, 12), "b": array(5), **keys})


def test_tied_names():
    tensors = {"qkv": array(3, 12), "b_again": array(5)}
    np.testing.assert_array_equal(read(tensors)["b"], array(5))
    assert read({**tensors, "b": array(5)})["b"].shape == (5,)
    with pytest.raises(UserError, match="file: b and b_again differ, but"):
        read({**tensors, "b": array(5) + 1})


def test_a_substitute_serves_only_if_the_tensor_is_missing():
    key_map = {"e": keymap.identity("e"), "h": keymap.transposed("h")}
    key_map["h"] = key_map["h"]._replace(otherwise="e")
    shapes = {"e": Shape(2, 3), "h": Shape(3, 2)}
    e, h = array(2, 3), array(2, 3) + 9
    found = read({"e": e}, key_map=key_map, shapes=shapes)
    np.testing.assert_array_equal(found["h"], e.T)
    found = read({"e": e, "h": h}, key_map=key_map, shapes=shapes)
    np.testing.assert_array_equal(found["h"], h.T)


@pytest.mark.parametrize("shape", [(3, 11), (3, 15), (4, 12), (36,), (12, 3)])
def test_wrong_shapes(shape):
    with pytest.raises(UserError, match=r"file: qkv has shape \[.*of a/(key|query)"):
        read({"qkv": array(*shape), "b": array(5)})


def test_a_map_of_another_model():
    with pytest.raises(UserError, match="file: .*parameters without a key: c/d"):
        read({}, shapes={**FUSED_SHAPES, "c": {"d": Shape(1)}})
    with pytest.raises(UserError, match="keys without a parameter: b"):
        keymap.tensors_from({"a": FUSED_SHAPES["a"]}, FUSED)


TENSORS = {
    "a": array(2, 3),
    "b": array(4, dtype=np.float16),
    "c": array(3).astype(ml_dtypes.bfloat16),
    "d.e": array(2, dtype=np.int64),
}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert found[name].tobytes() == tensor.tobytes()


def test_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors_io.write(path, TENSORS)
    with safetensors_io.Tensors(path) as found:
        assert_same(found, TENSORS)
        assert "nothing" not in found
    assert torch.equal(
        safetensors.torch.load_file(path)["a"], torch.arange(6.0).reshape(2, 3)
    )


@pytest.mark.parametrize("size", [0, 4, 60, -1])
def test_damaged_safetensors(tmp_path, size):
    path = tmp_path / "x.safetensors"
    safetensors_io.write(path, TENSORS)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        UserError, match="x.safetensors is cut off, or is not a safeten"
    ):
        safetensors_io.Tensors(path)


def shards(folder):
    safetensors_io.write(folder / "1.safetensors", {k: TENSORS[k] for k in "ab"})
    safetensors_io.write(
        folder / "2.safetensors", {k: TENSORS[k] for k in ("c", "d.e")}
    )
    index = {"a": "1.safetensors", "b": "1.safetensors"}
    index |= {"c": "2.safetensors", "d.e": "2.safetensors"}
    path = folder / safetensors_io.INDEX
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return path


def test_sharded_safetensors(tmp_path, edit_json):
    path = shards(tmp_path)
    with safetensors_io.open_index(path) as found:
        assert_same(found, TENSORS)
    edit_json(path, lambda index: index["weight_map"].update(c="1.safetensors"))
    with pytest.raises(UserError, match="1.safetensors lacks the tensor c"):
        safetensors_io.open_index(path)
    (tmp_path / "2.safetensors").unlink()
    with pytest.raises(UserError, match="2.safetensors: no such file"):
        safetensors_io.open_index(path)
    path.write_text("{}")
    with pytest.raises(UserError, match="has no weight_map"):
        safetensors_io.open_index(path)


@pytest.mark.parametrize("file", ["../1.bin", "/1.bin", "..", "", 3, ["1.bin"]])
@pytest.mark.parametrize("reader", [torch_file, safetensors_io])
def test_an_index_that_names_files_elsewhere(tmp_path, reader, file):
    path = tmp_path / reader.INDEX
    path.write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(UserError) as error:
        reader.open_index(path)
    assert str(error.value).startswith(
        f"{path}: weight_map has {file!r} for a, but must have the name of a file next "
        f"to it."
    )


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(UserError, match="config.json: no such file. Name the folder"):
        hf_folder.load(tmp_path)
    config = tmp_path / "config.json"
    config.write_text("[]")
    with pytest.raises(UserError, match="config.json holds no JSON object"):
        hf_folder.load(tmp_path)
    config.write_text('{"model_type": "mamba"}')
    with pytest.raises(
        UserError, match="config.json: model_type is 'mamba'.* one of t5"
    ):
        hf_folder.load(tmp_path)
    config.write_text('{"model_type": "t5", "architectures": ["T5EncoderModel"]}')
    with pytest.raises(
        UserError, match=re.escape(f"{tmp_path}: config.json: architectures is")
    ):
        hf_folder.load(tmp_path)
    config.write_text('{"model_type": "t5"}')
    with pytest.raises(UserError, match="holds no weights: none of model.safetensors"):
        hf_folder.load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("d_model", "512", "a whole number from 1 to 16777216"),
        ("d_model", 0, "a whole number from 1 to 16777216"),
        ("d_kv", 8.0, "a whole number from 1 to 16777216"),
        ("vocab_size", True, "a whole number from 1 to 16777216"),
        ("num_layers", -1, "a whole number from 1 to 1000"),
        ("num_layers", 10**9, "a whole number from 1 to 1000"),
        ("dropout_rate", [], "a number from 0 to below 1"),
        ("dropout_rate", 1.5, "a number from 0 to below 1"),
        ("layer_norm_epsilon", math.nan, "a number above 0"),
        ("tie_word_embeddings", "no", "true or false"),
        ("feed_forward_proj", {}, "a text"),
        ("architectures", "T5ForConditionalGeneration", "a list of texts"),
        ("pad_token_id", "0", "an id of a token"),
        ("id2label", {"x": "y"}, "an object from numbers to texts"),
    ],
)
def test_configurations_of_wrong_types(tmp_path, key, value, expected):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5", key: value}))
    with pytest.raises(UserError) as error:
        hf_folder.load(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: config.json: {key} is {value!r}, but must be {expected}. Use the "
        "config.json that was published with the weights."
    )


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            {"model_type": "llama", "vocab_size": 8, "hidden_size": 8, "head_dim": 3,
             "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
            "config.json describes a network that cannot be built (",
        ),
        (
            {"model_type": "t5", "feed_forward_proj": None},
            ": config.json: feed_forward_proj is None; known are",
        ),
        (
            SMALL | {"decoder_start_token_id": 9},
            "decoder_start_token_id is 9, but the embedding has ids from 0 to 8.",
        ),
        (
            SMALL | {"forced_bos_token_id": -2},
            "forced_bos_token_id is -2, but the embedding has ids from 0 to 8.",
        ),
        (
            SMALL | {"decoder_start_token_id": [2]},
            "decoder_start_token_id is [2], but must be an id of a token.",
        ),
        (
            {"model_type": "pegasus", "d_model": 1 << 24,
             "max_position_embeddings": 1 << 24},
            "but their product must be at most 67108864.",
        ),
    ],
)  # fmt: skip
def test_configurations_that_do_not_fit_together(tmp_path, config, problem):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=re.escape(problem)):
        hf_folder.load(tmp_path)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8", "U16", "F8_E8M0", "F3"])
def test_dtypes_that_are_no_weights(tmp_path, dtype):
    """Integers are quantized weights, whose scales are elsewhere."""
    size = {"U16": 2}.get(dtype, 1)
    header = json.dumps(
        {"w": {"dtype": dtype, "shape": [2], "data_offsets": [0, 2 * size]}}
    ).encode()
    path = tmp_path / safetensors_io.FILE
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(2 * size))
    name = {"I8": "int8", "U16": "uint16"}.get(dtype, dtype)
    with pytest.raises(UserError, match=f"{path}: .*dtype {name}, but .* bfloat16"):
        keymap.check_finite(safetensors_io.Tensors(path)["w"], "w", str(path))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_nan_weights(dtype, value):
    qkv = array(3, 12).astype(dtype)
    qkv[1, 2:4] = value
    with pytest.raises(UserError) as error:
        read({"qkv": qkv, "b": array(5)})
    assert str(error.value) == (
        "file: qkv has 2 of 36 numbers that are NaN or infinite. Get the file again; "
        "if that does not help, take another checkpoint: the training diverged."
    )


def test_the_model_card():
    card = hf_folder.Card("mine", "t5", "SGD", "Apache-2.0", {"JGA": 0.5}, 7)
    assert card.text() == (
        '---\nlibrary_name: transformers\ntags: [jaxaug]\nlicense: "apache-2.0"\n---\n'
        "\n# mine\n\n- Converted from: t5\n- Training data: SGD\n"
        "- Licence: Apache-2.0\n- Seed: 7\n\n## Metrics\n\n"
        "| metric | value |\n| --- | --- |\n| JGA | 0.5 |\n\n"
        "Written by `jaxaug convert`.\n"
    )
    bare = hf_folder.Card("mine", "t5").text()
    assert "license" not in bare
    assert bare.count("not stated") == 4


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    key_map, card = {"a": keymap.identity("a")}, hf_folder.Card("out", "x")
    missing = {"vocab.txt": tmp_path / "missing"}
    with pytest.raises(OSError):
        hf_folder.write(target, {"a": array(2)}, key_map, {}, card, missing)
    assert not list(tmp_path.iterdir())
    words = tmp_path / "words"
    words.write_text("one\n")
    hf_folder.write(
        target, {"a": array(2)}, key_map, {"x": 1}, card, {"vocab.txt": words}
    )
    assert {path.name for path in target.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "vocab.txt",
    }  # fmt: skip
    assert json.loads((target / "config.json").read_text()) == {
        "torch_dtype": "float32",
        "x": 1,
    }
    assert list(hf_folder.tokenizer_of(target)) == ["vocab.txt"]
    with pytest.raises(UserError, match="out exists. Name a folder that does not"):
        hf_folder.write(target, {"a": array(2)}, key_map, {}, card, {})
    shutil.rmtree(target)


def test_a_full_disk_is_an_error_of_the_system(tmp_path, monkeypatch):
    """safetensors raises its own error class, with the error number in its text."""

    def save_file(*_, **__):
        raise safetensors.SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    monkeypatch.setattr("safetensors.numpy.save_file", save_file)
    with pytest.raises(OSError, match="No space left on device") as error:
        safetensors_io.write(tmp_path / "x.safetensors", {})
    assert error.value.filename == str(tmp_path / "x.safetensors")
