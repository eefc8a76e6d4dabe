"""The Llama family (Touvron et al. 2023): SmolLM2, Mistral, Qwen, Gemma, and others.

The models have pre-norm blocks with RMS norm, rotary positions, grouped queries, and a
gated MLP. The output matrix is tied or untied. The models differ in the options of
`Config`; `KINDS` maps each `model_type` to its options.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from flax import linen as nn

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.ranges import Range
from jaxaug.core.suggestion import one_of
from jaxaug.models import causal, layers
from jaxaug.models.weights import hf_config
from jaxaug.models.weights.hf_config import REQUIRED, key
from jaxaug.models.weights.keymap import (
    Weight,
    bias_heads,
    heads_in,
    heads_out,
    identity,
    transposed,
)

# Fields that only some kinds read.
_OPTIONAL = (
    "attention_bias", "mlp_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
    "final_logit_softcapping",
)  # fmt: skip
Above = Annotated[float, Range(0, above=True)]
_FULL, _SLIDING = "full_attention", "sliding_attention"
_FIX = "Use the config.json that was published with the weights."


class Kind(NamedTuple):
    """Meaning of a `model_type`.

    Attributes:
        options: options of the network that no field of the file states.
        defaults: defaults of fields that a file may omit.
        reads: fields in addition to the common ones.
    """

    name: str
    architecture: str
    options: Mapping[str, Any]
    defaults: Mapping[str, Any]
    reads: tuple[str, ...]


# Defaults of every kind; `Kind.defaults` takes precedence.
_DEFAULTS: Mapping[str, Any] = {
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False,
    "attention_bias": False, "mlp_bias": False, "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
}  # fmt: skip
_READ = (
    "num_key_value_heads", "head_dim", "hidden_act", "rope_theta", "rope_scaling",
    "rope_parameters",
)  # fmt: skip
# Fields for which only one value is supported.
_FIXED: Mapping[str, Any] = {
    "is_causal": True,
    "is_encoder_decoder": False,
    "pretraining_tp": 1,
    "return_dict": True,
    "rope_interleaved": False,
}
_QWEN = {
    "max_position_embeddings": 32768,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
}
_QWEN_READS = (
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "layer_types",
)
_GEMMA = {"unit_offset_norm": True, "post_norms": True, "scale_embedding": True}
_GEMMA_DEFAULTS = {
    "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "num_key_value_heads": 4,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "tie_word_embeddings": True,
    "bos_token_id": 2,
}  # fmt: skip
_GEMMA_READS = (
    "attention_bias", "hidden_activation", "query_pre_attn_scalar", "sliding_window",
    "sliding_window_size", "layer_types", "attn_logit_softcapping",
    "final_logit_softcapping",
)  # fmt: skip
KINDS: Mapping[str, Kind] = {
    "llama": Kind("Llama", "LlamaForCausalLM", {}, {}, ("attention_bias", "mlp_bias")),
    "mistral": Kind(
        "Mistral",
        "MistralForCausalLM",
        {},
        {
            "sliding_window": 4096,
            "max_position_embeddings": 131072,
            "num_key_value_heads": 8,
        },
        ("sliding_window",),
    ),
    "qwen2": Kind("Qwen 2", "Qwen2ForCausalLM", {"qkv_bias": True}, _QWEN, _QWEN_READS),
    "qwen3": Kind(
        "Qwen 3",
        "Qwen3ForCausalLM",
        {"qk_norm": True},
        {**_QWEN, "head_dim": 128},
        (*_QWEN_READS, "attention_bias"),
    ),
    "gemma2": Kind(
        "Gemma 2",
        "Gemma2ForCausalLM",
        _GEMMA,
        {
            **_GEMMA_DEFAULTS,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "max_position_embeddings": 8192,
        },
        _GEMMA_READS,
    ),
    "gemma3_text": Kind(
        "Gemma 3",
        "Gemma3ForCausalLM",
        {**_GEMMA, "qk_norm": True},
        {
            **_GEMMA_DEFAULTS,
            "rope_theta": 1_000_000.0,
            "rope_local_base_freq": 10000.0,
            "sliding_window_pattern": 6,
            "max_position_embeddings": 131072,
        },
        (
            *_GEMMA_READS,
            "rope_local_base_freq",
            "sliding_window_pattern",
            "_sliding_window_pattern",
        ),
    ),
}


def options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `llama.Config` for a published model."""
    kind = KINDS[hf_config.checked_type(config, KINDS)]
    hf_config.require(config, config["model_type"], kind.architecture)
    hf_config.refuse_forced(config, kind.name)
    hf_config.refuse(config, _FIXED)
    table = _table(kind)
    read_here = {field.theirs for field in table}
    hf_config.refuse_unknown(config, {*_READ, *_FIXED, *kind.reads, *read_here})
    settings = {**_DEFAULTS, **kind.defaults, **config}
    # Null means the default in these fields, unlike in those for windows and caps.
    for name in ("rms_norm_eps", "rope_theta", "head_dim", "rope_local_base_freq"):
        if settings.get(name) is None and name in {**_DEFAULTS, **kind.defaults}:
            settings[name] = {**_DEFAULTS, **kind.defaults}[name]
    if config["model_type"] == "gemma3_text":
        # `transformers` reads this field but does not apply it.
        hf_config.refuse(settings, {"attn_logit_softcapping": None})
    read = hf_config.read_fields(table, settings)
    heads = read["num_heads"]
    activation = settings.get("hidden_activation") or settings["hidden_act"]
    return {
        "model_type": config["model_type"],
        **read,
        "head_dim": settings.get("head_dim") or settings["hidden_size"] // heads,
        "activation": hf_config.activation(activation),
        "num_kv_heads": settings.get("num_key_value_heads") or heads,
        **kind.options,
        **_windows(settings),
        **_rope(settings),
    }


