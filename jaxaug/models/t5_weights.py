"""Loads published T5, T5 v1.1, mT5, and Flan-T5 weights for `t5x.examples.t5.network`.

The network is the T5 of the runtime. This module adds the configuration (from and to
config.json, and from bare parameters) and the key map. Attention kernels join heads and
head size, as in the published T5.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import flax.struct
import numpy as np
from flax import traverse_util
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.models.weights import hf_config
from jaxaug.models.weights.hf_config import key
from jaxaug.models.weights.keymap import Weight, identity, transposed

NETWORK = network.Transformer
IGNORED = (
    # The first T5 checkpoints contain a table that no layer reads.
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
)

_ARCHITECTURES = {
    "T5ForConditionalGeneration": "lm",
    "T5WithLMHeadModel": "lm",
    "MT5ForConditionalGeneration": "lm",
}
# Values that are fixed in the network.
_FIXED = {
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
}
# Tokens that must have id 0 in the T5 of the runtime.
_ZERO = ("pad_token_id", "decoder_start_token_id")
_MAJOR_BELOW_5 = re.compile(r"[0-4]\.")
_ACTIVATIONS = {
    "relu": ("relu",),
    "silu": ("silu",),
    "gelu_new": ("gelu",),
    "gated-relu": ("relu", "linear"),
    "gated-gelu": ("gelu", "linear"),
    "gated-silu": ("silu", "linear"),
}


def _activations(name: str) -> tuple[str, ...]:
    if name not in _ACTIVATIONS:
        raise UserError(
            f"config.json: feed_forward_proj is {name!r}; known are "
            f"{', '.join(_ACTIVATIONS)}. Take a model with one of them."
        )
    return _ACTIVATIONS[name]


def _named(activations: Sequence[str]) -> str:
    named = {value: key for key, value in _ACTIVATIONS.items()}
    if tuple(activations) not in named:
        raise UserError(
            f"mlp_activations {tuple(activations)} has no name in config.json; known "
            f"are {', '.join(map(str, named))}. Such a model stays a T5X checkpoint."
        )
    return named[tuple(activations)]


@flax.struct.dataclass
class Config(network.T5Config):
    """`network.T5Config` that can be read from a config.json."""

    vocab_size: int = key("vocab_size", absent=32128)
    emb_dim: int = key("d_model", 512)
    num_heads: int = key("num_heads", 8)
    head_dim: int = key("d_kv", 64)
    mlp_dim: int = key("d_ff", 2048)
    num_encoder_layers: int = key("num_layers", 6)
    num_decoder_layers: int = key("num_decoder_layers", 6, absent=None)
    dropout_rate: float = key("dropout_rate", 0.1, read=float)
    mlp_activations: Sequence[str] = key(
        "feed_forward_proj", ("relu",), absent="relu", read=_activations, written=_named
    )

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published T5, mT5, or Flan-T5."""
        _check(config)
        fields = hf_config.read_fields(hf_config.table_of(cls), config)
        fields["num_decoder_layers"] = (
            fields["num_decoder_layers"] or fields["num_encoder_layers"]
        )
        return cls(**fields, logits_via_embedding=_tied(config))


def _tied(config: Mapping[str, Any]) -> bool:
    """Returns whether logits come from the embedding, scaled by emb_dim ** -0.5.

    Until transformers 5, `tie_word_embeddings` means both the tie and the scale.
    Transformers 5 writes the scale as `scale_decoder_outputs`. For mT5 it always writes
    a tie and never scales. If the head differs from the embedding, it is stored
    nevertheless.
    """
    is_mt5 = config.get("model_type") == "mt5"
    version = str(config.get("transformers_version", ""))
    if is_mt5 and _MAJOR_BELOW_5.match(version) is None:
        return False
    tied = config.get("tie_word_embeddings", not is_mt5)
    return bool(config.get("scale_decoder_outputs", tied))


def _check(config: Mapping[str, Any]) -> None:
    hf_config.head(config, _ARCHITECTURES, "T5ForConditionalGeneration")
    hf_config.refuse(config, _FIXED)
    for name in _ZERO:
        if config.get(name) not in (None, 0):
            raise UserError(
                f"config.json: {name} is {config[name]!r}; the T5 of the runtime pads "
                "with 0 and starts with it. Take a model that was trained so."
            )
    hf_config.refuse_forced(config, "T5")


