"""The GPT-2 family (Radford et al. 2019), which includes DialoGPT.

It has pre-norm blocks with layer norm, learned positions, biases in all layers, and a
tied output matrix.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from flax import linen as nn
from jaxtyping import Array, Float, Int

from jaxaug.models import causal, layers
from jaxaug.models.weights import hf_config
from jaxaug.models.weights.hf_config import REQUIRED, key
from jaxaug.models.weights.keymap import (
    Weight,
    bias_heads,
    conv_heads_in,
    conv_heads_out,
    identity,
    part,
    transposed,
)

# Older checkpoints store causal masks.
IGNORED = (r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",)

_PREFIX = "transformer."


@dataclasses.dataclass(frozen=True)
class Config(causal.Config):  # type: ignore[misc]
    """Options of `causal.Config`, and the following.

    Attributes:
        scale_attention: whether attention logits are divided by sqrt(head_dim).
        scale_by_layer: whether attention logits of the i-th block are also divided by
            i.
    """

    vocab_size: causal.Size = key("vocab_size")
    emb_dim: causal.Size = key("n_embd")
    num_layers: causal.Layers = key("n_layer")
    num_heads: causal.Size = key("n_head")
    mlp_dim: causal.Size = key("n_inner", absent=None)
    norm_epsilon: float = key("layer_norm_epsilon", 1e-5)
    activation: str = key("activation_function", "gelu_new", read=hf_config.activation)
    tie_embeddings: bool = key("tie_word_embeddings", True)
    dropout_rate: float = key("resid_pdrop", 0.1, read=float)
    embedding_dropout_rate: float = key("embd_pdrop", 0.1, read=float)
    attention_dropout_rate: float = key("attn_pdrop", 0.1, read=float)
    bos_token_id: int = key("bos_token_id", 0, read=hf_config.or_zero)
    num_positions: int = key("n_positions", 1024, absent=REQUIRED)
    scale_attention: bool = key("scale_attn_weights", True)
    scale_by_layer: bool = key("scale_attn_by_inverse_layer_idx", False)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published model from its config.json.

        `reorder_and_upcast_attn` has no effect: attention logits are always float32.
        """
        hf_config.require(config, "gpt2", "GPT2LMHeadModel")
        hf_config.refuse_forced(config, "GPT-2")
        hf_config.refuse(config, {"add_cross_attention": False})
        fields = hf_config.read_fields(hf_config.table_of(cls), config)
        width = fields["emb_dim"]
        fields["mlp_dim"] = fields["mlp_dim"] or 4 * width
        return cls(**fields, head_dim=width // fields["num_heads"])


def to_hf(config: Config) -> dict[str, Any]:
    """Returns the config.json of a model; inverts `from_hf`."""
    kind = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
    return kind | hf_config.written_fields(hf_config.table_of(Config), vars(config))


class Block(causal.Block):
    """A block with layer norm and biases."""

    config: Config

    def norm(self, name: str) -> nn.Module:
        return _norm(self.config, name)

    def attention(self) -> layers.Attention:
        config = self.config
        scale = config.head_dim**-0.5 if config.scale_attention else 1.0
        if config.scale_by_layer:
            scale /= self.index + 1
        return layers.Attention(
            num_heads=config.num_heads,
            head_dim=config.head_dim,
            qkv_bias=True,
            out_bias=True,
            scale=scale,
            dropout_rate=config.attention_dropout_rate,
            dtype=config.dtype,
            fused=config.fused_attention,
            name="self_attention",
        )

    def mlp(self) -> nn.Module:
        config = self.config
        return layers.mlp(
            config.mlp_dim, activation=config.activation, dtype=config.dtype, name="mlp"
        )


def _norm(config: Config, name: str) -> nn.Module:
    return layers.LayerNorm(config.norm_epsilon, config.dtype, name=name)


class Stack(causal.Stack):
    """The blocks of the family, after learned positions."""

    config: Config

    def block(self, index: int) -> nn.Module:
        return Block(self.config, index, name=f"layers_{index}")

    def norm(self) -> nn.Module:
        return _norm(self.config, "decoder_norm")

    def embed_positions(
        self, positions: Int[Array, "#rows length"]
    ) -> Float[Array, "#rows length emb"]:
        config = self.config
        return layers.LearnedPositions(
            config.num_positions,
            config.emb_dim,
            dtype=config.dtype,
            name="position_embedder",
        )(positions)


class DecoderWrapper(causal.CausalLM):
    """The language model; see `causal.CausalLM`."""

    config: Config

    stack_cls: ClassVar[type[causal.Stack]] = Stack
    ignores_padding: ClassVar[bool] = True


NETWORK = DecoderWrapper


def key_map(config: Config) -> dict[str, Weight]:
    """Returns the tensor name in `GPT2LMHeadModel` of each parameter path.

    The first published files lack the prefix `transformer.`; both forms are read.
    """
    weights = {
        "decoder/token_embedder/embedding": identity("wte.weight"),
        "decoder/position_embedder/embedding": identity("wpe.weight"),
        "decoder/decoder_norm/scale": identity("ln_f.weight"),
        "decoder/decoder_norm/bias": identity("ln_f.bias"),
    }
    for index in range(config.num_layers):
        layer = _layer_map(config, f"h.{index}.")
        weights |= {f"decoder/layers_{index}/{path}": w for path, w in layer.items()}
    prefixed = {
        path: weight._replace(name=_PREFIX + weight.name, aliases=(weight.name,))
        for path, weight in weights.items()
    }
    if not config.tie_embeddings:
        return prefixed | {"decoder/logits_dense/kernel": transposed("lm_head.weight")}
    path = "decoder/token_embedder/embedding"
    aliases = (*prefixed[path].aliases, "lm_head.weight")
    return prefixed | {path: prefixed[path]._replace(aliases=aliases)}


def _layer_map(config: Config, prefix: str) -> dict[str, Weight]:
    heads, dim = config.num_heads, config.head_dim
    attention, mlp = f"{prefix}attn.", f"{prefix}mlp."
    kernel = conv_heads_in("", heads, dim)
    bias = bias_heads("", heads, dim)
    weights = {
        "self_attention/out/kernel": conv_heads_out(
            f"{attention}c_proj.weight", heads, dim
        ),
        "self_attention/out/bias": identity(f"{attention}c_proj.bias"),
        "mlp/wi/kernel": identity(f"{mlp}c_fc.weight"),
        "mlp/wi/bias": identity(f"{mlp}c_fc.bias"),
        "mlp/wo/kernel": identity(f"{mlp}c_proj.weight"),
        "mlp/wo/bias": identity(f"{mlp}c_proj.bias"),
    }
    for index, name in enumerate(("query", "key", "value")):
        weights |= {
            f"self_attention/{name}/kernel": part(
                f"{attention}c_attn.weight", index, 3, kernel, axis=1
            ),
            f"self_attention/{name}/bias": part(
                f"{attention}c_attn.bias", index, 3, bias
            ),
        }
    for ours, theirs in (("pre_self_attention", "ln_1"), ("pre_mlp", "ln_2")):
        weights |= {
            f"{ours}_layer_norm/scale": identity(f"{prefix}{theirs}.weight"),
            f"{ours}_layer_norm/bias": identity(f"{prefix}{theirs}.bias"),
        }
    return weights
