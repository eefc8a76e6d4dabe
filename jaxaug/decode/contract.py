"""Parts of the T5X decode contract that sampling and beam search share.

A decode function gets `inputs` [batch, length]. Column 0 is BOS, 0 is a free position,
and column j + 1 of `inputs` belongs to column j of the result. With
`initial_index` the cache already holds that many tokens of the prompt.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxaug.core.errors import UserError

# Of beams: finite, so that what is impossible can be added and compared without NaN.
NEG_INF = -1.0e7
# Stands for a token that could not be chosen. No vocabulary has this id, so it is never
# taken for text, even without a call of `check_decodes`. Its score is NaN.
BROKEN = -1

DecodeFn = TypeVar("DecodeFn", bound=Callable[..., Any])


def rows_alone(decode_fn: DecodeFn) -> DecodeFn:
    """Marks a decode function in which the result of a row depends on that row only.

    The programs of the runtime read the mark, and group examples by length.
    """
    decode_fn.rows_alone = True  # type: ignore[attr-defined]
    return decode_fn


def check_decodes(
    decodes: Int[Array, "batch decodes length"]
    | Int[np.ndarray, "batch decodes length"],
) -> None:
    """Checks that the result of a decode function has no `BROKEN` token.

    Inside a compiled program it does nothing; the caller of the program checks instead.

    Raises:
        UserError: the logits of a step were NaN or infinite.
    """
    if isinstance(decodes, jax.core.Tracer):
        return
    places = np.argwhere(np.asarray(decodes) == BROKEN)
    if len(places):
        row, _, step = min(places.tolist(), key=lambda place: place[-1])
        raise _broken(step, f" of row {row}")


def check_tokens(tokens: Sequence[int]) -> None:
    """Checks that one output has no `BROKEN` token; raises as `check_decodes`."""
    if BROKEN in tokens:
        raise _broken(tokens.index(BROKEN), "")


def _broken(step: int, where: str) -> UserError:
    return UserError(
        f"decoding step {step} (counted from 0){where}: the logits of the model are "
        "NaN or infinite, no token can be chosen. Its weights are damaged or its "
        "activations overflow: check the weights, or use float32."
    )


def all_finite(logits: Float[Array, "*rows vocab"]) -> Bool[Array, "*rows"]:
    """Returns, for each row, whether all its logits are finite."""
    return jnp.all(jnp.isfinite(logits), axis=-1)


def start_index(
    inputs: Int[Array, "batch length"], initial_index: Int[Array, " batch"] | None
) -> Int[Array, " batch"]:
    """Returns the number of prompt tokens that the cache holds for each row."""
    if initial_index is None:
        return jnp.zeros((inputs.shape[0],), jnp.int32)
    return jnp.asarray(initial_index, jnp.int32)


def prompt_lengths(
    inputs: Int[Array, "batch length"], start: Int[Array, " batch"]
) -> Int[Array, " batch"]:
    """Returns the number of tokens of each row before the first free position."""
    given = jnp.cumprod(inputs[:, 1:] != 0, axis=1).astype(jnp.int32)
    return jnp.maximum(jnp.sum(given, axis=1), start)


def length_limits(
    inputs: Int[Array, "batch length"],
    prompts: Int[Array, " batch"],
    max_decode_steps: int | None,
) -> Int[Array, " batch"]:
    """Returns the maximum number of tokens of each row, prompt included.

    Args:
        inputs: forced tokens; see the head of this module.
        prompts: number of prompt tokens of each row.
        max_decode_steps: maximum number of tokens after the prompt; None allows
            `length` tokens with the prompt.

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
    """Returns `cache` frozen or unfrozen as `like` is; loops need equal types."""
    if isinstance(like, flax.core.FrozenDict):
        return flax.core.freeze(cache)
    return flax.core.unfreeze(cache)
