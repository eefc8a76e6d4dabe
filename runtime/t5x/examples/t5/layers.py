"""Public names of the layers of the T5 family."""
# ruff: noqa: F401

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
    make_padding_mask,
)
from t5x.examples.t5.position_bias import (
    RelativePositionBiases,
    relative_position_bucket,
)
