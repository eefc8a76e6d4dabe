"""Arrays that stay on disk until their values are requested."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp
from jaxtyping import Shaped


class LazyArray:
    """An array with known shape and dtype, whose values `get` fetches.

    numpy functions accept it (`__array__`), so state transformation functions may
    compute with leaves of a checkpoint as if they were loaded.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, get_fn: Callable[[], np.ndarray]
    ):
        self.shape = tuple(int(n) for n in shape)
        self.dtype = jnp.dtype(dtype)
        self._get_fn = get_fn

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    def get(self) -> Shaped[np.ndarray, "..."]:
        """Fetches the values, cast to `dtype`."""
        return np.asarray(self._get_fn()).astype(self.dtype, copy=False)

    def astype(self, dtype: Any) -> "LazyArray":
        """Returns the same values in another dtype, still lazy."""
        return LazyArray(self.shape, dtype, self.get)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = np.asarray(self.get())
        return value if dtype is None else value.astype(dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype.name})"
