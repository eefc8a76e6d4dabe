"""Public names of the layers of the T5 family."""

from t5x.examples.t5.attention import (
    MultiHeadDotProductAttention,
    dot_product_attention,
)
from t5x.examples.t5.dense import (
    DenseGeneral,
    Embed,
    LayerNorm,
    MlpBlock,
    activation_function,
)
from t5x.examples.t5.masks import (
    combine_biases,
    combine_masks,
    make_attention_mask,
    make_causal_mask,
    make_decoder_mask,
)
from t5x.examples.t5.position_bias import (
    RelativePositionBiases,
    relative_position_bucket,
)

__all__ = [
    "DenseGeneral",
    "Embed",
    "LayerNorm",
    "MlpBlock",
    "MultiHeadDotProductAttention",
    "RelativePositionBiases",
    "activation_function",
    "combine_biases",
    "combine_masks",
    "dot_product_attention",
    "make_attention_mask",
    "make_causal_mask",
    "make_decoder_mask",
    "relative_position_bucket",
]