def to_hf(config: network.T5Config) -> dict[str, Any]:
    """Returns the config.json of a T5, for transformers 4 and 5."""
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        **hf_config.written_fields(hf_config.table_of(Config), vars(config)),
        "tie_word_embeddings": config.logits_via_embedding,
        "scale_decoder_outputs": config.logits_via_embedding,
        "is_encoder_decoder": True,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        **_FIXED,
    }


def config_of(params: Mapping[str, Any], source: str) -> Config:
    """Returns the configuration that parameters of the network imply.

    The public T5X checkpoints have no configuration. A gated MLP means T5 v1.1 (GELU);
    any other MLP means T5 v1.0 (ReLU).

    Raises:
        UserError: the parameters do not belong to `network.Transformer`.
    """
    try:
        vocab_size, emb_dim = params["token_embedder"]["embedding"].shape
        encoder, decoder = params["encoder"], params["decoder"]
        heads = encoder["relpos_bias"]["rel_embedding"].shape[0]
        layer = encoder["layers_0"]
        gated = "wi_0" in layer["mlp"]
        return Config(
            vocab_size=vocab_size,
            emb_dim=emb_dim,
            num_heads=heads,
            head_dim=layer["attention"]["query"]["kernel"].shape[1] // heads,
            mlp_dim=layer["mlp"]["wo"]["kernel"].shape[0],
            num_encoder_layers=_layers(encoder),
            num_decoder_layers=_layers(decoder),
            mlp_activations=_ACTIVATIONS["gated-gelu" if gated else "relu"],
            logits_via_embedding="logits_dense" not in decoder,
        )
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{source} is not a checkpoint of t5x.examples.t5.network: {error} is "
            "missing. For another family name the published model with --like."
        ) from None


def _layers(stack: Mapping[str, Any]) -> int:
    return sum(name.startswith("layers_") for name in stack)


def key_map(config: network.T5Config) -> dict[str, Weight]:
    """Returns the tensor of `T5ForConditionalGeneration` for each flax path."""
    keys = {
        "token_embedder/embedding": identity(
            "shared.weight",
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
            # The tied tensor is the same under every name.
            *(("lm_head.weight",) if config.logits_via_embedding else ()),
        )
    }
    for index in range(config.num_encoder_layers):
        ours, theirs = f"encoder/layers_{index}", f"encoder.block.{index}.layer"
        keys |= _attention(f"{ours}/attention", f"{theirs}.0.SelfAttention")
        keys |= _mlp(f"{ours}/mlp", f"{theirs}.1.DenseReluDense", config)
        keys |= _norms(ours, theirs, ("pre_attention", "pre_mlp"))
    for index in range(config.num_decoder_layers):
        ours, theirs = f"decoder/layers_{index}", f"decoder.block.{index}.layer"
        keys |= _attention(f"{ours}/self_attention", f"{theirs}.0.SelfAttention")
        keys |= _attention(
            f"{ours}/encoder_decoder_attention", f"{theirs}.1.EncDecAttention"
        )
        keys |= _mlp(f"{ours}/mlp", f"{theirs}.2.DenseReluDense", config)
        norms = ("pre_self_attention", "pre_cross_attention", "pre_mlp")
        keys |= _norms(ours, theirs, norms)
    for stack in ("encoder", "decoder"):
        keys[f"{stack}/relpos_bias/rel_embedding"] = transposed(
            f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        )
        keys[f"{stack}/{stack}_norm/scale"] = identity(
            f"{stack}.final_layer_norm.weight"
        )
    if not config.logits_via_embedding:
        # Transformers 5 omits the head if it equals the embedding and is not scaled.
        head = transposed("lm_head.weight")._replace(otherwise="shared.weight")
        keys["decoder/logits_dense/kernel"] = head
    return keys


def _attention(ours: str, theirs: str) -> dict[str, Weight]:
    names = {"query": "q", "key": "k", "value": "v", "out": "o"}
    return {
        f"{ours}/{name}/kernel": transposed(f"{theirs}.{letter}.weight")
        for name, letter in names.items()
    }


