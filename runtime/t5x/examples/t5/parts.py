"""Parts of networks with T5 layers: `LayerConfig` and the modules it describes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import remat, with_sharding_constraint
from jaxtyping import Array, Float, Int

from t5x import checks, output_product
from t5x.errors import UserError
from t5x.examples.t5 import fused_attention, layers
from t5x.examples.t5.attention import BiasAt
from t5x.examples.t5.position_bias import Bias, bias_init

Tokens = Int[Array, "batch length"]
Activations = Float[Array, "batch length emb"]
Logits = Float[Array, "batch length vocab"]

_SIZES = ("vocab_size", "emb_dim", "num_heads", "head_dim", "mlp_dim")


@flax.struct.dataclass
class LayerConfig:
    """Sizes and options shared by all networks of these layers.

    Attributes:
        vocab_size: rows of the embedding; often larger than the vocabulary.
        dtype: dtype of activations; parameters and logits are float32.
        mlp_activations: see `layers.MlpBlock`; T5 has ("relu",), T5.1.1 ("gelu",
            "linear").
        logits_via_embedding: whether the embedding also serves as the output matrix.
        fused_attention: whether attention avoids storing weights if possible: with
            kernels on a GPU (16-bit dtypes), and in blocks on a CPU.
        remat_policy: which values the backward pass of a layer recomputes, see `remat`.

    Raises:
        UserError: a size is below 1, a number of layers is negative, or the dtype is
            unknown.
    """

    vocab_size: int
    dtype: Any = jnp.float32
    emb_dim: int = 512
    num_heads: int = 8
    head_dim: int = 64
    mlp_dim: int = 2048
    mlp_activations: Sequence[str] = ("relu",)
    dropout_rate: float = 0.1
    logits_via_embedding: bool = False
    float32_attention_logits: bool = False
    fused_attention: bool = True
    remat_policy: str = "none"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if isinstance(self.dtype, str):
            checks.dtype(f"{owner}.dtype", self.dtype)
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), f"{owner}.{field.name}"
            # JAX creates pytrees of this class with placeholders instead of numbers.
            if not isinstance(value, (int, float, str)):
                continue
            if field.name.startswith("num_") and field.name.endswith("_layers"):
                checks.whole_number(name, value, least=0)
            elif field.name in _SIZES:
                checks.whole_number(name, value, least=1)
            elif field.name == "dropout_rate":
                checks.number(name, value, below=1)


def layer_norm(config: LayerConfig, name: str) -> nn.Module:
    """Returns T5's norm: by the root mean square, with a scale and without a bias."""
    return layers.LayerNorm(dtype=config.dtype, name=name)


def dropout(
    config: LayerConfig, deterministic: bool, name: str | None = None
) -> nn.Module:
    """Returns dropout that drops the same features at all positions of a sequence."""
    return nn.Dropout(
        config.dropout_rate,
        broadcast_dims=(-2,),
        deterministic=deterministic,
        name=name,
    )


def attention(config: LayerConfig, name: str, joined: bool = True) -> nn.Module:
    """Returns attention; `joined` stores heads and head_dim of a kernel in one axis."""
    return layers.MultiHeadDotProductAttention(
        num_heads=config.num_heads,
        head_dim=config.head_dim,
        dtype=config.dtype,
        dropout_rate=config.dropout_rate,
        float32_logits=config.float32_attention_logits,
        fused=config.fused_attention,
        joined_kernels=joined,
        name=name,
    )


def mlp(config: LayerConfig) -> nn.Module:
    """Returns the feed-forward block of a layer."""
    return layers.MlpBlock(
        intermediate_dim=config.mlp_dim,
        activations=config.mlp_activations,
        intermediate_dropout_rate=config.dropout_rate,
        dtype=config.dtype,
        name="mlp",
    )


def position_biases(config: LayerConfig) -> layers.RelativePositionBiases:
    """Returns T5's relative position biases: 32 buckets for distances up to 128."""
    return layers.RelativePositionBiases(
        num_buckets=32,
        max_distance=128,
        num_heads=config.num_heads,
        dtype=config.dtype,
        embedding_init=bias_init,
        name="relpos_bias",
    )


