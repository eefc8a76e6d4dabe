"""Converts a T5 between `t5x.examples.t5` and the scanned layers of `scalable_t5`.

A scanned stack holds each parameter of its layers in one array with an axis for the
layers. Its attention kernels have separate axes for heads and head_dim. Each layer has
a position bias, where T5 has one for the stack. Every T5 can therefore be stacked
without changing its outputs. The inverse needs layers with equal biases.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from flax import traverse_util
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError

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
    """Inverts `stacked`; `source` names the checkpoint in messages.

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
