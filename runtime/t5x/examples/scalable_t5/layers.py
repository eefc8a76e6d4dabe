"""Layers of `t5x.examples.t5.layers`, under the name that scalable_t5 users import.

They differ in their kernels: each has one axis per contracted and output axis. The
initializer is told which axes are which, so that a scan may add a layer axis.
"""
# ruff: noqa: F401

from collections.abc import Callable
from typing import Any, Literal

from flax import linen as nn
from jaxtyping import Array

from t5x.examples.t5 import layers as t5
from t5x.examples.t5.layers import (
    Embed,
    LayerNorm,
    RelativePositionBiases,
    activation_function,
    combine_biases,
    combine_masks,
    dot_product_attention,
    make_attention_mask,
    make_causal_mask,
    make_decoder_mask,
    relative_position_bucket,
)

# Maps (key, shape, dtype, input axes, output axes) to a kernel.
NdInitializer = Callable[[Array, tuple[int, ...], Any, Any, Any], Array]


def nd_dense_init(
    scale: float,
    mode: Literal["fan_in", "fan_out", "fan_avg"],
    distribution: Literal["normal", "truncated_normal", "uniform"],
) -> NdInitializer:
    """Returns variance scaling (He et al. 2015) for several axes per side."""

    def init(
        key: Array, shape: tuple[int, ...], dtype: Any, in_axis: Any, out_axis: Any
    ) -> Array:
        scaled = nn.initializers.variance_scaling(
            scale, mode, distribution, in_axis, out_axis
        )
        return scaled(key, shape, dtype)

    return init


class DenseGeneral(t5.DenseGeneral):
    """Linear map whose kernel has one axis for each contracted and each output axis."""

    kernel_init: NdInitializer = nd_dense_init(1.0, "fan_in", "truncated_normal")

    def stored_kernel(self, contracted, features):
        axes = tuple(range(len(contracted) + len(features)))

        def init(key, shape, dtype):
            inputs, outputs = axes[: len(contracted)], axes[len(contracted) :]
            return self.kernel_init(key, shape, dtype, inputs, outputs)

        return init, contracted + features


class MlpBlock(t5.MlpBlock):
    """Feed-forward block, as in `t5x.examples.t5.layers`."""

    kernel_init: NdInitializer = nd_dense_init(1.0, "fan_in", "truncated_normal")

    dense_cls = DenseGeneral


class MultiHeadDotProductAttention(t5.MultiHeadDotProductAttention):
    """Attention as in `t5x.examples.t5.layers`, with kernels [emb, heads, head_dim]."""

    kernel_init: NdInitializer = nd_dense_init(1.0, "fan_in", "normal")
    joined_kernels: bool = False

    dense_cls = DenseGeneral
