"""LSTM layers and shared parts of LSTM decoders.

Gates, weights, and biases follow torch, as in the program of the DiPS paper.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from t5x.examples.t5 import layers as t5_layers

from jaxaug.models.layers import linear

Tokens = Int[Array, "batch length"]
State = tuple[Float[Array, "batch hidden"], Float[Array, "batch hidden"]]
# Uniform in [-1, 1] / sqrt(fan_in).
_kernel_init = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


class LstmLayer(nn.Module):
    """One layer in one direction; the order of gates is input, forget, cell, output."""

    hidden_dim: int
    reverse: bool = False
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch length features"],
        is_token: Bool[Array, "batch length"],
        state: State,
    ) -> tuple[Float[Array, "batch length hidden"], State]:
        """Returns the outputs, which are 0 at padding, and the final states."""
        gates = 4 * self.hidden_dim

        def parameter(name: str, init: Any, *shape: int) -> Array:
            axes = ("embed", "mlp")[-len(shape) :]
            array = param_with_axes(name, init, shape, jnp.float32, axes=axes)
            return jnp.asarray(array, self.dtype)

        kernel = parameter("input_kernel", _kernel_init, x.shape[-1], gates)
        recurrent = parameter("recurrent_kernel", _kernel_init, self.hidden_dim, gates)
        bias = parameter("input_bias", nn.initializers.zeros, gates)
        bias = bias + parameter("recurrent_bias", nn.initializers.zeros, gates)
        projected = jnp.asarray(x, self.dtype) @ kernel + bias

        def step(state: State, inputs: tuple[Array, Array]) -> tuple[State, Array]:
            hidden, cell = state
            now, real = inputs
            now = now + jnp.asarray(hidden, self.dtype) @ recurrent
            into, forget, new, out = jnp.split(now.astype(jnp.float32), 4, axis=-1)
            next_cell = nn.sigmoid(forget) * cell + nn.sigmoid(into) * jnp.tanh(new)
            next_hidden = nn.sigmoid(out) * jnp.tanh(next_cell)
            state = (
                jnp.where(real, next_hidden, hidden),
                jnp.where(real, next_cell, cell),
            )
            return state, jnp.where(real, next_hidden, 0.0)

        inputs = (
            jnp.moveaxis(projected, 1, 0),
            jnp.moveaxis(is_token, 1, 0)[..., None],
        )
        state, outputs = lax.scan(step, state, inputs, reverse=self.reverse)
        return jnp.moveaxis(outputs, 0, 1), state


class Sizes(Protocol):
    """The sizes in the configurations of LSTM networks; see `lstm.Config`."""

    vocab_size: int
    dtype: Any
    emb_dim: int
    hidden_dim: int
    num_layers: int
    dropout_rate: float
    embedding_range: float


def embedder(config: Sizes) -> t5_layers.Embed:
    """Returns the embedding of words."""

    def init(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        bound = config.embedding_range
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return t5_layers.Embed(
        config.vocab_size, config.emb_dim, dtype=config.dtype, embedding_init=init
    )


def output(config: Sizes) -> nn.Module:
    """Returns the output layer: states of a decoder -> logits of words in float32."""
    return linear(
        config.vocab_size,
        ("embed", "vocab"),
        use_bias=True,
        dtype=config.dtype,
        output_dtype=jnp.float32,
        name="output",
    )


def run_layers(
    config: Sizes,
    x: Float[Array, "batch length emb"],
    states: Float[Array, "batch layers 2 hidden"],
    deterministic: bool,
    beside: Float[Array, "batch extra"] | None = None,
) -> tuple[Float[Array, "batch length hidden"], Float[Array, "batch layers 2 hidden"]]:
    """Applies the layers of a decoder: `layers_0`, ... of the calling module."""
    is_token = jnp.ones(x.shape[:2], jnp.bool_)
    last = []
    for i in range(config.num_layers):
        x = nn.Dropout(config.dropout_rate)(x, deterministic=deterministic)
        if i == 0 and beside is not None:
            spread = jnp.broadcast_to(beside[:, None], (*x.shape[:2], beside.shape[-1]))
            x = jnp.concatenate([x, spread.astype(x.dtype)], axis=-1)
        layer = LstmLayer(config.hidden_dim, False, config.dtype, name=f"layers_{i}")
        x, state = layer(x, is_token, (states[:, i, 0], states[:, i, 1]))
        last.append(jnp.stack(state, axis=1))
    return x, jnp.stack(last, axis=1)
