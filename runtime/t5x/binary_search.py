"""Binary search over the 32 bits of numbers, and top-k and top-p masks based on it.

Both masks need the largest threshold that still keeps enough tokens. Floats sort like
their bit patterns (with the order of negative ones reversed). The threshold is
therefore built bit by bit from the top in 32 reductions. The vocabulary is not sorted,
and k and p may be traced.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

_SIGN = np.uint32(0x80000000)
_LARGEST_FLOAT = np.finfo(np.float32).max


def _sortable(x: Float[Array, "..."]) -> UInt32[Array, "..."]:
    """Returns unsigned keys in the order of the floats."""
    bits = lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)
    return jnp.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _float_of(key: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Returns the float that has this key."""
    bits = jnp.where(key >= _SIGN, key ^ _SIGN, ~key)
    return lax.bitcast_convert_type(bits, jnp.float32)


def _largest_key(
    shape: Sequence[int],
    keeps_enough: Callable[[UInt32[Array, "..."]], Bool[Array, "..."]],
) -> UInt32[Array, "..."]:
    """Returns the largest key for which the decreasing predicate holds, or 0."""

    def set_bit(i: Int[Array, ""], key: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
        # Without jit, the loop counts in Python integers.
        candidate = key | (_SIGN >> jnp.asarray(i, jnp.uint32))
        return jnp.where(keeps_enough(candidate), candidate, key)

    return lax.fori_loop(0, 32, set_bit, jnp.zeros(tuple(shape), jnp.uint32))


def float32_bsearch(
    batch_shape: Sequence[int], predicate: Callable[[Float[Array, "..."]], Array]
) -> Float[Array, "..."]:
    """Returns the largest finite float32 [batch_shape] for which `predicate` is false.

    The predicate is false up to some number of each search and true beyond it. The
    result is minus infinity where it is always true.
    """
    lowest, highest = _sortable(jnp.array([-_LARGEST_FLOAT, _LARGEST_FLOAT]))

    def is_false(key: UInt32[Array, "..."]) -> Bool[Array, "..."]:
        inside = jnp.clip(key, lowest, highest)
        found = jnp.logical_not(predicate(_float_of(inside)))
        return (key < lowest) | (found & (key <= highest))

    return _float_of(_largest_key(batch_shape, is_false))


def topk_mask(
    x: Float[Array, "*batch vocab"], k: int | Int[Array, ""], replace_val: float
) -> Float[Array, "*batch vocab"]:
    """Replaces all but the k largest values of each row by `replace_val`.

    All values equal to the k-th largest are kept, so ties may keep more than k. With k
    = 0 nothing is kept; k at or above the size of the vocabulary keeps everything.
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

    This is nucleus sampling (Holtzman et al., 2020). Tokens as probable as the last one
    of the set are kept too. The others become `replace_val`; p at or above 1 keeps all.
    """
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    keys = _sortable(probs)

    def keeps_enough(key: UInt32[Array, "..."]) -> Bool[Array, "..."]:
        return jnp.sum(jnp.where(keys >= key[..., None], probs, 0.0), axis=-1) >= p

    threshold = _largest_key(logits.shape[:-1], keeps_enough)
    # Because of rounding, the sum of fewer tokens may already reach 1.
    kept = (keys >= threshold[..., None]) | (jnp.asarray(p) >= 1)
    return jnp.where(kept, logits, jnp.full_like(logits, replace_val))
