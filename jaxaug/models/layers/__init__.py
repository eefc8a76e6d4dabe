"""Layers that the model families share, under the names that the families use."""

from jaxaug.models.layers.attention import (
    Attention,
    Mask,
    cache_length,
    dot_product_attention,
)
from jaxaug.models.layers.dense import (
    ACTIVATIONS,
    MASKED,
    Embed,
    LayerNorm,
    RMSNorm,
    activation,
    kernel_init,
    linear,
    mlp,
    shift_logits,
    softcap,
)
from jaxaug.models.layers.positions import (
    LearnedPositions,
    Positions,
    RotaryScaling,
    rotary,
    sinusoidal_positions,
)

__all__ = [
    "ACTIVATIONS",
    "MASKED",
    "Attention",
    "Embed",
    "LayerNorm",
    "LearnedPositions",
    "Mask",
    "Positions",
    "RMSNorm",
    "RotaryScaling",
    "activation",
    "cache_length",
    "dot_product_attention",
    "kernel_init",
    "linear",
    "mlp",
    "rotary",
    "shift_logits",
    "sinusoidal_positions",
    "softcap",
]
