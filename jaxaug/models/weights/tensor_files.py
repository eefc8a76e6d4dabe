"""Base of all readers of weights: a mapping from name to tensor, read on access."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import ml_dtypes
import numpy as np

from jaxaug.core.errors import UserError

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
