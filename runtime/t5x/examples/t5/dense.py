"""Layers without attention: linear maps, MLP block, embedding, and RMS norm.

Parameters are float32 in every computation dtype. Each one declares its logical axes in
the collection `params_axes`.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jax import lax
from jaxtyping import Array, Float, Int

from t5x.errors import UserError
from t5x.on_cpu import features as cpu
from t5x.on_cpu import products

Initializer = Callable[..., Array]

attention_kernel_init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
dense_kernel_init = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")
embedding_table_init = nn.initializers.variance_scaling(
    1.0, "fan_in", "normal", out_axis=0
)


def _as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class DenseGeneral(nn.Module):
    """Linear map over one or several axes.

    Attributes:
        features: sizes of the output axes, which replace the contracted axes at the
            end.
        kernel_init: initializer, called with the two-axis shape.
        kernel_axes: logical names of the kernel's axes. With more than two names the
            kernel has one axis per contracted and output axis; otherwise it is [all
            inputs, all outputs]. Both forms have the same initial values.
        use_bias: whether to add a bias of shape `features`; needs a name per axis.
    """

    features: int | Sequence[int]
    axis: int | Sequence[int] = -1
    dtype: Any = jnp.float32
    kernel_init: Initializer = dense_kernel_init
    kernel_axes: tuple[str, ...] = ()
    use_bias: bool = False
    output_dtype: Any = None

    def stored_kernel(
        self, contracted: tuple[int, ...], features: tuple[int, ...]
    ) -> tuple[Initializer, tuple[int, ...]]:
        """Returns initializer and shape of the kernel for these axis sizes."""
        joined = (math.prod(contracted), math.prod(features))

        def init(key, shape, dtype):
            return self.kernel_init(key, joined, dtype).reshape(shape)

        separate = len(self.kernel_axes) > 2
        return init, contracted + features if separate else joined

    @nn.compact
    def __call__(self, inputs: Float[Array, "..."]) -> Float[Array, "..."]:
        features = _as_tuple(self.features)
        axis = tuple(a % inputs.ndim for a in _as_tuple(self.axis))
        contracted = tuple(inputs.shape[a] for a in axis)
        kernel = param_with_axes(
            "kernel",
            *self.stored_kernel(contracted, features),
            jnp.float32,
            axes=self.kernel_axes,
        )
        kernel = jnp.asarray(kernel).reshape(contracted + features)
        outputs = _product(inputs, kernel, axis, self.dtype, self.output_dtype)
        if not self.use_bias:
            return outputs
        bias = param_with_axes(
            "bias",
            nn.initializers.zeros,
            features,
            jnp.float32,
            axes=self.kernel_axes[len(axis) :],
        )
        return outputs + jnp.asarray(bias, outputs.dtype)


def _product(
    inputs: Float[Array, "..."],
    kernel: Float[Array, "..."],
    axis: tuple[int, ...],
    dtype: Any,
    result: Any,
) -> Float[Array, "..."]:
    """Contracts `axis` of the inputs with the first axes of the kernel, in `dtype`."""
    last = tuple(range(inputs.ndim - len(axis), inputs.ndim))
    if axis == last and cpu.is_used():
        return products.contract(inputs, kernel, len(axis), dtype, result)
    dims = ((axis, tuple(range(len(axis)))), ((), ()))
    return lax.dot_general(
        jnp.asarray(inputs, dtype),
        jnp.asarray(kernel, dtype),
        dims,
        preferred_element_type=result,
    )


def activation_function(activation: str | Callable) -> Callable[[Array], Array]:
    """Returns `activation` itself, or the function of that name in flax.linen."""
    if callable(activation):
        return activation
    if activation == "linear":
        return lambda x: x
    function = getattr(nn, activation, None)
    if not callable(function):
        raise UserError(
            f"mlp_activations names {activation!r}, which is neither 'linear' nor a "
            "function of flax.linen such as 'relu', 'gelu' or 'silu'"
        )
    return function


class MlpBlock(nn.Module):
    """Feed-forward block; several activations make it gated (Shazeer 2020).

    Attributes:
        activations: one per input projection; their outputs are multiplied.
        dropout_axes: axes over which the dropout is broadcast; T5's is over length.
    """

    intermediate_dim: int = 2048
    activations: Sequence[str | Callable] = ("relu",)
    kernel_init: Initializer = dense_kernel_init
    intermediate_dropout_rate: float = 0.1
    dtype: Any = jnp.float32
    use_bias: bool = False
    dropout_axes: tuple[int, ...] = (-2,)

    dense_cls: ClassVar[type[DenseGeneral]] = DenseGeneral

    @nn.compact
    def __call__(
        self,
        inputs: Float[Array, "batch length emb"],
        decode: bool = False,
        deterministic: bool = False,
    ) -> Float[Array, "batch length emb"]:
        """Applies the block; `decode` is ignored, since positions are independent."""
        del decode
        branches = []
        for i, activation in enumerate(self.activations):
            project = self.dense_cls(
                self.intermediate_dim,
                dtype=self.dtype,
                kernel_init=self.kernel_init,
                kernel_axes=("embed", "mlp"),
                use_bias=self.use_bias,
                name="wi" if len(self.activations) == 1 else f"wi_{i}",
            )
            branches.append(activation_function(activation)(project(inputs)))
        hidden = functools.reduce(operator.mul, branches)
        hidden = nn.Dropout(self.intermediate_dropout_rate, self.dropout_axes)(
            hidden, deterministic=deterministic
        )
        hidden = with_sharding_constraint(hidden, ("batch", "length", "mlp"))
        return self.dense_cls(
            inputs.shape[-1],
            dtype=self.dtype,
            kernel_init=self.kernel_init,
            kernel_axes=("mlp", "embed"),
            use_bias=self.use_bias,
            name="wo",
        )(hidden)


class Embed(nn.Module):
    """Embedding table; `attend` computes tied logits with it.

    It uses a gather on every backend. A one-hot product has the same value and costs as
    much as the logits, and XLA partitions the gather over a sharded vocabulary.

    Attributes:
        cast_input_dtype: integer type to which tokens are cast; None does not cast.
        attend_dtype: dtype of the table in `attend`; None means `dtype`.
        one_hot: whether tokens outside the table embed to zeros, as in a one-hot
            product; otherwise they get an arbitrary row.
    """

    num_embeddings: int
    features: int
    cast_input_dtype: Any = None
    dtype: Any = jnp.float32
    attend_dtype: Any = None
    embedding_init: Initializer = embedding_table_init
    one_hot: bool = False

    def setup(self) -> None:
        self.embedding = param_with_axes(
            "embedding",
            self.embedding_init,
            (self.num_embeddings, self.features),
            jnp.float32,
            axes=("vocab", "embed"),
        )

    def __call__(self, inputs: Int[Array, "..."]) -> Float[Array, "... features"]:
        """Returns the table rows of the tokens `inputs`."""
        if self.cast_input_dtype is not None:
            inputs = inputs.astype(self.cast_input_dtype)
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise ValueError(
                "Input type must be an integer or unsigned integer. Tokens came as "
                f"{inputs.dtype}: cast them, or give Embed cast_input_dtype='int32'."
            )
        # Rows are cast after the gather, so that a decoding step does not cast the
        # table.
        rows = jnp.asarray(jnp.asarray(self.embedding)[inputs], self.dtype)
        if not self.one_hot:
            return rows
        known = (inputs >= 0) & (inputs < self.num_embeddings)
        return jnp.where(known[..., None], rows, 0)

    def attend(
        self, query: Float[Array, "... features"]
    ) -> Float[Array, "... num_embeddings"]:
        """Returns the inner products of `query` with every row of the table."""
        dtype = self.dtype if self.attend_dtype is None else self.attend_dtype
        if cpu.is_used() and query.dtype == jnp.dtype(dtype):
            return products.with_rows(query, jnp.asarray(self.embedding), dtype)
        return jnp.dot(query, jnp.asarray(self.embedding, dtype).T)


class LayerNorm(nn.Module):
    """Root-mean-square norm (Zhang and Sennrich 2019), float32: no mean, no bias."""

    epsilon: float = 1e-6
    dtype: Any = jnp.float32
    scale_init: Initializer = nn.initializers.ones

    @nn.compact
    def __call__(self, x: Float[Array, "... emb"]) -> Float[Array, "... emb"]:
        scale = param_with_axes(
            "scale", self.scale_init, x.shape[-1:], jnp.float32, axes=("embed",)
        )
        x = jnp.asarray(x, jnp.float32)
        mean_square = jnp.mean(lax.square(x), axis=-1, keepdims=True)
        normalised = jnp.asarray(x * lax.rsqrt(mean_square + self.epsilon), self.dtype)
        return normalised * jnp.asarray(scale, self.dtype)