def _table(kind: Kind) -> list[hf_config.Field]:
    unread = set(_OPTIONAL) - set(kind.reads)
    return [f for f in hf_config.table_of(Config) if f.theirs not in unread]


def _windows(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sliding window, and the layers without it."""
    count, window = settings["num_hidden_layers"], settings.get("sliding_window")
    kinds = settings.get("layer_types") or _layer_types(settings)
    if len(kinds) != count or set(kinds) - {_FULL, _SLIDING}:
        raise UserError(
            f"config.json: layer_types is {shown(kinds)}, expected one of {_FULL} and "
            f"{_SLIDING} for each of the {count} layers. {_FIX}"
        )
    if _SLIDING not in kinds:
        return {}
    if window is None:
        raise UserError(
            f"config.json: layers slide, but sliding_window is null. {_FIX}"
        )
    full = tuple(index for index, kind in enumerate(kinds) if kind == _FULL)
    return {"sliding_window": window, "full_attention_layers": full}


def _layer_types(settings: Mapping[str, Any]) -> list[str]:
    kind, window = settings["model_type"], settings.get("sliding_window")
    slides: Sequence[bool]
    indices = range(settings["num_hidden_layers"])
    if kind == "llama":
        slides = [False for _ in indices]
    elif kind == "mistral":
        slides = [window is not None for _ in indices]
    elif kind == "gemma2":
        slides = [index % 2 == 0 for index in indices]
    elif kind == "gemma3_text":
        # transformers 5 uses the name with the underscore.
        every = (
            settings.get("_sliding_window_pattern")
            or settings["sliding_window_pattern"]
        )
        slides = [(index + 1) % every != 0 for index in indices]
    else:
        uses = settings.get("use_sliding_window") and window is not None
        first = settings.get("max_window_layers", 28)
        slides = [bool(uses) and index >= first for index in indices]
    return [_SLIDING if slide else _FULL for slide in slides]


def _rope(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns bases and scaling, from `rope_parameters` or the fields before it."""
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    local: Mapping[str, Any] = {}
    if settings["model_type"] == "gemma3_text":
        if _FULL in rope or _SLIDING in rope:
            local, rope = rope.get(_SLIDING) or {}, rope.get(_FULL) or {}
        if local and _rope_type(local) != "default":
            raise UserError(
                "config.json: the rotary positions of sliding layers have type "
                f"{_rope_type(local)!r}, but only 'default' is supported there. {_FIX}"
            )
        base = local.get("rope_theta") or settings["rope_local_base_freq"]
        chosen = {"local_rope_theta": float(base)}
    else:
        chosen = {}
    theta = rope.get("rope_theta") or settings["rope_theta"]
    return {"rope_theta": float(theta), **chosen, **_read_scaling(rope)}


def _rope_type(rope: Mapping[str, Any]) -> str:
    return rope.get("rope_type", rope.get("type", "default"))


_SCALINGS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "linear": {"factor": "rope_factor"},
    "llama3": {
        "factor": "rope_factor",
        "low_freq_factor": "rope_low_frequency",
        "high_freq_factor": "rope_high_frequency",
        "original_max_position_embeddings": "rope_original_positions",
    },
}


