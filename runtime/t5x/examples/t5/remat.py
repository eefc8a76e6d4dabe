"""Rematerialization: values that the backward pass recomputes instead of storing."""

from typing import Any

import jax
from flax import linen as nn
from flax.linen.partitioning import remat

from t5x.errors import UserError

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
