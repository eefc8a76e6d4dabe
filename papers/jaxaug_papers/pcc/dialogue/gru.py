"""Gated recurrent units, and linear layers with the same initialization.

They compute in float32. Each parameter declares its logical axes in `params_axes`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes
from jax import lax
from jaxtyping import Array, Bool, Float

Vectors = Float[Array, "batch features"]


def uniform(bound: float) -> Callable[..., Array]:
    """Returns an initializer that is uniform in [-bound, bound]."""

    def draw(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return draw


class Affine(nn.Module):
    """A linear layer with bias and uniform initial weights [features in, features]."""

    features: int
    initial_range: float
    axis: str = "mlp"

    @nn.compact
    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... out"]:
        shape, axes = (x.shape[-1], self.features), ("embed", self.axis)
        init = uniform(self.initial_range)
        kernel = param_with_axes("kernel", init, shape, jnp.float32, axes=axes)
        bias = param_with_axes(
            "bias", nn.initializers.zeros, shape[1:], jnp.float32, axes=axes[1:]
        )
        return x @ kernel + bias


class Gru(nn.Module):
    """A layer of gated recurrent units (Cho et al., 2014) with masks."""

    hidden_dim: int
    initial_range: float
    reverse: bool = False

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch length features"],
        reads: Bool[Array, "batch length"],
        forgets: Bool[Array, "batch length"] | None = None,
        state: Vectors | None = None,
    ) -> tuple[Float[Array, "batch length hidden"], Vectors]:
        """Returns the state after each position, and the final state.

        Args:
            reads: positions where the state is updated.
            forgets: positions where the state is reset to 0; None means nowhere.
        """
        size = self.hidden_dim

        def kernel(name: str, rows: int, columns: int) -> Array:
            return param_with_axes(
                name,
                uniform(self.initial_range),
                (rows, columns),
                jnp.float32,
                axes=("embed", "mlp"),
            )

        projected = Affine(3 * size, self.initial_range, name="input")(x)
        gates = kernel("gate_kernel", size, 2 * size)
        new = kernel("new_kernel", size, size)
        zeros = jnp.zeros((x.shape[0], size), jnp.float32)
        start = zeros if state is None else state
        if forgets is None:
            forgets = jnp.zeros_like(reads)

        def step(state: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
            now, read, forget = inputs
            both = nn.sigmoid(now[:, : 2 * size] + state @ gates)
            reset, update = jnp.split(both, 2, axis=-1)
            fresh = jnp.tanh(now[:, 2 * size :] + (reset * state) @ new)
            after = update * state + (1 - update) * fresh
            state = jnp.where(read[:, None], after, state)
            state = jnp.where(forget[:, None], 0.0, state)
            return state, state

        inputs = tuple(jnp.moveaxis(part, 1, 0) for part in (projected, reads, forgets))
        last, states = lax.scan(step, start, inputs, reverse=self.reverse)
        return jnp.moveaxis(states, 0, 1), last
