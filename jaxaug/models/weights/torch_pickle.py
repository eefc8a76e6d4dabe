"""A restricted machine for the pickle of a PyTorch state dict.

Python's unpickler calls what a file names, modifies the results, and allocates as much
memory as the file announces. Here, each operation that `torch.save` writes is
implemented, and all others are refused. Memory use is proportional to the size of the
file.
"""

import pickle
import pickletools
import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

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
