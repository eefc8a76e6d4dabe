"""Reads `pytorch_model.bin` without torch: a zip file of one pickle and raw arrays.

The pickle builds tensors by calls of a few torch functions. Only these are supported
(see `_Machine`), so a hostile file cannot run code. No tensor may extend beyond its
array. Files from versions before PyTorch 1.6 are not zip files and are refused.
"""

import math
import os
import pickle
import pickletools
import re
import struct
import zipfile
import zlib
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary
from jaxaug.models.weights import safetensors_io
from jaxaug.models.weights.safetensors_io import TensorFiles, unsupported

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
_DICT = "collections.OrderedDict"
_TENSOR = "torch._utils._rebuild_tensor_v2"
_PARAMETER = "torch._utils._rebuild_parameter"
# Tensors of dtypes without a storage class, such as float8, name their dtype.
_WITH_DTYPE = "torch._utils._rebuild_tensor_v3"
_KNOWN = {_DICT, _TENSOR, _PARAMETER, _WITH_DTYPE, "torch.storage.UntypedStorage"}
_DTYPE = re.compile(r"torch\.(\w+Storage|(u?int|float|complex|bits|q)\w+)")
_VALUES = {
    "BINFLOAT",
    "BININT",
    "BININT1",
    "BININT2",
    "BINUNICODE",
    "LONG1",
    "LONG4",
    "SHORT_BINUNICODE",
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Stored(NamedTuple):
    """Location of a tensor: a view of one array of the zip file.

    `dtype` is the name in the file if NumPy lacks the dtype.
    `offset` and `strides` count elements. They, `shape`, and the number of strides come
    from the file, but none is negative, and there is one stride per dimension.
    """

    dtype: np.dtype | str
    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Named(NamedTuple):
    name: str


class _Storage(NamedTuple):
    dtype: np.dtype | str
    key: str


def load(data: bytes) -> Any:
    """Returns the content of a pickle: containers, plain values, and `Stored`.

    Raises:
        pickle.UnpicklingError: it holds anything else, or is damaged.
    """
    machine = _Machine()
    try:
        for operation, argument, _ in pickletools.genops(data):
            machine.step(operation.name, argument)
        return machine.pop()
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error


class _Machine:
    """Stack, marks, and memo while a pickle is read."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # Stacks below the open marks.
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        """Removes and returns the top value."""
        return self._stack.pop()

    def _pop_marked(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def step(self, name: str, argument: Any) -> None:
        """Runs one operation."""
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(reversed(items)))
        else:
            self._step_of_structure(name, argument)

    def _step_of_structure(self, name: str, argument: Any) -> None:
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                self._below.append(self._stack)
                self._stack = []
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self._stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self._stack[-1]
            case "BINGET" | "LONG_BINGET":
                self._stack.append(self._memo[argument])
            case "EMPTY_DICT":
                self._stack.append({})
            case "EMPTY_LIST":
                self._stack.append([])
            case "TUPLE":
                items = tuple(self._pop_marked())
                self._stack.append(items)
            case "APPEND":
                self._extend([self.pop()])
            case "APPENDS":
                self._extend(self._pop_marked())
            case "SETITEM":
                value = self.pop()
                self._update([self.pop(), value])
            case "SETITEMS":
                self._update(self._pop_marked())
            case "GLOBAL":
                self._stack.append(_named(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                attribute = self.pop()
                self._stack.append(_named(f"{self.pop()!s:.80}.{attribute!s:.80}"))
            case "BINPERSID":
                self._stack.append(_storage(self.pop()))
            case "REDUCE":
                arguments = self.pop()
                self._stack.append(_called(self.pop(), arguments))
            case "BUILD":
                self.pop()  # Attributes of the dict, such as versions of modules.
            case _:
                raise pickle.UnpicklingError(f"{name} is not part of a state dict")

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise TypeError("items are appended to something other than a list")
        self._stack[-1].extend(items)

    def _update(self, items: list[Any]) -> None:
        target = self._stack[-1]
        # Hashing nested tuples can take forever.
        if not isinstance(target, dict) or not all(
            isinstance(key, str | int) for key in items[::2]
        ):
            raise TypeError("entries have keys that are not names")
        target.update(zip(items[::2], items[1::2], strict=True))


def _named(name: str) -> _Named:
    if name not in _KNOWN and not _DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"{name} is not part of a state dict")
    return _Named(name)


def _storage(value: Any) -> _Storage:
    # ("storage", type, key, device, number of elements)
    _, kind, key, *_ = value
    if not isinstance(kind, _Named) or not isinstance(key, str):
        raise TypeError("a storage without type or name")
    name = kind.name.rpartition(".")[2]
    return _Storage(np.dtype(_STORAGES[name]) if name in _STORAGES else name, key)


def _called(function: Any, arguments: Any) -> Any:
    if function == _Named(_DICT) and arguments == ():
        return {}
    if function == _Named(_PARAMETER):
        return arguments[0]
    if function not in (_Named(_TENSOR), _Named(_WITH_DTYPE)):
        raise TypeError("a call of something other than a known function")
    storage, offset, shape, strides, *rest = arguments
    if not isinstance(storage, _Storage):
        raise TypeError("a tensor without a storage")
    if not all(map(_is_count, (offset, *shape, *strides))):
        raise ValueError("a tensor of negative extent")
    if len(shape) != len(strides):
        raise ValueError("a tensor with strides for other dimensions")
    dtype = storage.dtype
    if function == _Named(_WITH_DTYPE):
        dtype = rest[2].name.removeprefix("torch.")
    return Stored(dtype, storage.key, offset, tuple(shape), tuple(strides))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


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
        self._places: dict[str, tuple[str, Stored]] = {}
        self._files: dict[str, tuple[zipfile.ZipFile, str]] = {}
        for path in [os.fspath(path) for path in paths]:
            for name, stored in self._open(path).items():
                if isinstance(stored, Stored):
                    self._places[name] = path, stored

    def _open(self, path: str) -> dict[str, Any]:
        try:
            check_ordinary(path, _FIX)
            file = zipfile.ZipFile(path)
            (pickled,) = (n for n in file.namelist() if n.endswith("/data.pkl"))
            state = load(_read(file, pickled))
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


def _view(flat: np.ndarray, stored: Stored) -> np.ndarray:
    """Returns the elements of a tensor, after checking that all are inside `flat`."""
    if 0 in stored.shape:
        return np.empty(stored.shape, stored.dtype)
    steps = zip(stored.shape, stored.strides, strict=True)
    last = stored.offset + sum((n - 1) * step for n, step in steps)
    # Offset and strides are not negative (see `_Machine`), so the last element is
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
