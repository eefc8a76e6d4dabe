"""Initial attention heads for encoders that learn to read a schema from scratch.

Assigning the value after "color of the car" to index 3 takes four steps. A word of a
description learns its index. A word of the dialogue finds the same word in the
descriptions. The value learns this from its neighbors, and the decoder asks for it.
Each step helps only if the others work, so a small model searches for thousands of
steps. Here, three heads of each layer start with the behavior of the first three steps,
and training may change them freely.
"""

from collections.abc import Mapping
from typing import Any

import flax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxaug.core.errors import UserError

_HEADS = 3
_LEFT, _RIGHT, _SAME = range(_HEADS)
# Added to the logits at distances of one to four tokens, before the softmax.
_NEAR = (4.0, 3.5, 3.0, 2.0)
_NOT_ITSELF = -8.0
# Scale of queries and keys: the logit of a word with itself is then about 15 above the
# others.
_SCALE = 0.7


def start(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a T5 with three reading heads per encoder layer.

    Head 0 attends to the tokens before its own, head 1 to those after it, and head 2 to
    equal tokens. The queries of head 2 start equal to its keys, and its bias excludes
    the token itself. All layers share the biases, as always in T5.

    Args:
        params: parameters of `t5x.examples.t5.network.Transformer`, layers not scanned.

    Raises:
        UserError: the encoder has fewer than three heads, or scanned layers.
    """
    flat = flax.traverse_util.flatten_dict(dict(params))
    tables = [p for p in flat if p[0] == "encoder" and p[-1] == "rel_embedding"]
    queries = [p for p in flat if p[0] == "encoder" and p[-2:] == ("query", "kernel")]
    if not tables or any(flat[p].ndim != 2 for p in (*tables, *queries)):
        raise UserError(
            "reading_heads = True needs an encoder with one table of relative "
            "positions and layers that are not scanned. Set it to False for this "
            "network."
        )
    heads = flat[tables[0]].shape[0]
    if heads < _HEADS:
        raise UserError(
            f"reading_heads = True needs {_HEADS} heads, and the network has {heads}. "
            "Give it more (num_heads), or set reading_heads to False."
        )
    for path in tables:
        flat[path] = _biases(flat[path])
    for path in queries:
        key = (*path[:-2], "key", "kernel")
        flat[path], flat[key] = _comparing(flat[path], flat[key], heads)
    return flax.traverse_util.unflatten_dict(flat)


def _biases(
    table: Float[Array, "heads buckets"],
) -> Float[Array, "heads buckets"]:
    """Returns a table with the biases of the reading heads.

    Buckets of T5 count distances to the left from 0, and to the right from the middle.
    """
    near = jnp.asarray(_NEAR, table.dtype)
    right = table.shape[1] // 2
    table = table.at[:_HEADS].set(0.0)
    table = table.at[_LEFT, 1 : 1 + len(_NEAR)].set(near)
    table = table.at[_RIGHT, right + 1 : right + 1 + len(_NEAR)].set(near)
    return table.at[_SAME, 0].set(_NOT_ITSELF)


def _comparing(
    query: Float[Array, "d heads_x_size"],
    key: Float[Array, "d heads_x_size"],
    heads: int,
) -> tuple[Float[Array, "d heads_x_size"], Float[Array, "d heads_x_size"]]:
    size = key.shape[1] // heads
    own = slice(_SAME * size, (_SAME + 1) * size)
    both = _SCALE * key[:, own]
    return query.at[:, own].set(both), key.at[:, own].set(both)
