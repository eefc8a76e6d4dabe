"""Base of all readers of weights: a mapping from name to tensor, read on access."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np


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