def token_embedder(config: LayerConfig) -> layers.Embed:
    """Returns the token embedding, which may also serve as a float32 output matrix."""
    return layers.Embed(
        num_embeddings=config.vocab_size,
        features=config.emb_dim,
        dtype=config.dtype,
        attend_dtype=jnp.float32,
        embedding_init=nn.initializers.normal(stddev=1.0),
        name="token_embedder",
    )


def embed(embedder: nn.Module, tokens: Tokens, config: LayerConfig) -> Activations:
    """Embeds tokens as activations in the dtype of the network."""
    # Initialization passes float ones if no type is given.
    return embedder(tokens.astype(jnp.int32)).astype(config.dtype)


def self_biases(config: LayerConfig, length: int, bidirectional: bool) -> Bias:
    """Returns biases of self-attention: for all pairs, or by distance for kernels."""
    biases = position_biases(config)
    if config.fused_attention and fused_attention.by_distance(
        length, config.head_dim, config.dtype
    ):
        return biases.by_distance(length, length, bidirectional)
    return biases(length, length, bidirectional)


def decoder_biases(config: LayerConfig, length: int, decode: bool) -> Bias | BiasAt:
    """Returns causal biases: for all positions, or by position in decoding."""
    if not decode:
        return self_biases(config, length, bidirectional=False)
    biases = position_biases(config)
    return lambda positions, keys: biases.at(positions, keys, bidirectional=False)


def output_logits(
    module: nn.Module, config: LayerConfig, embedder: nn.Module, y: Activations
) -> Logits:
    """Returns float32 logits, and reports their factors (see `t5x.output_product`).

    Tied logits are divided by sqrt(emb_dim).
    """
    y = y.astype(jnp.float32)
    if config.logits_via_embedding:
        root = jnp.sqrt(y.shape[-1])
        logits = embedder.attend(y) / root
        if output_product.is_wanted(module):
            table = jnp.asarray(embedder.embedding, jnp.float32)
            output_product.tell(module, logits, y / root, table=table)
        return logits
    dense = layers.DenseGeneral(
        config.vocab_size,
        dtype=jnp.float32,
        kernel_axes=("embed", "vocab"),
        name="logits_dense",
    )
    logits = dense(y)
    if output_product.is_wanted(module):
        kernel: Array = dense.get_variable("params", "kernel")
        output_product.tell(module, logits, y, kernel=kernel)
    return logits


def constrain(x: Activations) -> Activations:
    """Names the axes of activations, by which a partitioner shards them."""
    return with_sharding_constraint(x, ("batch", "length", "embed"))


# Policies of jax.checkpoint_policies that need no argument.
_NAMES = (
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
)
_OURS = {"minimal": "checkpoint_dots_with_no_batch_dims", "full": "nothing_saveable"}


def rematerialised(
    layer_cls: type[nn.Module], config: Any, prevent_cse: bool = True
) -> type[nn.Module]:
    """Returns the layer class under the policy `config.remat_policy`.

    Args:
        config: has the policy. None or "none" stores everything, "minimal" stores the
            results of matrix products with parameters, and "full" stores only the
            layer's arguments. Names of `jax.checkpoint_policies` are valid too.
        prevent_cse: False in a scan, which separates the two computations itself.

    Raises:
        UserError: there is no such policy.
    """
    name = config.remat_policy
    if name in (None, "none"):
        return layer_cls
    policy = _OURS.get(name, name)
    if policy not in _NAMES:
        raise UserError(
            f"{type(config).__name__}.remat_policy = {name!r}: use 'none', 'minimal' "
            f"or 'full', or of jax.checkpoint_policies {', '.join(_NAMES)}"
        )
    kept = getattr(jax.checkpoint_policies, policy)
    return remat(layer_cls, prevent_cse=prevent_cse, policy=kept)
