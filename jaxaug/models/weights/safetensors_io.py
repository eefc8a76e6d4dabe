"""Reads and writes safetensors files; single files and shards are read lazily."""

import os
import re
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary, read_json, shown

_DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
"""Dtypes of parameters. Integers and shorter floats need scales to be read."""


def unsupported(dtype: Any, name: str, source: Any) -> UserError:
    """Returns the error for a tensor of a dtype that is not supported."""
    return UserError(
        f"{source}: tensor {name} has dtype {dtype}, but weights must be float16, "
        "bfloat16, float32, or float64. Take the model in one of these, or load it "
        "with the library that wrote it and save it again in bfloat16."
    )


def check_dtype(array: np.ndarray, name: str, source: Any) -> None:
    """Checks that an array can be a parameter; raises `UserError` if not."""
    if array.dtype not in _DTYPES:
        raise unsupported(array.dtype, name, source)


class TensorFiles(Mapping[str, np.ndarray]):
    """Tensors of open files; a context manager that closes the files on exit."""

    _places: Mapping[str, Any]
    """Name of a tensor -> its location; the classes of each format set it."""

    def close(self) -> None:
        """Closes the files, if there is anything to close."""

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FIX = "Get the file again; a download may have stopped half-way."

# Importing ml_dtypes registers the name "bfloat16" in NumPy, which the reader needs.
_IN_NUMPY = re.compile("B?F16|F32|F64|[IU](8|16|32|64)|BOOL")
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Tensors(TensorFiles):
    """Tensors of one or several safetensors files, read on access."""

    def __init__(self, paths: Mapping[str, PathLike] | PathLike):
        """Opens a file, or the files of a mapping from tensor to file.

        Raises:
            UserError: a file is missing or cut off, is not a safetensors file, or lacks
                an expected tensor.
        """
        self._files: dict[str, Any] = {}
        self._places: dict[str, str]
        if not isinstance(paths, Mapping):
            self._places = dict.fromkeys(self._open(paths).keys(), os.fspath(paths))
            return
        self._places = {name: os.fspath(path) for name, path in paths.items()}
        there = {
            path: set(self._open(path).keys())
            for path in sorted(set(self._places.values()))
        }
        for name, file in self._places.items():
            if name not in there[file]:
                raise UserError(f"{file} lacks the tensor {name}. {FIX}")

    def _open(self, path: PathLike) -> Any:
        check_ordinary(path, FIX)
        try:
            file = safetensors.safe_open(os.fspath(path), framework="np")
        except FileNotFoundError:
            raise UserError(f"{path}: no such file. {FIX}") from None
        except (safetensors.SafetensorError, OSError) as error:
            if unknown := re.search("unknown variant `(.*?)`", str(error)):
                raise unsupported(unknown[1], "of the header", path) from None
            raise UserError(
                f"{path} is cut off, or is not a safetensors file ({error!s:.200}). "
                f"{FIX}"
            ) from None
        self._files[os.fspath(path)] = file
        return file

    def __getitem__(self, name: str) -> np.ndarray:
        path = self._places[name]
        try:
            return self._files[path].get_tensor(name)
        except (AttributeError, safetensors.SafetensorError, TypeError) as error:
            dtype = self._files[path].get_slice(name).get_dtype()
            if not _IN_NUMPY.fullmatch(dtype):
                raise unsupported(dtype, name, path) from None
            raise UserError(
                f"{path}: tensor {name} cannot be read ({error!s:.200}). {FIX}"
            ) from None

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata in the headers of the files."""
        found: dict[str, str] = {}
        for file in self._files.values():
            found |= file.metadata() or {}
        return found

    def close(self) -> None:
        """Closes the files."""
        self._files.clear()


def open_index(path: PathLike) -> Tensors:
    """Returns the tensors of a sharded model by its `model.safetensors.index.json`.

    Raises:
        UserError: the index is missing, or a shard is missing, damaged, or inconsistent
            with the index.
    """
    folder = epath.Path(path).parent
    return Tensors({name: folder / file for name, file in shards_of(path, FIX).items()})


def shards_of(path: PathLike, fix: str) -> dict[str, str]:
    """Returns tensor -> file name of an index, whose shards lie next to it.

    Raises:
        UserError: the index is missing, or names anything but files next to it.
    """
    index = read_json(path, fix)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise UserError(f"{path} has no weight_map from tensors to files. {fix}")
    for name, file in shards.items():
        is_name = isinstance(file, str) and file == os.path.basename(file)
        if not is_name or file in ("", ".", ".."):
            raise UserError(
                f"{path}: weight_map has {shown(file)} for {name}, but must have the "
                f"name of a file next to it. {fix}"
            )
    return shards


def write(
    path: PathLike,
    tensors: Mapping[str, np.ndarray],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Writes one file, which PyTorch's loaders can read; `notes` go into its header.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    metadata = {"format": "pt", **(notes or {})}
    try:
        safetensors.numpy.save_file(dict(tensors), os.fspath(path), metadata=metadata)
    except safetensors.SafetensorError as error:
        if not (match := re.search(r"os error ([0-9]+)", str(error))):
            raise
        code = int(match[1])
        raise OSError(code, os.strerror(code), os.fspath(path)) from None
