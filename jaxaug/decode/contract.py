"""What sampling and beam search share of the T5X decode contract.

A decode function gets `inputs` [batch, length], in which column 0 is BOS and 0 is a free
position: column j + 1 of `inputs` belongs to column j of the result. With
`initial_index` the cache already holds that many tokens of the prompt.
"""

from typing import Any

import flax.core
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxaug.core.errors import UserError

# Finite, so that what is removed can still be added and compared without NaN.
NEG_INF = -1.0e7


def start_index(
    inputs: Int[Array, "batch length"], initial_index: Int[Array, " batch"] | None
) -> Int[Array, " batch"]:
    """Number of prompt tokens in the cache."""
    if initial_index is None:
        return jnp.zeros((inputs.shape[0],), jnp.int32)
    return jnp.asarray(initial_index, jnp.int32)


def prompt_lengths(
    inputs: Int[Array, "batch length"], start: Int[Array, " batch"]
) -> Int[Array, " batch"]:
    """Number of tokens before the first free position."""
    given = jnp.cumprod(inputs[:, 1:] != 0, axis=1).astype(jnp.int32)
    return jnp.maximum(jnp.sum(given, axis=1), start)


def length_limits(
    inputs: Int[Array, "batch length"],
    prompts: Int[Array, " batch"],
    max_decode_steps: int | None,
) -> Int[Array, " batch"]:
    """Largest number of tokens of each row, its prompt counted.

    Raises:
        UserError: `max_decode_steps` is not between 1 and the length.
    """
    length = inputs.shape[1]
    if max_decode_steps is None:
        return jnp.full_like(prompts, length)
    if not 1 <= max_decode_steps <= length:
        raise UserError(
            f"max_decode_steps is {max_decode_steps}, but must lie between 1 and the "
            f"length of the decoder inputs, {length}: change it or the targets' length"
        )
    return jnp.minimum(length, prompts + max_decode_steps)


def match_container(cache: Any, like: Any) -> Any:
    """`cache` frozen or unfrozen as `like` is: the state of a loop keeps its type."""
    if isinstance(like, flax.core.FrozenDict):
        return flax.core.freeze(cache)
    return flax.core.unfreeze(cache)