def _read_scaling(rope: Mapping[str, Any]) -> dict[str, Any]:
    kind = _rope_type(rope)
    if kind not in _SCALINGS:
        raise UserError(
            f"config.json: the rotary positions have type {shown(kind)}, but only "
            f"{', '.join(_SCALINGS)} are supported. Take weights that were trained "
            "with one of them."
        )
    known = {"rope_type", "type", "rope_theta", *_SCALINGS["llama3"]}
    if others := sorted(rope.keys() - known):
        raise UserError(
            f"config.json: the rotary positions have unknown fields: "
            f"{', '.join(others)}. {_FIX}"
        )
    chosen: dict[str, Any] = {"rope_scaling": kind}
    for theirs, ours in _SCALINGS[kind].items():
        value = rope.get(theirs)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is None or not is_number or not 0 < value < math.inf:
            raise UserError(
                f"config.json: rotary positions of type {kind!r} need {theirs}, a "
                f"number above 0, but it is {shown(value)}. {_FIX}"
            )
        chosen[ours] = value
    return chosen


def written(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config.json of a model, for transformers 4 and 5.

    Raises:
        UserError: the `model_type` is unknown.
    """
    name = model["model_type"]
    if name not in KINDS:
        raise UserError(
            f"llama.Config.model_type = {name!r}: {one_of(name, KINDS, 'give')}"
        )
    kind = KINDS[name]
    fields = {
        "architectures": [kind.architecture],
        "model_type": name,
        **hf_config.written_fields(_table(kind), model),
        "num_key_value_heads": model["num_kv_heads"] or model["num_heads"],
        "rope_theta": model["rope_theta"],
    }
    # transformers declares no such field for Qwen 2, but applies it.
    if name != "qwen2" or model["head_dim"] * model["num_heads"] != model["emb_dim"]:
        fields["head_dim"] = model["head_dim"]
    gemma = "hidden_activation" in kind.reads
    fields["hidden_activation" if gemma else "hidden_act"] = model["activation"]
    return fields | _written_windows(model, kind) | _written_rope(model)


def _written_windows(model: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    if "sliding_window" not in kind.reads:
        return {}
    window, full = model["sliding_window"], model["full_attention_layers"]
    fields: dict[str, Any] = {"sliding_window": window}
    slides = [
        window is not None and index not in full for index in range(model["num_layers"])
    ]
    if "layer_types" in kind.reads:
        fields["layer_types"] = [_SLIDING if slide else _FULL for slide in slides]
    if "use_sliding_window" in kind.reads:
        # Versions of transformers before `layer_types` read only these fields.
        fields["use_sliding_window"] = window is not None
        fields["max_window_layers"] = slides.index(True) if any(slides) else len(slides)
    if "sliding_window_pattern" in kind.reads and full:
        fields["sliding_window_pattern"] = full[0] + 1
    return fields


def _written_rope(model: Mapping[str, Any]) -> dict[str, Any]:
    kind = model["rope_scaling"]
    scaling = {theirs: model[ours] for theirs, ours in _SCALINGS[kind].items()}
    rope = {"rope_type": kind, "rope_theta": model["rope_theta"], **scaling}
    fields: dict[str, Any] = {"rope_parameters": rope}
    if kind != "default":
        fields["rope_scaling"] = {"rope_type": kind, **scaling}
    if (local := model["local_rope_theta"]) is not None:
        sliding = {"rope_type": "default", "rope_theta": local}
        fields["rope_parameters"] = {_FULL: rope, _SLIDING: sliding}
        fields["rope_local_base_freq"] = local
    return fields


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
class Config(causal.Config):  # type: ignore[misc]
    """Options of `causal.Config`, and the following.

    Attributes:
        model_type: `model_type` of config.json, one of `KINDS`; the
            network does not depend on it.
        num_kv_heads: key and value heads; None means `num_heads`.
        local_rope_theta: base in the layers with a window, whose positions are not
            scaled; None means `rope_theta` and the same scaling.
        rope_scaling: "default" for none, or the kind of a `layers.RotaryScaling`.
        max_positions: longest training sequence in tokens; only written to config.json.
        sliding_window: number of keys that a query sees, including its own; None for
            all.
        full_attention_layers: indices of the layers without the window, from 0.
        query_pre_attn_scalar: attention logits are divided by its square root; None
            means head_dim.
        attention_cap: cap of the attention logits (`layers.softcap`); None for none.
        unit_offset_norm: whether norms multiply by 1 + scale.
        post_norms: whether the outputs of attention and of MLP are also normalized.

    Raises:
        UserError: an invalid window, cap, base, or kind of scaling.
    """

    vocab_size: causal.Size = key("vocab_size")
    emb_dim: causal.Size = key("hidden_size")
    num_layers: causal.Layers = key("num_hidden_layers")
    num_heads: causal.Size = key("num_attention_heads")
    mlp_dim: causal.Size = key("intermediate_size")
    norm_epsilon: float = key("rms_norm_eps", 1e-5, absent=REQUIRED)
    activation: str = "silu"
    tie_embeddings: bool = key("tie_word_embeddings", False, absent=REQUIRED, read=bool)
    attention_dropout_rate: float = key(
        "attention_dropout", 0.0, read=lambda rate: float(rate or 0)
    )
    bos_token_id: int = key("bos_token_id", 0, read=hf_config.or_zero)
    model_type: str = "llama"
    num_kv_heads: int | None = None
    rope_theta: Above = 10000.0
    local_rope_theta: Above | None = None
    rope_scaling: Literal["default", "linear", "llama3"] = "default"
    rope_factor: Above = 1.0
    rope_low_frequency: float = 1.0
    rope_high_frequency: float = 4.0
    rope_original_positions: int = 8192
    max_positions: int = key("max_position_embeddings", 2048, absent=REQUIRED)
    attention_bias: bool = key("attention_bias", False, read=bool)
    qkv_bias: bool = False
    mlp_bias: bool = key("mlp_bias", False, read=bool)
    qk_norm: bool = False
    sliding_window: causal.Size | None = None
    full_attention_layers: tuple[int, ...] = ()
    query_pre_attn_scalar: Above | None = key(
        "query_pre_attn_scalar", None, absent=REQUIRED
    )
    attention_cap: Above | None = key("attn_logit_softcapping", None)
    logits_cap: Above | None = key("final_logit_softcapping", None)
    unit_offset_norm: bool = False
    post_norms: bool = False
    scale_embedding: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rope_high_frequency <= self.rope_low_frequency:
            raise UserError(
                f"llama.Config.rope_high_frequency = {self.rope_high_frequency!r}: "
                f"give more than rope_low_frequency, {self.rope_low_frequency!r}."
            )

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published model from its config.json."""
        return cls(**options(config))

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
    fields = written(values)
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
