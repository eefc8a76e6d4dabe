"""Top-k and top-p masks by binary search over the bits of float32.

Both need the largest threshold that still keeps enough. Floats sort like their bit
patterns (with the order of negative ones reversed), so that threshold is built bit by
bit from the top in 32 reductions: no sort of the vocabulary, and k and p may be traced.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

_SIGN = np.uint32(0x80000000)


def _sortable(x: Float[Array, "..."]) -> UInt32[Array, "..."]:
    """Unsigned keys in the order of the floats."""
    bits = lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)
    return jnp.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _largest_key(
    shape: tuple[int, ...],
    keeps_enough: Callable[[UInt32[Array, "..."]], Bool[Array, "..."]],
) -> UInt32[Array, "..."]:
    """The largest key for which the (monotonically falling) predicate holds, or 0."""

    def set_bit(i: Int[Array, ""], key: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
        candidate = key | (_SIGN >> i.astype(jnp.uint32))
        return jnp.where(keeps_enough(candidate), candidate, key)

    return lax.fori_loop(0, 32, set_bit, jnp.zeros(shape, jnp.uint32))


def topk_mask(
    x: Float[Array, "*batch vocab"], k: int | Int[Array, ""], replace_val: float
) -> Float[Array, "*batch vocab"]:
    """Replaces all but the k largest values of each row by `replace_val`.

    Values equal to the k-th largest are all kept, so ties may keep more than k. With
    k = 0 nothing is kept; k at or above the size of the vocabulary keeps everything.
    """
    keys = _sortable(x)

    def keeps_enough(key: UInt32[Array, "..."]) -> Bool[Array, "..."]:
        return jnp.sum(keys >= key[..., None], axis=-1) >= k

    threshold = _largest_key(x.shape[:-1], keeps_enough)
    return jnp.where(keys >= threshold[..., None], x, jnp.full_like(x, replace_val))


def topp_mask(
    logits: Float[Array, "*batch vocab"],
    p: float | Float[Array, ""],
    replace_val: float,
) -> Float[Array, "*batch vocab"]:
    """Keeps the smallest set of most probable tokens whose mass is at least p.

    Nucleus sampling (Holtzman et al., 2020). Tokens as probable as the last one of the
    set are kept too. The others become `replace_val`; p at or above 1 keeps all.
    """
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    keys = _sortable(probs)

    def keeps_enough(key: UInt32[Array, "..."]) -> Bool[Array, "..."]:
        return jnp.sum(jnp.where(keys >= key[..., None], probs, 0.0), axis=-1) >= p

    threshold = _largest_key(logits.shape[:-1], keeps_enough)
    kept = keys >= threshold[..., None]
    return jnp.where(kept, logits, jnp.full_like(logits, replace_val))
