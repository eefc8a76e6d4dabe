"""A model for text with weights of fewer bits."""

import dataclasses
import functools
from typing import Any, TypeVar

import jax.numpy as jnp

from jaxaug.core.errors import UserError
from jaxaug.models.layers import int8
from jaxaug.models.text.language import LanguageModel
from jaxaug.models.text.registry import TextModel

PRECISIONS = ("float32", "int8")
Model = TypeVar("Model", bound=TextModel | LanguageModel)


def with_precision(model: Model, precision: str) -> Model:
    """The model with its weights in a precision of `PRECISIONS`.

    Int8 weights are those of linear maps and token embeddings, which are nearly all; see
    `jaxaug.models.layers.int8`.

    Raises:
      UserError: another precision, or a network without any layer that can have it.
    """
    if precision not in PRECISIONS:
        raise UserError(
            f"precision {precision!r} is not known; give one of {', '.join(PRECISIONS)}."
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
    params = int8.quantised(model.params, int8.found(call))
    if params.keys() == model.params.keys() and not _has_scales(params):
        raise UserError(
            f"model {model.label!r}: its network has no layer that can have int8 "
            "weights. Leave the precision at float32."
        )
    return dataclasses.replace(model, params=params)


def _has_scales(params: Any) -> bool:
    return isinstance(params, dict) and any(
        name.endswith("_scale") or _has_scales(value) for name, value in params.items()
    )
