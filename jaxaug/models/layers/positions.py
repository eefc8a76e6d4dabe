"""Token positions: learned, sinusoidal, and rotary embeddings, and their counter."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen.partitioning import param_with_axes
from jaxtyping import Array, Float, Int, Shaped

from jaxaug.core.errors import UserError
from jaxaug.models.layers.dense import kernel_init


class LearnedPositions(nn.Module):
    """Table of position embeddings, float32 [num_positions, features].

    Attributes:
        num_positions: rows of the table.
        features: width of a row.
        offset: rows before position 0 (2 for BART, padding id + 1 for RoBERTa).
        dtype: dtype of the result.
    """

    num_positions: int
    features: int
    offset: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(
        self, positions: Int[Array, "rows length"]
    ) -> Float[Array, "rows length features"]:
        """Embeds positions.

        Raises:
            UserError: there are more columns than positions.
        """
        limit = self.num_positions - self.offset
        if positions.shape[-1] > limit:
            raise UserError(
                f"the model has {limit} positions, but the sequences are "
                f"{positions.shape[-1]} long: shorten them (task_feature_lengths)"
            )
        table = param_with_axes(
            "embedding",
            kernel_init,
            (self.num_positions, self.features),
            jnp.float32,
            axes=("abspos_buckets", "embed"),
        )
        # A traced array cannot index NumPy parameters.
        rows = jnp.asarray(table)[positions + self.offset]
        return jnp.asarray(rows, self.dtype)


def sinusoidal_positions(
    length: int, features: int
) -> Float[np.ndarray, "length features"]:
    """Returns the float32 table of Vaswani et al. (2017), section 3.5.

    Sines and cosines do not alternate as in the paper: all sines come first. Marian and
    Pegasus both have this layout.
    """
    rates = 10000.0 ** (-2.0 * np.arange((features + 1) // 2) / features)
    angles = np.arange(length)[:, None] * rates
    cosines = np.cos(angles[:, : features // 2])
    return np.concatenate([np.sin(angles), cosines], axis=1).astype(np.float32)


class Positions(nn.Module):
    """Positions of tokens; while decoding, a counter `cache_index` in the cache."""

    @nn.compact
    def __call__(
        self,
        tokens: Shaped[Array, "rows length"],
        given: Int[Array, "rows length"] | None = None,
        *,
        decode: bool = False,
        prefill_lengths: Int[Array, " rows"] | None = None,
    ) -> Int[Array, "#rows length"]:
        """Returns `given` (packed rows) or 0, 1, ..., from the counter on in a step."""
        counted = jnp.arange(tokens.shape[1])[None]
        if prefill_lengths is not None:
            index = prefill_lengths.astype(jnp.int32)
            self.put_variable("cache", "cache_index", index)
            return counted
        if not decode:
            return counted if given is None else given
        exists = self.has_variable("cache", "cache_index")
        position = self.variable("cache", "cache_index", jnp.zeros, (), jnp.int32)
        if not exists:
            return counted
        here = position.value.reshape(-1, 1) + counted
        position.value = position.value + tokens.shape[1]
        return here if given is None else given


class RotaryScaling(NamedTuple):
    """Scaling of rotary positions for longer texts.

    Attributes:
        kind: "linear" slows all rates down (Chen et al. 2023); "llama3" slows only slow
            ones down.
        factor: divisor of the rates.
        low_frequency: for "llama3": turns within `original_positions` below which a
            rate is slowed down fully.
        high_frequency: for "llama3": turns above which a rate does not change; rates in
            between are interpolated.
        original_positions: for "llama3": longest sequence of pre-training.
    """

    kind: str
    factor: float
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    original_positions: int = 8192

    def scaled(self, rates: Float[Array, " pairs"]) -> Float[Array, " pairs"]:
        """Returns the scaled rates."""
        slowed = rates / self.factor
        if self.kind == "linear":
            return slowed
        turns = self.original_positions * rates / (2 * math.pi)
        width = self.high_frequency - self.low_frequency
        kept = jnp.clip((turns - self.low_frequency) / width, 0.0, 1.0)
        return kept * rates + (1 - kept) * slowed


def rotary(
    x: Float[Array, "rows length heads dim"],
    positions: Int[Array, "#rows length"],
    theta: float,
    scaling: RotaryScaling | None = None,
) -> Float[Array, "rows length heads dim"]:
    """Returns the rotary embedding of Su et al. (2021), equation 34, float32 angles.

    The pairs that turn together are (i, i + dim / 2), unlike in the paper. Published
    Llama weights in Hugging Face format have this layout.
    """
    half = x.shape[-1] // 2
    rates = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    if scaling is not None:
        rates = scaling.scaled(rates)
    angles = positions[..., None, None].astype(jnp.float32) * rates
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )
