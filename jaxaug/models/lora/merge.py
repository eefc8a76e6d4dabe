"""Merges adapters into weights and removes them: W +- scale A B."""

from collections.abc import Mapping
from typing import Any

import flax
import numpy as np
from flax import traverse_util

from jaxaug.models.lora.layout import A, B, Layout
from jaxaug.models.weights import keymap


def merge(
    params: Mapping[str, Any], adapter: Any, layout: Layout, sign: int = 1
) -> dict[str, Any]:
    """Returns parameters of a plain network that is equivalent to the adapted one.

    Args:
        params: NumPy parameters of the base, which do not change.
        adapter: nested matrices of the layout.
        layout: layout of the adapter.
        sign: 1 merges the adapter; -1 removes it.

    Returns:
        Nested parameters in the dtypes of the base; arrays without an adapter are not
        copied.
    """
    flat = dict(keymap.flat(params))
    pairs = traverse_util.flatten_dict(flax.core.unfreeze(adapter))
    for place in layout.places:
        a, b = (np.asarray(pairs[(*place.path, part)], np.float32) for part in (A, B))
        product = sign * layout.settings.scale * (a @ b)
        for path, part in zip(
            place.modules, np.split(product, len(place.modules), axis=1), strict=True
        ):
            kernel = np.asarray(flat[f"{path}/kernel"])
            changed = kernel.astype(np.float32) + part.reshape(kernel.shape)
            flat[f"{path}/kernel"] = changed.astype(kernel.dtype)
    return traverse_util.unflatten_dict(flat, sep="/")
