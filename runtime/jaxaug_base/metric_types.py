"""Metrics, values, and iterators with the interface of clu, for runs without clu."""

import collections.abc
import dataclasses
from typing import Any, Self

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num


@dataclasses.dataclass
class Scalar:
    """A number."""

    value: Any


@dataclasses.dataclass
class Text:
    """A text."""

    value: str


@dataclasses.dataclass
class Image:
    """Images [number, height, width, channels]."""

    value: Any


@dataclasses.dataclass
class Audio:
    """Sounds [number, time, channels] from -1 to 1, and their samples a second."""

    value: Any
    sample_rate: int


@dataclasses.dataclass
class Histogram:
    """Numbers, and how many buckets to count them in."""

    value: Any
    num_buckets: int


class DatasetIterator(collections.abc.Iterator):
    """An iterator of batches; `save` and `restore` its position if it has one."""


@flax.struct.dataclass
class Metric:
    """A value that is computed from sums over batches.

    Subclasses define `from_model_output`, `merge`, and `compute`.
    """

    def compute_value(self) -> Scalar:
        """Returns the result as a value for metric writers."""
        return Scalar(self.compute())  # type: ignore[attr-defined]

    def reduce(self) -> Self:
        """Merges metrics that are stacked along their first axis."""
        parts = [
            jax.tree.map(lambda x, i=i: x[i], self)
            for i in range(len(jax.tree.leaves(self)[0]))
        ]
        first, *rest = parts
        for part in rest:
            first = first._reduce_merge(part)
        return first

    def _reduce_merge(self, other: Self) -> Self:
        return self.merge(other)  # type: ignore[attr-defined]


@flax.struct.dataclass
class Average(Metric):
    """Mean of all values that a mask does not hide."""

    total: Float[Array, ""]
    count: Int[Array, ""]

    @classmethod
    def empty(cls) -> Self:
        return cls(total=jnp.array(0, jnp.float32), count=jnp.array(0, jnp.int32))

    @classmethod
    def from_model_output(
        cls, values: Num[Array, "..."], mask: Num[Array, "..."] | None = None, **_: Any
    ) -> Self:
        """Averages values; a mask [batch] or of their shape hides some with 0."""
        values = jnp.asarray(values)
        mask = jnp.ones(values.shape, bool) if mask is None else jnp.asarray(mask)
        mask = mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))
        seen = jnp.broadcast_to(mask, values.shape).astype(bool)
        return cls(
            total=jnp.where(seen, values, 0).sum(),
            count=seen.sum(dtype=jnp.int32),
        )

    def merge(self, other: Self) -> Self:
        return type(self)(
            total=self.total + other.total, count=self.count + other.count
        )

    def compute(self) -> Float[Array, ""]:
        return self.total / self.count


@flax.struct.dataclass
class Accuracy(Average):
    """Share of labels [...] whose logits [..., classes] are the largest."""

    @classmethod
    def from_model_output(  # type: ignore[override]
        cls,
        *,
        logits: Float[Array, "..."],
        labels: Int[Array, "..."],
        **others: Any,
    ) -> Self:
        right = (logits.argmax(axis=-1) == labels).astype(jnp.float32)
        return super().from_model_output(right, **others)


@flax.struct.dataclass
class LastValue(Average):
    """The value of the last step; devices are averaged."""

    @classmethod
    def from_model_output(  # type: ignore[override]
        cls, value: Num[Array, "..."], mask: Num[Array, "..."] | None = None, **_: Any
    ) -> Self:
        return super().from_model_output(value, mask)

    def merge(self, other: Self) -> Self:
        return other

    def _reduce_merge(self, other: Self) -> Self:
        return Average.merge(self, other)

    @property
    def value(self) -> Float[Array, ""]:
        return self.compute()
