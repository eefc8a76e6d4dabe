"""Parses a GGUF file: metadata, and tensors as they are stored.

The reader of the library `gguf` trusts the numbers in a file and makes an object for
each element of a list. A small file can therefore fill the memory. This module first
compares each number with the length of the file. Source: the GGUF specification in the
ggml repository.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxaug.core.files import PathLike, check_ordinary
from jaxaug.models.weights.tensor_files import unsupported

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MOST_DIMENSIONS = 4
_DEEPEST = 4
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "<u1",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
# Fewest bytes of a text (its length) and of a list (type and length).
_LEAST = {_STRING: 8, _ARRAY: 12}
_PLAIN = {
    "F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4",
    "I64": "<i8",
}  # fmt: skip


class Tensor(NamedTuple):
    """A tensor as it is stored.

    Attributes:
        name: name in the file.
        tensor_type: `gguf.GGMLQuantizationType`.
        data: numbers of that type, or rows of bytes if the tensor is quantized.
    """

    name: str
    tensor_type: Any
    data: np.ndarray


class Parts(NamedTuple):
    """Metadata by key (lists of numbers are NumPy arrays), and tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]


def read(path: PathLike) -> Parts:
    """Returns the parts of a file; tensors stay on disk until they are used.

    Raises:
        OSError: the file is missing.
        ValueError: the file is cut off or damaged, or is not a GGUF file.
    """
    check_ordinary(path, "Get the model again.")
    cursor = _Cursor(np.memmap(path, mode="r").view(np.ndarray))
    if cursor.take(4).tobytes() != _MAGIC:
        raise ValueError("GGUF magic invalid")
    version = cursor.number("<u4")
    if version not in _VERSIONS:
        raise ValueError(f"version {version}, but must be one of {_VERSIONS}")
    num_tensors, num_fields = cursor.number("<u8"), cursor.number("<u8")
    metadata: dict[str, Any] = {}
    cursor.check_room(num_fields, _LEAST[_STRING] + 5)
    for _ in range(num_fields):
        key = cursor.text()
        if key in metadata:
            raise ValueError(f"{key!r:.80} occurs twice")
        metadata[key] = cursor.value(cursor.number("<u4"))
    cursor.check_room(num_tensors, _LEAST[_STRING] + 16)
    infos = [_info(cursor) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"general.alignment is {alignment!r:.80}, not a power of two")
    start = -(-cursor.place // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, kind, offset in infos:
        if name in tensors:
            raise ValueError(f"tensor {name!r:.80} occurs twice")
        tensors[name] = _tensor(cursor, name, shape, kind, start + offset)
    return Parts(metadata, tensors)


class _Cursor:
    """A position in a file; reading beyond the end raises an error."""

    def __init__(self, data: np.ndarray):
        self._data = data
        self.place = 0

    def check_room(self, count: int, size: int) -> None:
        """Checks that `count` items of at least `size` bytes may follow."""
        if count * size > len(self._data) - self.place:
            raise ValueError(f"{count} entries at byte {self.place} exceed the file")

    def take(self, size: int) -> np.ndarray:
        """Returns the next bytes."""
        self.check_room(size, 1)
        self.place += size
        return self._data[self.place - size : self.place]

    def at(self, place: int, size: int) -> np.ndarray:
        """Returns bytes at any position."""
        self.place = place
        return self.take(size)

    def number(self, dtype: str) -> Any:
        """Returns the next number."""
        return self.take(np.dtype(dtype).itemsize).view(dtype)[0].item()

    def text(self) -> str:
        """Returns the next text, which follows its length."""
        return self.take(self.number("<u8")).tobytes().decode("utf-8")

    def value(self, kind: int, depth: int = 0) -> Any:
        """Returns the next value of a type in the specification."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._list(depth + 1)
        if kind not in _NUMBERS:
            raise ValueError(f"a value of unknown type {kind} at byte {self.place}")
        number = self.number(_NUMBERS[kind])
        return bool(number) if kind == _BOOL else number

    def _list(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"lists at byte {self.place} are nested too deeply")
        kind, count = self.number("<u4"), self.number("<u8")
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            self.check_room(count, dtype.itemsize)
            return self.take(count * dtype.itemsize).view(dtype)
        self.check_room(count, _LEAST.get(kind, 1))
        return [self.value(kind, depth) for _ in range(count)]


def _info(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Returns name, shape, type number, and offset of a tensor."""
    name, dimensions = cursor.text(), cursor.number("<u4")
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError(f"tensor {name!r:.80} has {dimensions} dimensions")
    # The file stores the innermost dimension first.
    shape = tuple(cursor.number("<u8") for _ in range(dimensions))[::-1]
    return name, shape, cursor.number("<u4"), cursor.number("<u8")


def _tensor(
    cursor: _Cursor, name: str, shape: tuple[int, ...], kind: int, place: int
) -> Tensor:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        tensor_type = GGMLQuantizationType(kind)
    except ValueError:
        dtype = f"{kind} in the GGUF specification"
        raise unsupported(dtype, name[:80], "GGUF file") from None
    block, size = GGML_QUANT_SIZES[tensor_type]
    if not shape or 0 in shape or shape[-1] % block:
        raise ValueError(f"tensor {name!r:.80} of shape {shape}")
    data = cursor.at(place, math.prod(shape) // block * size)
    if plain := _PLAIN.get(tensor_type.name):
        return Tensor(name, tensor_type, data.view(plain).reshape(shape))
    rows = (*shape[:-1], shape[-1] // block * size)
    return Tensor(name, tensor_type, data.reshape(rows))


def halves_first(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undoes the row order of queries and keys, [heads * dim, ...].

    Rotary positions of GGUF pair adjacent rows of a head. Hugging Face (and
    `layers.rotary`) pairs row i of the first half with row i of the second.
    """
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
