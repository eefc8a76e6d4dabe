"""Helpers on model variables."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import flax
import jax
from absl import logging
from flax import traverse_util
from flax.linen import partitioning as flax_partitioning

from t5x.errors import UserError


def override_params_axes_names(
    model_variables: Mapping[str, Any],
    params_axes_names_override: Sequence[tuple[str, tuple[str, ...]]] = (),
) -> Mapping[str, Any]:
    """Replaces logical axis names of parameters.

    Args:
        model_variables: collections of the model, with 'params' and 'params_axes'.
        params_axes_names_override: (pattern, axis names); the first pattern that
            matches a whole '/'-joined parameter name wins.

    Returns:
        The variables with new 'params_axes', frozen.

    Raises:
        UserError: 'params_axes' is missing, or the number of names differs from the
            rank.
    """
    if "params_axes" not in model_variables:
        raise UserError(
            "Model variables do not contain a 'params_axes' collection to apply an "
            "override to."
        )
    variables = flax.core.unfreeze(dict(model_variables))
    axes = traverse_util.flatten_dict(variables["params_axes"])
    for path, parameter in traverse_util.flatten_dict(variables["params"]).items():
        name = "/".join(path)
        names = next(
            (n for p, n in params_axes_names_override if re.fullmatch(p, name)), None
        )
        if names is None:
            continue
        if parameter.ndim != len(names):
            raise UserError(
                f"Provided axis name override for {name} does not match param rank "
                f"({parameter.ndim}): {names}"
            )
        logging.info("Axis names of %s: %s.", name, names)
        key = (*path[:-1], f"{path[-1]}_axes")
        axes[key] = flax_partitioning.AxisMetadata(names=tuple(names))
    variables["params_axes"] = traverse_util.unflatten_dict(axes)
    return flax.core.freeze(variables)


def set_hardware_rng_ops() -> None:
    """Makes newly created keys use the fast hardware generator."""
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
