"""Reads and writes config.json of models of the Llama family; see `llama`.

The values come from the published files and from the defaults of `transformers`, which
omits fields that equal their defaults.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.core.suggestion import one_of
from jaxaug.models.weights import hf_config, hf_generation, hf_table

_FIELD = hf_table.Field
_TABLE = (
    _FIELD("vocab_size", "vocab_size"),
    _FIELD("hidden_size", "emb_dim"),
    _FIELD("intermediate_size", "mlp_dim"),
    _FIELD("num_hidden_layers", "num_layers"),
    _FIELD("num_attention_heads", "num_heads"),
    _FIELD("rms_norm_eps", "norm_epsilon"),
    _FIELD("max_position_embeddings", "max_positions"),
    _FIELD("attention_dropout", "attention_dropout_rate", 0.0, lambda p: float(p or 0)),
    _FIELD("tie_word_embeddings", "tie_embeddings", read=bool),
    _FIELD("bos_token_id", "bos_token_id", 0, hf_table.or_zero),
)
# Fields that only some kinds read.
_OPTIONAL = (
    _FIELD("attention_bias", "attention_bias", False, bool),
    _FIELD("mlp_bias", "mlp_bias", False, bool),
    _FIELD("query_pre_attn_scalar", "query_pre_attn_scalar"),
    _FIELD("attn_logit_softcapping", "attention_cap", None),
    _FIELD("final_logit_softcapping", "logits_cap", None),
)
_FULL, _SLIDING = "full_attention", "sliding_attention"
_FIX = "Use the config.json that was published with the weights."


class Kind(NamedTuple):
    """Meaning of a `model_type`.

    Attributes:
        name: name of the kind in messages.
        architecture: class of `transformers` with the language-model head.
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
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
}
_READ = (
    *(field.theirs for field in _TABLE), "num_key_value_heads", "head_dim",
    "hidden_act", "rope_theta", "rope_scaling", "rope_parameters",
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
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "num_key_value_heads": 4,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
    "bos_token_id": 2,
}
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
    """Returns the arguments of `llama.Config` for a published model.

    Args:
        config: contents of config.json.

    Raises:
        UserError: another architecture, missing sizes, an unsupported option, or an
            unknown field.
    """
    kind = KINDS[hf_config.checked_type(config, KINDS)]
    hf_config.require(config, config["model_type"], kind.architecture)
    hf_generation.refuse_forced(config, kind.name)
    hf_config.refuse(config, _FIXED)
    hf_config.refuse_unknown(config, {*_READ, *_FIXED, *kind.reads})
    settings = {**_DEFAULTS, **kind.defaults, **config}
    # Null means the default in these fields, unlike in those for windows and caps.
    for name in ("rms_norm_eps", "rope_theta", "head_dim", "rope_local_base_freq"):
        if settings.get(name) is None and name in {**_DEFAULTS, **kind.defaults}:
            settings[name] = {**_DEFAULTS, **kind.defaults}[name]
    if config["model_type"] == "gemma3_text":
        # `transformers` reads this field but does not apply it.
        hf_config.refuse(settings, {"attn_logit_softcapping": None})
    read = hf_table.read(_table(kind), settings)
    heads = read["num_heads"]
    activation = settings.get("hidden_activation") or settings["hidden_act"]
    return {
        "model_type": config["model_type"],
        **read,
        "head_dim": settings.get("head_dim") or settings["hidden_size"] // heads,
        "activation": hf_table.activation(activation),
        "num_kv_heads": settings.get("num_key_value_heads") or heads,
        **kind.options,
        **_windows(settings),
        **_rope(settings),
    }


def _table(kind: Kind) -> list[hf_table.Field]:
    return [*_TABLE, *(field for field in _OPTIONAL if field.theirs in kind.reads)]


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
    return {"rope_theta": float(theta), **chosen, **_scaling(rope)}


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


def _scaling(rope: Mapping[str, Any]) -> dict[str, Any]:
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
    """Returns the config.json of a model, for transformers 4 and 5; inverts `options`.

    Args:
        model: the fields of a `llama.Config`.

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
        **hf_table.written(_table(kind), model),
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
