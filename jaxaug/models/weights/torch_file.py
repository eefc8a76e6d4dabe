"""`pytorch_model.bin` without torch: a zip file of one pickle and raw arrays.

The pickle names tensors by calls of a few torch functions. Only these are known here,
as makers of NumPy arrays, so that a hostile file can run nothing. Files of before
PyTorch 1.6 are no zip files and are refused.
"""

import collections
import os
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import ml_dtypes
import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json

FILE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
_FIX = (
    "Get the file again, or take model.safetensors of the same model if it is offered."
)

_STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class _Stored(NamedTuple):
    """Where a tensor lies: a view of one array of the zip file."""

    dtype: np.dtype
    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *rest: tensor
        if module == "torch" and name in _STORAGES:
            return np.dtype(_STORAGES[name])
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a state dict")

    def persistent_load(self, pid: Any) -> tuple[np.dtype, str]:
        # ("storage", type, key, device, number of elements)
        return pid[1], pid[2]


def _tensor(
    storage: tuple[np.dtype, str],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *rest: Any,
) -> _Stored:
    del rest
    return _Stored(*storage, offset, shape, strides)


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of one or several files, read when asked for.

    A context manager that closes the files at its end.
    """

    def __init__(self, *paths: PathLike):
        """Opens the files.

        Raises:
          UserError: a file is missing, damaged or holds anything but tensors.
        """
        self._tensors: dict[str, tuple[str, _Stored]] = {}
        self._files: dict[str, tuple[zipfile.ZipFile, str]] = {}
        for path in [os.fspath(path) for path in paths]:
            for name, stored in self._open(path).items():
                if isinstance(stored, _Stored):
                    self._tensors[name] = path, stored

    def _open(self, path: str) -> dict[str, Any]:
        try:
            file = zipfile.ZipFile(path)
            (pickled,) = (n for n in file.namelist() if n.endswith("/data.pkl"))
            with file.open(pickled) as data:
                state = _Unpickler(data).load()
        except FileNotFoundError:
            raise UserError(f"{path}: no such file. {_FIX}") from None
        except (
            zipfile.BadZipFile,
            pickle.UnpicklingError,
            ValueError,
            TypeError,
            IndexError,
            AttributeError,
            EOFError,
        ) as error:
            raise UserError(
                f"{path}: is damaged or no PyTorch state dict in the format of "
                f"PyTorch 1.6 and later ({error}). {_FIX}"
            ) from None
        if not isinstance(state, dict):
            raise UserError(f"{path}: holds no state dict. {_FIX}")
        self._files[path] = file, pickled.removesuffix("data.pkl")
        return state

    def __getitem__(self, name: str) -> np.ndarray:
        path, stored = self._tensors[name]
        file, folder = self._files[path]
        try:
            flat = np.frombuffer(file.read(f"{folder}data/{stored.key}"), stored.dtype)
            return _view(flat, stored)
        except (KeyError, zipfile.BadZipFile, EOFError, ValueError) as error:
            raise UserError(
                f"{path}: tensor {name} cannot be read ({error}). {_FIX}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file, _ in self._files.values():
            file.close()


def _view(flat: np.ndarray, stored: _Stored) -> np.ndarray:
    steps = zip(stored.shape, stored.strides, strict=True)
    last = stored.offset + sum((n - 1) * step for n, step in steps)
    if 0 in stored.shape:
        return np.empty(stored.shape, stored.dtype)
    if not 0 <= stored.offset <= last < flat.size:
        raise ValueError("it reaches beyond its array")
    return np.lib.stride_tricks.as_strided(
        flat[stored.offset :],
        stored.shape,
        tuple(step * flat.itemsize for step in stored.strides),
        writeable=False,
    )


def open_index(path: PathLike) -> Tensors:
    """The tensors of a sharded model; `path` is its index, beside the shards.

    Raises:
      UserError: no index, or a shard is missing or damaged or lacks a tensor.
    """
    index = read_json(path, _FIX)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise UserError(f"{path}: has no weight_map from tensors to files. {_FIX}")
    folder = epath.Path(path).parent
    tensors = Tensors(*(folder / str(name) for name in sorted(set(shards.values()))))
    if absent := sorted(set(shards) - set(tensors)):
        raise UserError(f"{path}: no shard holds {', '.join(absent[:5])}. {_FIX}")
    return tensors
