"""Weights in files of torch: values, damage, and hostile pickles."""

import json
import pickle
import re
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest
import torch

from jaxaug.core.errors import UserError
from jaxaug.models.weights import torch_file


def torch_tensors():
    shared = torch.arange(12.0).reshape(3, 4)
    return {
        "a": shared,
        "a.tied": shared,
        "a.view": shared[1:, 1:3],
        "a.t": shared.T,
        "half": torch.arange(3).half(),
        "bf": torch.arange(3).bfloat16(),
        "long": torch.arange(2),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }


def test_torch_files(tmp_path):
    path = tmp_path / torch_file.FILE
    tensors = torch_tensors()
    torch.save(tensors, path)
    with torch_file.Tensors(path) as found:
        assert set(found) == set(tensors)
        for name, tensor in tensors.items():
            expected = tensor.detach()
            assert found[name].shape == tuple(expected.shape)
            np.testing.assert_array_equal(
                found[name].astype(np.float32), expected.float().numpy()
            )
        assert found["bf"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float8_e4m3fn, "float8_e4m3fn"), (torch.complex64, "ComplexFloatStorage")],
)
def test_dtypes_that_numpy_lacks(tmp_path, dtype, name):
    path = tmp_path / torch_file.FILE
    torch.save({"w": torch.zeros(2).to(dtype), "a": torch.ones(2)}, path)
    found = torch_file.Tensors(path)
    np.testing.assert_array_equal(found["a"], [1, 1])
    with pytest.raises(UserError, match=f"{path}: tensor w has dtype {name}, but .*16"):
        found["w"]


def test_sharded_torch_files(tmp_path):
    tensors = torch_tensors()
    torch.save({"a": tensors["a"]}, tmp_path / "1.bin")
    torch.save({"half": tensors["half"]}, tmp_path / "2.bin")
    path = tmp_path / torch_file.INDEX
    index = {"a": "1.bin", "half": "2.bin"}
    path.write_text(json.dumps({"weight_map": index}))
    with torch_file.open_index(path) as found:
        assert set(found) == {"a", "half"}
        np.testing.assert_array_equal(found["half"], [0, 1, 2])
    path.write_text(json.dumps({"weight_map": index | {"b": "2.bin"}}))
    with pytest.raises(UserError, match="no shard holds b"):
        torch_file.open_index(path)


def test_damaged_torch_files(tmp_path):
    path = tmp_path / torch_file.FILE
    with pytest.raises(UserError, match="no such file"):
        torch_file.Tensors(path)
    torch.save({"a": torch.ones(100)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    with pytest.raises(UserError, match="is damaged, or is not a PyTorch state dict"):
        torch_file.Tensors(path)
    torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(UserError, match="PyTorch 1.6 and later"):
        torch_file.Tensors(path)


def test_a_hostile_pickle_runs_nothing(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "written"), "w"))

    path = tmp_path / torch_file.FILE
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({"a": Hostile()}))
    with pytest.raises(UserError, match="open is not part of a state dict"):
        torch_file.Tensors(path)
    assert not (tmp_path / "written").exists()


def test_a_tensor_beyond_its_array(tmp_path):
    path, changed = tmp_path / torch_file.FILE, tmp_path / "changed.bin"
    torch.save({"a": torch.ones(100)}, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data[:80] if name.endswith("/data/0") else data)
    with pytest.raises(UserError, match="tensor a cannot be read .it extends beyond"):
        torch_file.Tensors(changed)["a"]


