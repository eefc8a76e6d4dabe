"""The Llama family (Touvron et al. 2023): SmolLM2, Mistral, Qwen, Gemma, and others.

The models have pre-norm blocks with RMS norm, rotary positions, grouped queries, and a
gated MLP. The output matrix is tied or untied. The models differ in the options of
`Config`; `llama_config` maps each `model_type` to its options.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn

from jaxaug.core.errors import UserError
from jaxaug.models import causal, layers, llama_config
from jaxaug.models.weights.keymap import (
    Weight,
    bias_heads,
    heads_in,
    heads_out,
    identity,
    transposed,
)

# Options of training and of token ids, which config.json does not contain.
_UNPUBLISHED = frozenset(
    (
        "dropout_rate", "embedding_dropout_rate", "dtype", "fused_attention",
        "remat_policy", "id_offset",
    )
)  # fmt: skip
# Older checkpoints store rotation rates.
IGNORED = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)


@dataclasses.dataclass(frozen=True)
class Config(causal.Config):
    """Options of `causal.Config`, and the following.

    Attributes:
        model_type: `model_type` of config.json, one of `llama_config.KINDS`; the
            network does not depend on it.
        num_kv_heads: key and value heads; None means `num_heads`.
        rope_theta: base of the rotary positions.
        local_rope_theta: base in the layers with a window, whose positions are not
            scaled; None means `rope_theta` and the same scaling.
        rope_scaling: "default" for none, or the kind of a `layers.RotaryScaling`.
        rope_factor: see `layers.RotaryScaling.factor`.
        rope_low_frequency: see `layers.RotaryScaling.low_frequency`.
        rope_high_frequency: see `layers.RotaryScaling.high_frequency`.
        rope_original_positions: see `layers.RotaryScaling.original_positions`.
        max_positions: longest training sequence in tokens; only written to config.json.
        attention_bias: whether the four projections of attention have biases.
        qkv_bias: whether the projections of queries, keys, and values have biases.
        mlp_bias: whether the projections of the MLP have biases.
        qk_norm: whether the heads of queries and keys are normalized.
        sliding_window: number of keys that a query sees, including its own; None for
            all.
        full_attention_layers: indices of the layers without the window, from 0.
        query_pre_attn_scalar: attention logits are divided by its square root; None
            means head_dim.
        attention_cap: cap of the attention logits (`layers.softcap`); None for none.
        logits_cap: cap of the token logits; None for none.
        unit_offset_norm: whether norms multiply by 1 + scale.
        post_norms: whether the outputs of attention and of MLP are also normalized.
        scale_embedding: whether embedded tokens are multiplied by sqrt(emb_dim).

    Raises:
        UserError: an invalid window, cap, base, or kind of scaling.
    """

    norm_epsilon: float = 1e-5
    activation: str = "silu"
    tie_embeddings: bool = False
    model_type: str = "llama"
    num_kv_heads: int | None = None
    rope_theta: float = 10000.0
    local_rope_theta: float | None = None
    rope_scaling: str = "default"
    rope_factor: float = 1.0
    rope_low_frequency: float = 1.0
    rope_high_frequency: float = 4.0
    rope_original_positions: int = 8192
    max_positions: int = 2048
    attention_bias: bool = False
    qkv_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    sliding_window: int | None = None
    full_attention_layers: tuple[int, ...] = ()
    query_pre_attn_scalar: float | None = None
    attention_cap: float | None = None
    logits_cap: float | None = None
    unit_offset_norm: bool = False
    post_norms: bool = False
    scale_embedding: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (
            "rope_theta", "local_rope_theta", "rope_factor", "sliding_window",
            "query_pre_attn_scalar", "attention_cap", "logits_cap",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(
                    f"llama.Config.{name} = {value!r}: give a number above 0."
                )
        if self.rope_scaling not in ("default", "linear", "llama3"):
            raise UserError(
                f"llama.Config.rope_scaling = {self.rope_scaling!r}: give 'default', "
                "'linear' or 'llama3'."
            )
        if self.rope_high_frequency <= self.rope_low_frequency:
            raise UserError(
                f"llama.Config.rope_high_frequency = {self.rope_high_frequency!r}: "
                f"give more than rope_low_frequency, {self.rope_low_frequency!r}."
            )

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published model from its config.json.

        Raises:
            UserError: see `llama_config.options`.
        """
        return cls(**llama_config.options(config))

    def slides(self, index: int) -> bool:
        """Returns whether a layer has the sliding window."""
        return (
            self.sliding_window is not None and index not in self.full_attention_layers
        )


def to_hf(config: Config) -> dict[str, Any]:
    """Returns the config.json of a model, for transformers 4 and 5; inverts `from_hf`.

    Raises:
        UserError: a config.json of this `model_type` cannot express the options.
    """
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    fields = llama_config.written(values)
    values["num_kv_heads"] = config.num_kv_heads or config.num_heads
    read = Config.from_hf(fields)
    differs = ", ".join(
        f"{name} = {value!r}"
        for name, value in values.items()
        if name not in _UNPUBLISHED and getattr(read, name) != value
    )
    if differs:
        raise UserError(
            f"llama.Config with model_type = {config.model_type!r} and {differs}: a "
            "config.json of that type cannot express this. Give the model_type that "
            "has these options, or leave them out."
        )
    return fields


