"""Models for text with reduced weight precision."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import one_of
from jaxaug.models.layers import int8
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.registry import TextModel

PRECISIONS = ("float32", "bfloat16", "int8")
Model = TypeVar("Model", bound=TextModel | LanguageModel)


def with_precision(model: Model, precision: str) -> Model:
    """Returns the model with its weights in a precision of `PRECISIONS`.

    The precision holds for linear maps and token embeddings, which are nearly all
    weights. With bfloat16, the computation is in bfloat16 too, which is fastest on
    accelerators. Int8 weights are converted to floats for each product; see
    `jaxaug.models.layers.int8`.

    Raises:
        UserError: an unknown precision, or a network that does not support it.
    """
    if precision not in PRECISIONS:
        raise UserError(
            f"precision {precision!r} is not known; "
            f"{one_of(precision, PRECISIONS, 'give')}"
        )
    if precision == "float32":
        return model
    tokens = jnp.ones((1, 4), jnp.int32)
    inputs = 2 if isinstance(model, LanguageModel) else 3
    call: Any = functools.partial(
        model.module.apply,
        {"params": model.params},
        *[tokens] * inputs,
        enable_dropout=False,
    )
    found = int8.found(call)
    if precision == "bfloat16":
        return _in_bfloat16(model, found)
    params = int8.quantised(model.params, found)
    if params.keys() == model.params.keys() and not _has_scales(params):
        raise UserError(
            f"model {model.label!r}: its network has no layer that supports int8 "
            "weights. Leave the precision at float32."
        )
    return dataclasses.replace(model, params=params)


def _in_bfloat16(model: Model, weights: Iterable[int8.Path]) -> Model:
    config: Any = getattr(model.module, "config", None)
    if not hasattr(config, "dtype"):
        raise UserError(
            f"model {model.label!r}: its network has no config with a dtype that could "
            "be bfloat16. Leave the precision at float32."
        )
    module = model.module.clone(config=dataclasses.replace(config, dtype=jnp.bfloat16))
    flat = traverse_util.flatten_dict(dict(model.params))
    for path in weights:
        flat[path] = np.asarray(flat[path]).astype(jnp.bfloat16)
    return dataclasses.replace(
        model, module=module, params=traverse_util.unflatten_dict(flat)
    )


def _has_scales(params: Any) -> bool:
    return isinstance(params, dict) and any(
        name.endswith("_scale") or _has_scales(value) for name, value in params.items()
    )
