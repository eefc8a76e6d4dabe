"""Warpers: pure functions that reshape the distribution of the next token.

A warper maps logits [rows, vocab] and the state of the rows to logits. Removed tokens
get the lowest value of the type, which no temperature gives to a kept token, and stay
removed. Factories return warpers; a chain is a sequence of them, applied in order.

The numbers of a warper are leaves of a pytree. A program that takes a chain as its
argument serves all temperatures, all p, and k up to the next power of two. Ties go to
the lowest token id, so that `top_k(1)` is greedy decoding. A warper that would remove
all tokens of a row leaves the row unchanged.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int
from t5x.binary_search import float32_bsearch

from jaxaug.core.buckets import power_of_two
from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, bounded

# The least temperature by which logits can be divided without overflow.
COLDEST = 1e-30
# Most probable tokens that are found at least, where k is not 1.
_CANDIDATES = 16


class WarpState(flax.struct.PyTreeNode):
    """State of the rows that warpers see.

    Attributes:
        step: [rows] number of tokens generated so far, without forced tokens of the
            prompt or the model.
        sequences: [rows, length] prompt and generated tokens, without BOS.
    """

    step: Int[Array, " rows"]
    sequences: Int[Array, "rows length"]
    lengths: Int[Array, " rows"]


Logits = Float[Array, "rows vocab"]
Warper = Callable[[Logits, WarpState], Logits]


_Positive = Annotated[int, Range(1)]


def apply(warpers: Sequence[Warper], logits: Logits, state: WarpState) -> Logits:
    """Returns the logits after all warpers of a chain, applied in order."""
    for warper in warpers:
        logits = warper(logits, state)
    return logits


def _room(k: int) -> int:
    """Returns a fixed number of candidates, at least k, for `lax.top_k`."""
    return 1 if k == 1 else power_of_two(k, _CANDIDATES)


@bounded
def temperature(t: Annotated[float, Range(0)]) -> Warper:
    """Returns a warper that divides the logits by `t`.

    Values below 1 sharpen the distribution, and values above 1 flatten it. 0 means
    greedy decoding: the warper is then `top_k(1)`, and belongs after warpers that
    remove tokens.

    Raises:
        UserError: `t` is negative, not finite, or too small to divide by.
    """
    if t == 0:
        return top_k(1)
    if t < COLDEST:
        raise UserError(
            f"temperature({t}): dividing by less than {COLDEST} overflows; 0 is greedy "
            "decoding"
        )
    return Partial(_divided, t=t)


def _divided(logits: Logits, state: WarpState, t: Any) -> Logits:
    return _scaled(logits, logits / t)


@bounded
def top_k(k: _Positive) -> Warper:
    """Returns a warper that keeps the `k` most probable tokens.

    A `k` of at least the vocabulary size keeps all tokens.
    """
    return Partial(_keeping(_room(k)), k=k)


@functools.cache  # One function for equal settings, so that programs are found again.
def _keeping(most: int) -> Callable[..., Logits]:
    def warp(logits: Logits, state: WarpState, k: Any) -> Logits:
        if not isinstance(k, jax.Array) and k >= logits.shape[-1]:
            return logits
        return jnp.where(_among_top(logits, k, most), logits, _lowest(logits))

    return warp


@bounded
def top_p(p: Annotated[float, Range(0, 1, above=True)]) -> Warper:
    """Returns a warper for nucleus sampling (Holtzman et al., 2020).

    It keeps the smallest set of most probable tokens whose mass is at least `p`. The
    least probability of the set is found by bisection, which on a CPU is about forty
    times as fast as sorting 32 000 tokens.

    Raises:
        UserError: `p` is not in (0, 1]; 1 keeps all.
    """
    return Partial(_unchanged) if p == 1 else Partial(_of_mass, p=p)


def _unchanged(logits: Logits, state: WarpState) -> Logits:
    return logits


def _of_mass(logits: Logits, state: WarpState, p: Any) -> Logits:
    return jnp.where(_nucleus(logits, p), logits, _lowest(logits))


@bounded
def min_length(n: _Positive, eos_id: int = 1) -> Warper:
    """Returns a warper that removes EOS until `n` tokens are generated."""
    return held_back(n, eos_id)


def held_back(n: Any, eos_id: int) -> Warper:
    """Returns the warper `min_length` for a number `n` that may be traced."""
    return Partial(_without_eos, n=n, eos_id=eos_id)


def _without_eos(logits: Logits, state: WarpState, n: Any, eos_id: Any) -> Logits:
    is_eos = jnp.arange(logits.shape[-1]) == eos_id
    return _remove(logits, is_eos & (state.step < n)[:, None])


@bounded
def repetition_penalty(p: Annotated[float, Range(0, above=True)]) -> Warper:
    """Returns a warper that penalizes tokens which the row already has.

    Positive logits of such tokens are divided by `p`, negative ones multiplied. This is
    section 4.1 of Keskar et al. (2019) in the common sign-aware form. Values above 1
    discourage repetition. Tokens of a forced prompt count.

    Raises:
        UserError: `p` is not positive, or not finite; 1 changes nothing.
    """
    return Partial(_penalized, p=p)


def _penalized(logits: Logits, state: WarpState, p: Any) -> Logits:
    column = jnp.arange(state.sequences.shape[1])
    filled = column < state.lengths[:, None]
    present = _scatter(state.sequences, filled, logits.shape[-1])
    penalized = jnp.where(logits > 0, logits / p, logits * p)
    return _scaled(logits, jnp.where(present, penalized, logits))


@bounded
def no_repeat_ngrams(n: _Positive) -> Warper:
    """Returns a warper that removes tokens which would complete a repeated n-gram.

    See section 2.5 of Paulus et al. (2018). The n-grams of a forced prompt count.
    """
    return Partial(_without_repeats(n))


@functools.cache
def _without_repeats(n: int) -> Warper:
    def warp(logits: Logits, state: WarpState) -> Logits:
        sequences, lengths = state.sequences, state.lengths
        windows = sequences.shape[1] - n + 1
        if windows < 1:
            return logits
        first = jnp.arange(windows)
        repeats = first + n <= lengths[:, None]
        for offset in range(n - 1):
            # The token that stands at this place of the n-gram now being completed.
            place = jnp.maximum(lengths - (n - 1) + offset, 0)
            recent = jnp.take_along_axis(sequences, place[:, None], axis=1)
            repeats &= sequences[:, offset : offset + windows] == recent
        return _remove(
            logits, _scatter(sequences[:, n - 1 :], repeats, logits.shape[-1])
        )

    return warp


FALLBACK: tuple[Warper, ...] = (top_k(120), top_p(0.95))


@bounded
def bottom_k(
    k: _Positive = 2, n_steps: _Positive = 1, then: Sequence[Warper] = FALLBACK
) -> Warper:
    """Returns a warper for bottom-k sampling (Lu & Lam, 2023, eq. 2).

    It removes the `k` most probable tokens in the first `n_steps` steps, so that a
    paraphrase starts in a way that the model finds unlikely. In later steps it applies
    the chain `then`.

    Args:
        then: chain for the later steps; by default top-k (120), then top-p (0.95).

    Raises:
        UserError: `k` or `n_steps` is below 1, or the vocabulary has at most `k`
            tokens. If `k` is traced, the logits stay unchanged instead.
    """
    return Partial(_removing(_room(k)), k=k, n_steps=n_steps, then=tuple(then))


@functools.cache
def _removing(most: int) -> Callable[..., Logits]:
    def warp(
        logits: Logits, state: WarpState, k: Any, n_steps: Any, then: Sequence[Warper]
    ) -> Logits:
        vocab = logits.shape[-1]
        if not isinstance(k, jax.Array) and k >= vocab:
            raise UserError(
                f"bottom_k(k={k}) removes every token of a vocabulary of {vocab}: "
                "choose a smaller k"
            )
        early = _remove(logits, _among_top(logits, k, most))
        return jnp.where(
            (state.step < n_steps)[:, None], early, apply(then, logits, state)
        )

    return warp


def _lowest(logits: Logits) -> float:
    """Returns the logit of a removed token."""
    return float(jnp.finfo(logits.dtype).min)


def _scaled(before: Logits, after: Logits) -> Logits:
    """Returns the logits after a multiplication, with removed ones unchanged."""
    return jnp.where(before > _lowest(before), after, before)


def _remove(logits: Logits, removed: Bool[Array, "rows vocab"]) -> Logits:
    warped = jnp.where(removed, _lowest(logits), logits)
    some_left = jnp.max(warped, axis=-1, keepdims=True) > _lowest(logits)
    return jnp.where(some_left, warped, logits)


def _scatter(
    tokens: Int[Array, "rows n"], wanted: Bool[Array, "rows n"], vocab: int
) -> Bool[Array, "rows vocab"]:
    """Returns a mask of the tokens at the places where `wanted` is true."""
    rows = jnp.arange(tokens.shape[0])[:, None]
    # An id beyond the vocabulary is dropped.
    place = jnp.where(wanted, tokens, vocab)
    found = jnp.zeros((tokens.shape[0], vocab), jnp.bool_)
    return found.at[rows, place].set(True, mode="drop")


def _among_top(logits: Logits, k: Any, most: int) -> Bool[Array, "rows vocab"]:
    """Returns a mask of the `k` largest logits of each row, at most `most`."""
    values, indices = lax.top_k(logits, min(most, logits.shape[-1]))
    # Not column k of each: XLA merges a slice with the one inside of top_k, no longer
    # sees what it is, and sorts the whole row, on a CPU seventy times as slow.
    among = jnp.arange(values.shape[-1]) < k
    least = jnp.min(jnp.where(among, values, jnp.inf), axis=-1, keepdims=True)
    tied = jnp.where(among & (values == least), indices, -1)
    last = jnp.max(tied, axis=-1, keepdims=True)
    column = jnp.arange(logits.shape[-1])
    return (logits > least) | ((logits == least) & (column <= last))


def _nucleus(logits: Logits, p: Any) -> Bool[Array, "rows vocab"]:
    """Returns a mask of the smallest set of most probable tokens of mass `p`."""
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    wanted = p * jnp.sum(weights, axis=-1)

    def misses(least: Float[Array, " rows"]) -> Bool[Array, " rows"]:
        kept = jnp.where(weights >= least[:, None], weights, 0.0)
        return jnp.sum(kept, axis=-1) < wanted

    least = float32_bsearch(wanted.shape, misses)[:, None]
    above, tied = weights > least, weights == least
    missing = wanted - jnp.sum(jnp.where(above, weights, 0.0), axis=-1)
    needed = jnp.maximum(jnp.ceil(missing / jnp.maximum(least[:, 0], 1e-38)), 1)
    # Which of the tied ones matters seldom, and counting them costs a running sum.
    too_many = jnp.sum(tied, axis=-1) > needed
    return above | lax.cond(
        jnp.any(too_many),
        lambda: tied & (jnp.cumsum(tied, axis=-1) <= needed[:, None]),
        lambda: tied,
    )