class Block(causal.Block):
    """A block with RMS norm, rotary positions, and a gated MLP."""

    config: Config

    def norm(self, name: str) -> nn.Module:
        return _norm(self.config, name)

    def after(self, name: str, x: causal.Activations) -> causal.Activations:
        return _norm(self.config, name)(x) if self.config.post_norms else x

    def attention(self) -> layers.Attention:
        config = self.config
        slides = config.slides(self.index)
        local = slides and config.local_rope_theta is not None
        divisor = config.query_pre_attn_scalar
        return layers.Attention(
            num_heads=config.num_heads,
            head_dim=config.head_dim,
            num_kv_heads=config.num_kv_heads,
            qkv_bias=config.attention_bias or config.qkv_bias,
            out_bias=config.attention_bias,
            rope_theta=config.local_rope_theta if local else config.rope_theta,
            rope_scaling=None if local else _scaling(config),
            qk_norm=functools.partial(_norm, config, axis="kv")
            if config.qk_norm
            else None,
            window=config.sliding_window if slides else None,
            scale=None if divisor is None else 1.0 / math.sqrt(divisor),
            cap=config.attention_cap,
            dropout_rate=config.attention_dropout_rate,
            dtype=config.dtype,
            fused=config.fused_attention,
            name="self_attention",
        )

    def mlp(self) -> nn.Module:
        config = self.config
        return layers.mlp(
            config.mlp_dim,
            activation=config.activation,
            gated=True,
            use_bias=config.mlp_bias,
            dtype=config.dtype,
            name="mlp",
        )


def _norm(config: Config, name: str, axis: str = "embed") -> nn.Module:
    offset = 1.0 if config.unit_offset_norm else 0.0
    return layers.RMSNorm(config.norm_epsilon, config.dtype, offset, axis, name=name)


def _scaling(config: Config) -> layers.RotaryScaling | None:
    if config.rope_scaling == "default":
        return None
    return layers.RotaryScaling(
        config.rope_scaling,
        config.rope_factor,
        config.rope_low_frequency,
        config.rope_high_frequency,
        config.rope_original_positions,
    )


class Stack(causal.Stack):
    """The blocks of the family."""

    config: Config

    def block(self, index: int) -> nn.Module:
        return Block(self.config, index, name=f"layers_{index}")

    def norm(self) -> nn.Module:
        return _norm(self.config, "decoder_norm")

    def scaled(self, x: causal.Activations) -> causal.Activations:
        if not self.config.scale_embedding:
            return x
        # The published training rounds the factor to the dtype.
        return x * jnp.asarray(math.sqrt(self.config.emb_dim), x.dtype)

    def capped(self, logits: causal.Logits) -> causal.Logits:
        return layers.softcap(logits, self.config.logits_cap)


class DecoderWrapper(causal.CausalLM):
    """The language model; see `causal.CausalLM`."""

    config: Config

    stack_cls: ClassVar[type[causal.Stack]] = Stack
    ignores_padding: ClassVar[bool] = True


NETWORK = DecoderWrapper


def key_map(config: Config) -> dict[str, Weight]:
    """Returns the tensor name in `LlamaForCausalLM` of each parameter path."""
    tied = ("lm_head.weight",) if config.tie_embeddings else ()
    weights = {
        "decoder/token_embedder/embedding": identity(
            "model.embed_tokens.weight", *tied
        ),
        "decoder/decoder_norm/scale": identity("model.norm.weight"),
    }
    if not config.tie_embeddings:
        weights["decoder/logits_dense/kernel"] = transposed("lm_head.weight")
    for index in range(config.num_layers):
        layer = _layer_map(config, f"model.layers.{index}.")
        weights |= {f"decoder/layers_{index}/{path}": w for path, w in layer.items()}
    return weights


def _layer_map(config: Config, prefix: str) -> dict[str, Weight]:
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    dim, heads = config.head_dim, config.num_heads
    projections = {
        "query": ("q_proj", heads),
        "key": ("k_proj", config.num_kv_heads or heads),
        "value": ("v_proj", config.num_kv_heads or heads),
    }
    dense = {"wi_0": "gate_proj", "wi_1": "up_proj", "wo": "down_proj"}
    weights = {
        f"{ours}/scale": identity(f"{prefix}{theirs}.weight")
        for ours, theirs in _norms(config).items()
    }
    weights["self_attention/out/kernel"] = heads_out(
        f"{attention}o_proj.weight", heads, dim
    )
    for ours, (theirs, count) in projections.items():
        weights[f"self_attention/{ours}/kernel"] = heads_in(
            f"{attention}{theirs}.weight", count, dim
        )
        if config.attention_bias or config.qkv_bias:
            weights[f"self_attention/{ours}/bias"] = bias_heads(
                f"{attention}{theirs}.bias", count, dim
            )
    if config.attention_bias:
        weights["self_attention/out/bias"] = identity(f"{attention}o_proj.bias")
    for ours, theirs in dense.items():
        weights[f"mlp/{ours}/kernel"] = transposed(f"{mlp}{theirs}.weight")
        if config.mlp_bias:
            weights[f"mlp/{ours}/bias"] = identity(f"{mlp}{theirs}.bias")
    return weights


def _norms(config: Config) -> dict[str, str]:
    """Returns our norm -> published norm of a block; names depend on the options."""
    norms = {"pre_self_attention_layer_norm": "input_layernorm"}
    if config.post_norms:
        norms["post_self_attention_layer_norm"] = "post_attention_layernorm"
        norms["pre_mlp_layer_norm"] = "pre_feedforward_layernorm"
        norms["post_mlp_layer_norm"] = "post_feedforward_layernorm"
    else:
        norms["pre_mlp_layer_norm"] = "post_attention_layernorm"
    if config.qk_norm:
        norms["self_attention/query_norm"] = "self_attn.q_norm"
        norms["self_attention/key_norm"] = "self_attn.k_norm"
    return norms
