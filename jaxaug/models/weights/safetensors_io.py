"""Safetensors files: lazily read, whole or in shards, and written."""

import os
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_ordinary, read_json, shown
from jaxaug.models.weights.tensor_files import TensorFiles

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FIX = "Get the file again; a download may have stopped half-way."

# NumPy knows the name "bfloat16", which the reader asks for, once it is registered.
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Tensors(TensorFiles):
    """The tensors of one or several safetensors files, read when asked for."""

    def __init__(self, paths: Mapping[str, PathLike] | PathLike):
        """Opens a file, or the files of a mapping from tensor to file.

        Raises:
            UserError: a file is missing, cut off or no safetensors file, or lacks a
                tensor that it should hold.
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
                raise UserError(f"{file}: lacks the tensor {name}. {FIX}")

    def _open(self, path: PathLike) -> Any:
        check_ordinary(path, FIX)
        try:
            file = safetensors.safe_open(os.fspath(path), framework="np")
        except FileNotFoundError:
            raise UserError(f"{path}: no such file. {FIX}") from None
        except (safetensors.SafetensorError, OSError) as error:
            raise UserError(
                f"{path}: is cut off or no safetensors file ({error!s:.200}). {FIX}"
            ) from None
        self._files[os.fspath(path)] = file
        return file

    def __getitem__(self, name: str) -> np.ndarray:
        path = self._places[name]
        try:
            return self._files[path].get_tensor(name)
        except (safetensors.SafetensorError, TypeError) as error:
            raise UserError(
                f"{path}: tensor {name} cannot be read ({error!s:.200}). {FIX}"
            ) from None

    @property
    def metadata(self) -> dict[str, str]:
        """What the headers of the files say besides the tensors."""
        found: dict[str, str] = {}
        for file in self._files.values():
            found |= file.metadata() or {}
        return found

    def close(self) -> None:
        """Closes the files."""
        self._files.clear()


def open_index(path: PathLike) -> Tensors:
    """The tensors of a sharded model.

    Args:
        path: `model.safetensors.index.json`, beside its shards.

    Raises:
        UserError: no index, or a shard is missing, damaged or not as the index says.
    """
    folder = epath.Path(path).parent
    return Tensors({name: folder / file for name, file in shards_of(path, FIX).items()})


def shards_of(path: PathLike, fix: str) -> dict[str, str]:
    """The table of an index, which lies beside its shards: tensor -> name of a file.

    Args:
        path: the index of a sharded model, of safetensors or of PyTorch files.
        fix: ends every error message.

    Raises:
        UserError: no index, or it names anything but files beside it.
    """
    index = read_json(path, fix)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise UserError(f"{path}: has no weight_map from tensors to files. {fix}")
    for name, file in shards.items():
        is_name = isinstance(file, str) and file == os.path.basename(file)
        if not is_name or file in ("", ".", ".."):
            raise UserError(
                f"{path}: weight_map has {shown(file)} for {name}, expected the name of "
                f"a file beside it. {fix}"
            )
    return shards


def write(
    path: PathLike,
    tensors: Mapping[str, np.ndarray],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Writes one file, readable by PyTorch's loaders too; `notes` go into its header.

    Raises:
        OSError: the file cannot be written, as on a full disk.
    """
    metadata = {"format": "pt", **(notes or {})}
    try:
        safetensors.numpy.save_file(dict(tensors), os.fspath(path), metadata=metadata)
    except safetensors.SafetensorError as error:
        if not (match := re.search(r"os error ([0-9]+)", str(error))):
            raise
        code = int(match[1])
        raise OSError(code, os.strerror(code), os.fspath(path)) from None
