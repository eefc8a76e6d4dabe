"""Layers without attention: linear maps, norms, the MLP block, and the embedding table.

Parameters are float32, whatever the dtype of the computation. Each declares its logical
axes in the collection `params_axes`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes
from jax import lax
from jaxtyping import Array, Float, Int, Shaped
from t5x.examples.t5.layers import DenseGeneral, MlpBlock
from t5x.on_cpu import features as cpu
from t5x.on_cpu import products

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion

# Finite, so that logits can still be added and compared without NaN.
MASKED = -1e10

# The initial standard deviation of all these families (`initializer_range`).
kernel_init = nn.initializers.normal(0.02)

# Keys are the names in Hugging Face configurations.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": functools.partial(nn.gelu, approximate=False),
    "gelu_fast": nn.gelu,
    "gelu_new": nn.gelu,
    "gelu_pytorch_tanh": nn.gelu,
    "linear": lambda x: x,
    "quick_gelu": lambda x: x * nn.sigmoid(1.702 * x),
    "relu": nn.relu,
    "silu": nn.silu,
    "swish": nn.silu,
    "tanh": nn.tanh,
}


def activation(name: str) -> Callable[[Array], Array]:
    """Returns the activation function of a name in a Hugging Face configuration.

    Raises:
        UserError: the name is unknown.
    """
    if name not in ACTIVATIONS:
        raise UserError(
            f"activation {name!r} is not known; {suggestion(name, ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


_named = activation


def linear(
    features: int | Sequence[int],
    kernel_axes: tuple[str, ...],
    axis: int | Sequence[int] = -1,
    use_bias: bool = False,
    dtype: Any = jnp.float32,
    output_dtype: Any = None,
    name: str | None = None,
) -> DenseGeneral:
    """Returns a linear map over one or several axes, with or without bias.

    See `t5x.examples.t5.layers.DenseGeneral` for the arguments. The kernel has one axis
    per contracted and output axis.
    """
    return DenseGeneral(
        features,
        axis,
        dtype,
        kernel_init,
        kernel_axes,
        use_bias,
        output_dtype,
        name=name,
    )


class LayerNorm(nn.Module):
    """Norm of Ba et al. (2016), equation 3, with scale and bias; float32 statistics."""

    epsilon: float = 1e-5
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Float[Array, "... emb"]) -> Float[Array, "... emb"]:
        x = jnp.asarray(x, jnp.float32)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(lax.square(centred), axis=-1, keepdims=True)
        scaled = centred * lax.rsqrt(variance + self.epsilon) * _scale(self, x)
        bias = param_with_axes(
            "bias", nn.initializers.zeros, x.shape[-1:], jnp.float32, axes=("embed",)
        )
        return jnp.asarray(scaled + bias, self.dtype)


class RMSNorm(nn.Module):
    """Root-mean-square norm of Zhang and Sennrich (2019); float32 statistics.

    Attributes:
        epsilon: added to the mean square.
        dtype: dtype of the result.
        offset: added to the scale, which then starts at 1 - offset; 1 for Gemma.
        axis: logical name of the normalized axis.
    """

    epsilon: float = 1e-6
    dtype: Any = jnp.float32
    offset: float = 0.0
    axis: str = "embed"

    @nn.compact
    def __call__(self, x: Float[Array, "... emb"]) -> Float[Array, "... emb"]:
        x = jnp.asarray(x, jnp.float32)
        mean_square = jnp.mean(lax.square(x), axis=-1, keepdims=True)
        normalised = x * lax.rsqrt(mean_square + self.epsilon)
        scale = _scale(self, x, 1.0 - self.offset, self.axis)
        return jnp.asarray(normalised * (self.offset + scale), self.dtype)


def _scale(
    module: nn.Module, x: Array, initial: float = 1.0, axis: str = "embed"
) -> Float[Array, " emb"]:
    return param_with_axes(
        "scale",
        nn.initializers.constant(initial),
        x.shape[-1:],
        jnp.float32,
        axes=(axis,),
        module=module,
    )


def softcap(x: Float[Array, "..."], cap: float | None) -> Float[Array, "..."]:
    """Returns cap * tanh(x / cap), which stays below the cap; x if cap is None."""
    return x if cap is None else cap * jnp.tanh(x / cap)


def mlp(
    mlp_dim: int,
    activation: str = "gelu",
    gated: bool = False,
    use_bias: bool = True,
    dropout_rate: float = 0.0,
    dtype: Any = jnp.float32,
    name: str | None = None,
) -> MlpBlock:
    """Returns a feed-forward block; the gated form follows Shazeer (2020), equation 6.

    Parameters are `wi` (if gated, the activated `wi_0` and the linear `wi_1`) and `wo`.

    Args:
        mlp_dim: width of the hidden layer.
        activation: name of the activation; see `ACTIVATIONS`.
        gated: whether the activated projection multiplies a linear one.
        use_bias: whether all projections have biases.
        dropout_rate: rate on the hidden layer.
        dtype: dtype of the computation.
        name: name of the module.
    """
    first = _named(activation)
    return MlpBlock(
        mlp_dim,
        (first, "linear") if gated else (first,),
        kernel_init,
        dropout_rate,
        dtype,
        use_bias,
        dropout_axes=(),
        name=name,
    )


class Embed(nn.Module):
    """Embedding table; `attend` computes tied logits with it.

    T5X reserves id 0 for padding and for the token before the first one, but published
    vocabularies have a token with id 0. With `id_offset` 1, ids are the published ones
    plus 1. The table stays as published, and id 0 is free.

    Attributes:
        num_embeddings: rows of the table.
        features: width of a row.
        dtype: dtype of the embedded tokens and of the factors in `attend`.
        id_offset: difference between an id and its row of the table.
        bos_token_id: row that embeds the ids below `id_offset`.
    """

    num_embeddings: int
    features: int
    dtype: Any = jnp.float32
    id_offset: int = 0
    bos_token_id: int = 0

    def setup(self) -> None:
        self.embedding = param_with_axes(
            "embedding",
            kernel_init,
            (self.num_embeddings, self.features),
            jnp.float32,
            axes=("vocab", "embed"),
        )

    def __call__(self, tokens: Shaped[Array, "..."]) -> Float[Array, "... features"]:
        # A traced array cannot index NumPy parameters.
        table = jnp.asarray(self.embedding)
        return jnp.asarray(table[self.rows(tokens)], self.dtype)

    @nn.nowrap
    def rows(self, tokens: Shaped[Array, "..."]) -> Int[Array, "..."]:
        """Returns the rows of the table that embed tokens."""
        # The initialization of T5X models passes float tokens.
        rows = tokens.astype(jnp.int32)
        if not self.id_offset:
            return rows
        free = rows < self.id_offset
        return jnp.where(free, self.bos_token_id, rows - self.id_offset)

    def attend(self, x: Float[Array, "... features"]) -> Float[Array, "... vocab"]:
        """Returns float32 inner products with every row of the table."""
        if cpu.is_used():
            table = jnp.asarray(self.embedding)
            return products.with_rows(x, table, self.dtype, jnp.float32)
        return lax.dot_general(
            jnp.asarray(x, self.dtype),
            jnp.asarray(self.embedding, self.dtype),
            (((x.ndim - 1,), (1,)), ((), ())),
            preferred_element_type=jnp.float32,
        )


def shift_logits(
    logits: Float[Array, "... rows"], id_offset: int
) -> Float[Array, "... vocab"]:
    """Converts logits per row of the table to logits per id; free ids get `MASKED`."""
    if not id_offset:
        return logits
    widths = [(0, 0)] * (logits.ndim - 1) + [(id_offset, 0)]
    return jnp.pad(logits, widths, constant_values=MASKED)
