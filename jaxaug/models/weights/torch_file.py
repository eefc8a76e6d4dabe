"""Reads `pytorch_model.bin` without torch: a zip file of one pickle and raw arrays.

The pickle builds tensors by calls of a few torch functions. Only these are supported
(see `torch_pickle`), so a hostile file cannot run code. No tensor may extend beyond its
array. Files from versions before PyTorch 1.6 are not zip files and are refused.
"""

import math
import os
import pickle
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary
from jaxaug.models.weights import safetensors_io, torch_pickle
from jaxaug.models.weights.tensor_files import TensorFiles, unsupported

FILE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
_FIX = (
    "Get the file again, or take model.safetensors of the same model if it is offered."
)

# Errors of the libraries for damaged files.
_DAMAGE = (
    zipfile.BadZipFile,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)


class Tensors(TensorFiles):
    """Tensors of one or several files, read on access."""

    def __init__(self, *paths: PathLike):
        """Opens the files.

        Raises:
            UserError: a file is missing or damaged, or holds anything but tensors.
        """
        self._places: dict[str, tuple[str, torch_pickle.Stored]] = {}
        self._files: dict[str, tuple[zipfile.ZipFile, str]] = {}
        for path in [os.fspath(path) for path in paths]:
            for name, stored in self._open(path).items():
                if isinstance(stored, torch_pickle.Stored):
                    self._places[name] = path, stored

    def _open(self, path: str) -> dict[str, Any]:
        try:
            check_ordinary(path, _FIX)
            file = zipfile.ZipFile(path)
            (pickled,) = (n for n in file.namelist() if n.endswith("/data.pkl"))
            state = torch_pickle.load(_read(file, pickled))
        except FileNotFoundError:
            raise UserError(f"{path}: no such file. {_FIX}") from None
        except (*_DAMAGE, pickle.UnpicklingError) as error:
            raise UserError(
                f"{path} is damaged, or is not a PyTorch state dict in the format of "
                f"PyTorch 1.6 and later ({error}). {_FIX}"
            ) from None
        if not isinstance(state, dict):
            raise UserError(f"{path} holds no state dict. {_FIX}")
        self._files[path] = file, pickled.removesuffix("data.pkl")
        return state

    def __getitem__(self, name: str) -> np.ndarray:
        path, stored = self._places[name]
        if isinstance(stored.dtype, str):
            raise unsupported(stored.dtype, name, path)
        file, folder = self._files[path]
        try:
            flat = np.frombuffer(
                _read(file, f"{folder}data/{stored.key}"), stored.dtype
            )
            return _view(flat, stored)
        except _DAMAGE as error:
            raise UserError(
                f"{path}: tensor {name} cannot be read ({error}). {_FIX}"
            ) from None

    def close(self) -> None:
        """Closes the files."""
        for file, _ in self._files.values():
            file.close()


def _read(file: zipfile.ZipFile, name: str) -> bytes:
    info = file.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        # A few compressed bytes could expand beyond the memory.
        raise ValueError(f"{name} is compressed, which PyTorch never does")
    size = max(info.file_size, info.compress_size)
    if size > os.path.getsize(file.filename or ""):
        # Memory for this size would be allocated before the first byte is read.
        raise ValueError(f"{name} has {size} bytes, more than the file")
    return file.read(name)


def _view(flat: np.ndarray, stored: torch_pickle.Stored) -> np.ndarray:
    """Returns the elements of a tensor, after checking that all are inside `flat`."""
    if 0 in stored.shape:
        return np.empty(stored.shape, stored.dtype)
    steps = zip(stored.shape, stored.strides, strict=True)
    last = stored.offset + sum((n - 1) * step for n, step in steps)
    # Offset and strides are not negative (see `torch_pickle`), so the last element is
    # the end.
    if last >= flat.size:
        raise ValueError("it extends beyond its array")
    if math.prod(stored.shape) > flat.size:
        raise ValueError("it has more elements than its array")
    return np.lib.stride_tricks.as_strided(
        flat[stored.offset :],
        stored.shape,
        tuple(step * flat.itemsize for step in stored.strides),
        writeable=False,
    )


def open_index(path: PathLike) -> Tensors:
    """Returns the tensors of a sharded model; `path` is its index, next to the shards.

    Raises:
        UserError: the index or a shard is missing, or a shard is damaged or lacks a
            tensor.
    """
    shards = safetensors_io.shards_of(path, _FIX)
    folder = epath.Path(path).parent
    tensors = Tensors(*(folder / name for name in sorted(set(shards.values()))))
    if absent := sorted(set(shards) - set(tensors)):
        raise UserError(f"{path}: no shard holds {', '.join(absent[:5])}. {_FIX}")
    return tensors
