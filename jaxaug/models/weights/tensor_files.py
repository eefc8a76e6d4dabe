"""The mapping that every reader of weights is: name -> tensor, read when asked for."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np


class TensorFiles(Mapping[str, np.ndarray]):
    """Tensors of open files; a context manager that closes the files at its end."""

    _places: Mapping[str, Any]
    """Name of a tensor -> where it is; set by the classes of each format."""

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
