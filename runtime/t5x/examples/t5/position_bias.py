"""Relative position biases of T5 (Raffel et al. 2020, section 2.1)."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import struct
from flax.linen.partitioning import param_with_axes
from jaxtyping import Array, Float, Int

from t5x.examples.t5.dense import Initializer
from t5x.on_cpu import features as cpu


@struct.dataclass
class ByDistance:
    """Biases that depend on the distance of two positions, for kernels that support it.

    Attributes:
        vector: one value per distance -radius ... radius from a query to a key; larger
            distances use the nearest value.
    """

    vector: Float[Array, "heads distances"]
    qlen: int = struct.field(pytree_node=False)
    klen: int = struct.field(pytree_node=False)

    def of_pairs(self) -> Float[Array, "1 heads {self.qlen} {self.klen}"]:
        """Returns the biases of all pairs of positions."""
        radius = self.vector.shape[1] // 2
        shift = _shifts(self.qlen, self.klen).clip(-radius, radius) + radius
        return _of_pairs(self.vector[:, shift], self.qlen, self.klen)[None]


# Biases of all pairs, or by distance.
Bias = Float[Array, "1 heads length length"] | ByDistance

bias_init = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")


def _bucket_of_distance(num_buckets: int, max_distance: int) -> np.ndarray:
    """Returns the buckets of distances 0 ... max_distance: exact, then logarithmic."""
    exact = num_buckets // 2
    distance = np.arange(max_distance + 1)
    ratio = distance.astype(np.float32) / exact + np.finfo(np.float32).eps
    steps = np.log(ratio) / np.log(max_distance / exact) * (num_buckets - exact)
    far = np.minimum(exact + steps.astype(np.int32), num_buckets - 1)
    return np.where(distance < exact, distance, far)


def relative_position_bucket(
    relative_position: Int[Array, "..."] | Int[np.ndarray, "..."],
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Int[Array, "..."] | Int[np.ndarray, "..."]:
    """Returns the bucket in [0, num_buckets) of (key position - query position).

    If `bidirectional`, half of the buckets are for keys after the query; otherwise such
    keys share bucket 0. Distances of at least `max_distance` share the last bucket.
    """
    distance: Any = -relative_position
    offset: Any = 0
    if bidirectional:
        num_buckets //= 2
        offset = num_buckets * (relative_position > 0)
        distance = abs(distance)
    table: Array | np.ndarray = _bucket_of_distance(num_buckets, max_distance)
    if not isinstance(relative_position, np.ndarray):
        table = jnp.asarray(table)
    return offset + table[distance.clip(0, max_distance)]


def _shifted(
    vector: Float[Array, "heads period"], qlen: int, klen: int
) -> Float[Array, "heads {qlen} {klen}"]:
    """Returns biases of all pairs from those of distances 0 ... klen - 1, -qlen ... -1.

    Repeating the vector and cutting one element shifts each row by one. Neither this
    nor its gradient then handles qlen * klen indices.
    """
    heads, period = vector.shape
    rows = jnp.broadcast_to(vector[:, None], (heads, qlen, period))
    rows = rows.reshape(heads, -1)[:, : qlen * (period - 1)]
    return rows.reshape(heads, qlen, period - 1)[..., :klen]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _looked_up(
    vector: Float[Array, "heads period"], qlen: int, klen: int
) -> Float[Array, "heads {qlen} {klen}"]:
    """Computes `_shifted` by lookup: once on a CPU, which would shift per layer."""
    distance = jnp.arange(klen) - jnp.arange(qlen)[:, None]
    return vector[:, distance % (qlen + klen)]


def _looked_up_forward(vector, qlen, klen):
    return _looked_up(vector, qlen, klen), vector


def _looked_up_backward(qlen, klen, vector, gradient):
    return jax.linear_transpose(lambda x: _shifted(x, qlen, klen), vector)(gradient)


_looked_up.defvjp(_looked_up_forward, _looked_up_backward)


def _shifts(qlen: int, klen: int) -> np.ndarray:
    """Returns the distances 0 ... klen - 1, -qlen ... -1."""
    shift = np.arange(qlen + klen)
    return np.where(shift < klen, shift, shift - qlen - klen)


def _of_pairs(
    vector: Float[Array, "heads period"], qlen: int, klen: int
) -> Float[Array, "heads {qlen} {klen}"]:
    """Returns the biases of all pairs from those of `_shifts`."""
    return (_looked_up if cpu.is_used() else _shifted)(vector, qlen, klen)


class RelativePositionBiases(nn.Module):
    """Learned attention bias for each head and bucket of relative positions.

    Attributes:
        max_distance: distance from which positions share a bucket.
        embedding_init: initializer of the table; T5 uses `bias_init`.
    """

    num_buckets: int
    max_distance: int
    num_heads: int
    dtype: Any
    embedding_init: Initializer = nn.linear.default_embed_init

    def setup(self) -> None:
        self.rel_embedding = param_with_axes(
            "rel_embedding",
            self.embedding_init,
            (self.num_heads, self.num_buckets),
            jnp.float32,
            axes=("heads", "relpos_buckets"),
        )

    def _biases(
        self, relative_position: Array | np.ndarray, bidirectional: bool
    ) -> Float[Array, "heads ..."]:
        buckets = relative_position_bucket(
            relative_position, bidirectional, self.num_buckets, self.max_distance
        )
        return jnp.asarray(self.rel_embedding)[:, buckets]

    def __call__(
        self, qlen: int, klen: int, bidirectional: bool = True, decode: bool = False
    ) -> Float[Array, "1 heads {qlen} {klen}"]:
        """Returns biases for all positions of two sequences with the same start.

        With `decode` they are stored as `cached_bias` in the collection `cache`, and
        read from there in later calls.

        Raises:
            ValueError: `decode` is used during initialization, for bidirectional
                biases, or with a cache of other lengths.
        """
        if not decode:
            return self._all_pairs(qlen, klen, bidirectional)
        if bidirectional:
            raise ValueError(
                "bidirectional RelativePositionBiases are not supported when "
                "`decode=True`. Keys after a query are not known yet: give "
                "bidirectional=False."
            )
        if self.is_initializing():
            raise ValueError(
                "decode-mode cannot be enabled during init. use model.apply to "
                "initialize the decoding cache. In init it would keep the biases of "
                "parameters that are replaced later."
            )
        if not self.has_variable("cache", "cached_bias"):
            biases = self._all_pairs(qlen, klen, bidirectional)
            self.put_variable("cache", "cached_bias", biases)
        cached: Array = self.get_variable("cache", "cached_bias")
        expected = (1, self.num_heads, qlen, klen)
        if cached.shape != expected:
            raise ValueError(
                f"The cached relative position attention bias was expected to have "
                f"shape {expected} but instead has the shape {cached.shape}."
            )
        return cached

    def _all_pairs(
        self, qlen: int, klen: int, bidirectional: bool
    ) -> Float[Array, "1 heads {qlen} {klen}"]:
        vector = self._biases(_shifts(qlen, klen), bidirectional)
        # The cast comes last: the gradient adds thousands of pairs to one entry, which
        # in bfloat16 on a GPU would be slow and imprecise.
        return _of_pairs(vector, qlen, klen)[None].astype(self.dtype)

    def by_distance(self, qlen: int, klen: int, bidirectional: bool) -> ByDistance:
        """Returns biases by distance for two sequences with the same start."""
        distances = np.arange(-self.max_distance, self.max_distance + 1)
        return ByDistance(self._biases(distances, bidirectional), qlen, klen)

    def at(
        self, positions: Int[Array, "rows queries"], klen: int, bidirectional: bool
    ) -> Float[Array, "rows heads queries {klen}"]:
        """Returns biases of queries at given positions to the keys 0 ... klen - 1."""
        relative = jnp.arange(klen) - positions[..., None]
        biases = jnp.moveaxis(self._biases(relative, bidirectional), 0, 1)
        return biases.astype(self.dtype)