def _mlp(ours: str, theirs: str, config: network.T5Config) -> dict[str, Weight]:
    inputs = ("wi",) if len(config.mlp_activations) == 1 else ("wi_0", "wi_1")
    return {
        f"{ours}/{name}/kernel": transposed(f"{theirs}.{name}.weight")
        for name in (*inputs, "wo")
    }


def _norms(ours: str, theirs: str, names: tuple[str, ...]) -> dict[str, Weight]:
    return {
        f"{ours}/{name}_layer_norm/scale": identity(f"{theirs}.{i}.layer_norm.weight")
        for i, name in enumerate(names)
    }


_STACKS = ("encoder", "decoder")
_BIAS = ("relpos_bias", "rel_embedding")
_LAYER = "layers_"


def scanned_config(config: network.T5Config, axis: int = 1) -> scalable.T5Config:
    """Returns the configuration of the scanned network; layers are on `axis`."""
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return scalable.T5Config(**values | {"scan_layers": True, "param_scan_axis": axis})


def plain_config(config: network.T5Config) -> network.T5Config:
    """Returns the configuration without the options of the scanned network."""
    fields = dataclasses.fields(network.T5Config)
    return network.T5Config(**{f.name: getattr(config, f.name) for f in fields})


def stacked(params: Mapping[str, Any], config: scalable.T5Config) -> dict[str, Any]:
    """Returns parameters of `t5x.examples.t5` converted to the scanned network."""
    flat = traverse_util.flatten_dict(params)
    lengths = config.num_encoder_layers, config.num_decoder_layers
    heads, depth = config.num_heads, config.head_dim
    result = {}
    for path, value in flat.items():
        stack, *rest = path
        if stack not in _STACKS or not (
            rest[0].startswith(_LAYER) or tuple(rest) == _BIAS
        ):
            result[path] = value
            continue
        length = lengths[_STACKS.index(stack)]
        if tuple(rest) == _BIAS:
            layers = [value] * length
        elif rest[0] == f"{_LAYER}0":
            rest = rest[1:]
            layers = [flat[stack, f"{_LAYER}{i}", *rest] for i in range(length)]
        else:
            continue
        if rest[-2] in ("query", "key", "value"):
            layers = [layer.reshape(-1, heads, depth) for layer in layers]
        elif rest[-2] == "out":
            layers = [layer.reshape(heads, depth, -1) for layer in layers]
        arrays = [np.asarray(layer) for layer in layers]
        result[stack, stack, *rest] = np.stack(arrays, config.param_scan_axis)
    return traverse_util.unflatten_dict(result)


def is_stacked(params: Mapping[str, Any]) -> bool:
    """Returns whether the layers of the stacks are scanned."""
    return all(stack in params.get(stack, {}) for stack in _STACKS)


def unstacked(params: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Inverts `stacked`; refuses stacks with different position biases.

    Raises:
        UserError: layers of a stack differ in their position biases.
    """
    width = params["token_embedder"]["embedding"].shape[1]
    result = {}
    for path, value in traverse_util.flatten_dict(params).items():
        stack, *rest = path
        if rest[0] != stack:
            result[path] = value
            continue
        rest = rest[1:]
        scale = params[stack][stack]["pre_mlp_layer_norm"]["scale"]
        layers = np.moveaxis(np.asarray(value), int(scale.shape[0] == width), 0)
        if tuple(rest) == _BIAS:
            if not (layers == layers[:1]).all():
                raise UserError(
                    f"{source}: the {stack}'s scanned layers have different position "
                    "biases, but a T5 has one for all. Such a network cannot be "
                    "converted."
                )
            result[stack, *_BIAS] = layers[0]
            continue
        for index, layer in enumerate(layers):
            if rest[-2] in ("query", "key", "value"):
                layer = layer.reshape(len(layer), -1)
            elif rest[-2] == "out":
                layer = layer.reshape(-1, layer.shape[-1])
            result[stack, f"{_LAYER}{index}", *rest] = layer
    return traverse_util.unflatten_dict(result)