def write_torch_file(path, pickled, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/data/0", np.arange(16, dtype=np.float32).tobytes())


def push(value):
    """Returns the opcodes that put a value on the stack of a pickle."""
    return pickle.dumps(value, 2)[2:-1]


def state_dict(offset, shape, strides):
    """Returns the pickle of {"a": a tensor over an array of 16 numbers}."""
    storage = push("storage") + b"ctorch\nFloatStorage\n"
    storage = b"(" + storage + push("0") + push("cpu") + push(16) + b"tQ"
    view = storage + push(offset) + push(shape) + push(strides) + push(False) + b"}"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + view + b"tR"
    return b"\x80\x02}" + push("a") + tensor + b"s."


def test_tensors_that_lie_within_their_array(tmp_path):
    path = tmp_path / torch_file.FILE
    for shape, strides in (((4, 4), (4, 1)), ((4, 4), (1, 4)), ((2, 3), (8, 2))):
        write_torch_file(path, state_dict(3, (2,), (12,)))
        np.testing.assert_array_equal(torch_file.Tensors(path)["a"], [3, 15])
        write_torch_file(path, state_dict(0, shape, strides))
        expected = torch.as_strided(torch.arange(16.0), shape, strides)
        np.testing.assert_array_equal(torch_file.Tensors(path)["a"], expected)


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "problem"),
    [
        # Only the sum of the extents is within the array.
        (0, (2, 5), (4, -1), "a tensor of negative extent"),
        (0, (2, 2), (1 << 40, -(1 << 40)), "a tensor of negative extent"),
        (5, (2,), (-1,), "a tensor of negative extent"),
        (-1, (1,), (1,), "a tensor of negative extent"),
        (0, (-1,), (1,), "a tensor of negative extent"),
        (0.0, (1,), (1,), "a tensor of negative extent"),
        (0, (2,), (1, 1), "a tensor with strides for other dimensions"),
    ],
)
def test_extents_that_no_tensor_has(tmp_path, offset, shape, strides, problem):
    path = tmp_path / torch_file.FILE
    write_torch_file(path, state_dict(offset, shape, strides))
    with pytest.raises(UserError) as error:
        torch_file.Tensors(path)
    assert str(error.value) == (
        f"{path} is damaged, or is not a PyTorch state dict in the format of PyTorch "
        f"1.6 and later (ValueError: {problem}). Get the file again, or take "
        "model.safetensors of the same model if it is offered."
    )


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "problem"),
    [
        (0, (17,), (1,), "it extends beyond its array"),
        (1, (16,), (1,), "it extends beyond its array"),
        (16, (1,), (1,), "it extends beyond its array"),
        (0, (2, 2), (15, 1), "it extends beyond its array"),
        (0, (1 << 40,), (0,), "it has more elements than its array"),
        (0, (1,), (1 << 80,), "Python int too large"),
    ],
)
def test_tensors_beyond_their_array(tmp_path, offset, shape, strides, problem):
    path = tmp_path / torch_file.FILE
    write_torch_file(path, state_dict(offset, shape, strides))
    with pytest.raises(UserError, match=re.escape(f"a cannot be read ({problem}")):
        torch_file.Tensors(path)["a"]


def test_pickles_that_want_memory_or_time(tmp_path):
    """Python's unpickler would take 32 GiB for the first, years for the second."""
    assert torch_file.load(b"\x80\x02}r\xff\xff\xff\x7f.") == {}
    nested = b")" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60))
    hostile = {
        b"}" + nested + b"Ns.": "entries have keys that are not names",
        b"B\xff\xff\xff\x7fx.": "expected 2147483647 bytes",
        b"c" + b"_io\nopen\n.": "_io.open is not part of a state dict",
        b"}2.": "DUP is not part of a state dict",
        b"}h\x05.": "Memo value not found at index 5",
        b"}": "pickle exhausted before seeing STOP",
        b"0.": "POP is not part",
        b"(.": "pop from empty list",
        b"}}R.": "'dict' object is not callable",
        b"ctorch\nFloatStorage\n)R.": "'_Named' object is not callable",
        b"ctorch\nFloatStorage\n}b.": "holds no state dict",
    }
    path = tmp_path / torch_file.FILE
    for data, problem in hostile.items():
        write_torch_file(path, b"\x80\x02" + data)
        with pytest.raises(UserError, match=problem):
            torch_file.Tensors(path)
    write_torch_file(path, b"\x80\x02}.", zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match="data.pkl is compressed, which PyTorch never"):
        torch_file.Tensors(path)
    # The directory at the end claims that data.pkl has 2 GiB.
    write_torch_file(path, b"\x80\x02}.")
    whole = path.read_bytes()
    entry = whole.index(b"PK\1\2")
    for place in (entry + 20, entry + 24):  # The stored and the unpacked size.
        path.write_bytes(whole[:place] + struct.pack("<I", 2**31) + whole[place + 4 :])
        with pytest.raises(
            UserError, match=r"data.pkl has 2147483648 bytes, more than the"
        ):
            torch_file.Tensors(path)
