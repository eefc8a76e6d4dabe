"""The results of a beam search from its last state, sorted ascending."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxaug.decode.beam_loop import Search
from jaxaug.decode.beam_state import BeamState, take
from jaxaug.decode.candidates import IMPOSSIBLE, Select, chosen_mask
from jaxaug.decode.contract import NEG_INF

Result = tuple[Int[Array, "batch k length_1"], Float[Array, "batch k"]]


def of_t5x(process: Search, state: BeamState) -> Result:
    """Returns the pool of each row, sorted ascending by score.

    A row without a finished hypothesis has its live beams and plain log probabilities
    instead.
    """
    live, pool = state.live, state.pool
    ended = jnp.any(pool.scores > -jnp.inf, axis=1, keepdims=True)
    tokens = jnp.where(ended[..., None], pool.tokens, live.tokens)
    scores = jnp.where(ended, pool.results, live.log_probs)
    order = jnp.flip(jnp.argsort(-scores, axis=1, stable=True), axis=1)
    return take(tokens, order), take(scores, order)


def filled(process: Search, state: BeamState, last: Select | None) -> Result:
    """Returns the hypotheses that `last` chooses from the pool, sorted ascending.

    Without `last` they are the best of each group. Live beams fill empty slots.
    """
    groups, k = process.groups, process.rows
    live, pool = state.live, state.pool
    real = pool.scores > -jnp.inf
    picked = real if last is None else chosen_mask(last, process.ended(state, k))
    rank = jnp.where(real, jnp.where(picked, 0, 1), 2)
    split = process.split
    best = jnp.argsort(split(rank), axis=1, stable=True)[:, : k // groups]
    tokens, scores, ended = take(
        jax.tree.map(split, (pool.tokens, pool.results, real)), best
    )
    # Slots that stayed empty are the last ones: they get the best live beams in order.
    of_live = split(live.log_probs / process.penalty(live.lengths))
    of_live = jnp.where(split(live.scores > -jnp.inf), of_live, NEG_INF)
    # A broken row has scores that are no numbers, and they have to be seen.
    of_live = jnp.where(jnp.isnan(split(live.log_probs)), jnp.nan, of_live)
    slot = jnp.arange(k // groups) - jnp.sum(ended, axis=1, keepdims=True)
    growing = take((split(live.tokens), of_live), jnp.maximum(slot, 0))
    seen = (growing[1] > IMPOSSIBLE) | jnp.isnan(growing[1])
    tokens = jnp.where(
        ended[..., None], tokens, jnp.where(seen[..., None], growing[0], 0)
    )
    scores = jnp.where(ended, scores, growing[1])
    tokens, scores, ended = map(process.join, (tokens, scores, ended))
    order = jnp.flip(jnp.lexsort((-scores, ~ended), axis=1), axis=1)
    return take(tokens, order), take(scores, order)
