"""Reads `pytorch_model.bin` without torch: a zip file of one pickle and raw arrays.

The pickle builds tensors by calls of a few torch functions. Only these are supported
(see `_Unpickler`), so a hostile file cannot run code. No tensor may extend beyond its
array. Files from versions before PyTorch 1.6 are not zip files and are refused.
"""

import io
import math
import os
import pickle
import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import ml_dtypes
import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary
from jaxaug.models.weights import safetensors_io
from jaxaug.models.weights.safetensors_io import TensorFiles, unsupported

_STORAGES = {
    "FloatStorage": np.float32, "DoubleStorage": np.float64, "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16, "LongStorage": np.int64,
    "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8,
    "ByteStorage": np.uint8, "BoolStorage": np.bool_,
}  # fmt: skip
_DTYPE = re.compile(r"torch\.(\w+Storage|(u?int|float|complex|bits|q)\w+)")
# The operations that `torch.save` writes.
_OPERATIONS = (
    "APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPERSID BINPUT "
    "BINUNICODE BUILD EMPTY_DICT EMPTY_LIST EMPTY_TUPLE FRAME GLOBAL LONG1 LONG4 "
    "LONG_BINGET LONG_BINPUT MARK MEMOIZE NEWFALSE NEWTRUE NONE PROTO REDUCE SETITEM "
    "SETITEMS SHORT_BINUNICODE STACK_GLOBAL STOP TUPLE TUPLE1 TUPLE2 TUPLE3"
)


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


class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Unpickler in Python for a state dict; it calls nothing that a file names.

    The unpickler in C allocates as much memory as a file announces. Memory use here is
    proportional to the size of the file.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def find_class(self, module: str, name: str) -> Any:
        """Returns the function of a name, or the name of a dtype."""
        full = f"{module:.80}.{name:.80}"
        if full not in _FUNCTIONS and not _DTYPE.fullmatch(full):
            raise pickle.UnpicklingError(f"{full} is not part of a state dict")
        return _FUNCTIONS.get(full, _Named(full))

    def persistent_load(self, pid: Any) -> _Storage:
        """Returns a storage: ("storage", type, key, device, number of elements)."""
        _, kind, key, *_ = pid
        if not isinstance(kind, _Named) or not isinstance(key, str):
            raise TypeError("a storage without type or name")
        name = kind.name.rpartition(".")[2]
        return _Storage(np.dtype(_STORAGES[name]) if name in _STORAGES else name, key)

    def _build(self) -> None:
        self.stack.pop()  # Attributes of the dict, such as versions of modules.

    def _set(self) -> None:
        value = self.stack.pop()
        self._update([self.stack.pop(), value])

    def _set_all(self) -> None:
        self._update(self.pop_mark())

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        # Hashing nested tuples can take forever.
        if not isinstance(target, dict) or not all(
            isinstance(key, str | int) for key in items[::2]
        ):
            raise TypeError("entries have keys that are not names")
        target.update(zip(items[::2], items[1::2], strict=True))

    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.SETITEM[0]] = _set
    dispatch[pickle.SETITEMS[0]] = _set_all


def load(data: bytes) -> Any:
    """Returns the content of a pickle: containers, plain values, and `Stored`.

    Raises:
        pickle.UnpicklingError: it holds anything else, or is damaged.
    """
    known = _OPERATIONS.split()
    try:
        for operation, _, _ in pickletools.genops(data):
            if operation.name not in known:
                raise pickle.UnpicklingError(
                    f"{operation.name} is not part of a state dict"
                )
        return _Unpickler(io.BytesIO(data)).load()
    except (
        *(AttributeError, EOFError, IndexError, KeyError, OverflowError, TypeError),
        *(ValueError, struct.error),
    ) as error:
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any, dtype: Any = None
) -> Stored:
    if not isinstance(storage, _Storage):
        raise TypeError("a tensor without a storage")
    if not all(type(n) is int and n >= 0 for n in (offset, *shape, *strides)):
        raise ValueError("a tensor of negative extent")
    if len(shape) != len(strides):
        raise ValueError("a tensor with strides for other dimensions")
    dtype = dtype or storage.dtype
    return Stored(dtype, storage.key, offset, tuple(shape), tuple(strides))


def _tensor_of_dtype(*arguments: Any) -> Stored:
    return _tensor(*arguments, dtype=arguments[6].name.removeprefix("torch."))


_FUNCTIONS: Mapping[str, Any] = {
    "collections.OrderedDict": dict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    # Tensors of dtypes without a storage class, such as float8, name their dtype.
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
    "torch.storage.UntypedStorage": _Named("torch.storage.UntypedStorage"),
}

FILE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
_FIX = (
    "Get the file again, or take model.safetensors of the same model if it is offered."
)

# Errors of the libraries for damaged files.
_DAMAGE = (
    zipfile.BadZipFile, EOFError, KeyError, NotImplementedError, OSError, OverflowError,
    RuntimeError, ValueError, struct.error, zlib.error,
)  # fmt: skip


class Tensors(TensorFiles):
    """Tensors of one or several files, read on access."""

    def __init__(self, *paths: PathLike):
        """Opens the files, which must hold nothing but tensors.

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
    # Offset and strides are not negative (see `_Unpickler`), so the last element is
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
    """Returns the tensors of a sharded model from its index, next to the shards.

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
