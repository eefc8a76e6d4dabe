"""The sampling loop of all decoders: one step with a pluggable choice of the token.

`rows` is batch * decodes, with the decodes of one input next to each other.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.struct
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from t5x.search.decode_state import (
    BROKEN,
    Cache,
    DecodingState,
    TokensToLogits,
    cache_map,
    check_decodes,
    flat_batch_beam_expand,
    start_index,
    unflatten_beam_dim,
)
from t5x.state_utils import as_container

# Columns of `SamplingLoopState.sequences` beyond the input length: BOS shifts all
# tokens right by one, and full rows write into the last column.
_EXTRA_COLUMNS = 2


class SamplingLoopState(flax.struct.PyTreeNode):
    """State of the loop, as callbacks see it.

    Attributes:
        cur_index: [rows] position of `cur_token`.
        sequences: [rows, length + 2]; column 0 is BOS, the last one is scratch space.
        rng: key of the remaining steps, or a key for each row.
        log_prob: [rows] log probability of the drawn tokens.
        drawn: [rows] number of tokens drawn, without those that the prompt or the model
            forced.
        limit: [rows] length at which a row is full.
        prompt_ends: [rows] number of EOS among the forced tokens.
    """

    step: Int[Array, ""]
    cur_index: Int[Array, " rows"]
    sequences: Int[Array, "rows length_2"]
    cache: Cache
    cur_token: Int[Array, "rows 1"]
    ended: Bool[Array, "rows 1"]
    rng: Shaped[Array, "..."]
    log_prob: Float[Array, " rows"]
    drawn: Int[Array, " rows"]
    limit: Int[Array, " rows"]
    prompt_ends: Int[Array, " rows"]

    @property
    def tokens(self) -> Int[Array, "rows length"]:
        """Prompt and drawn tokens, without BOS."""
        return self.sequences[:, 1:-1]


class Choice(NamedTuple):
    """Tokens of a step, their log probabilities, and `SamplingLoopState.rng` after it.

    `is_drawn` says where the model allowed several tokens.
    """

    tokens: Int[Array, " rows"]
    log_probs: Float[Array, " rows"]
    rng: Shaped[Array, "..."]
    is_drawn: Bool[Array, " rows"] | bool = True


Choose = Callable[[Float[Array, "rows vocab"], SamplingLoopState], Choice]


@dataclasses.dataclass(frozen=True)
class Sampler:
    """Constants of all steps of a run; per-row values are in `SamplingLoopState`.

    Attributes:
        tokens_to_logits: one decoder step on all rows.
        choose: chooses the next tokens; a token with the log probability NaN becomes
            `BROKEN`.
        eos_id: token that ends a row, if it is not forced.
        before_step: maps the state before every step; None for no change.
    """

    tokens_to_logits: TokensToLogits
    choose: Choose
    eos_id: int
    before_step: Callable[[SamplingLoopState], SamplingLoopState] | None = None

    def step(self, state: SamplingLoopState) -> SamplingLoopState:
        """Feeds the current tokens and writes the next ones."""
        if self.before_step is not None:
            state = self.before_step(state)
        logits, cache = self.tokens_to_logits(
            DecodingState(
                cur_index=state.cur_index,
                sequences=state.sequences[:, :-_EXTRA_COLUMNS],
                cur_token=state.cur_token,
                cache=state.cache,
            )
        )
        choice = self.choose(logits, state)
        broken = jnp.isnan(choice.log_probs)
        token = jnp.where(broken, BROKEN, choice.tokens)[:, None]

        # Full rows stay at their limit while others continue.
        index = jnp.minimum(state.cur_index, state.limit)
        forced = jnp.take_along_axis(state.sequences, index[:, None] + 1, axis=1)
        token = jnp.where(forced == 0, token, forced)
        token = jnp.where(state.ended, 0, token)
        counted = ((forced == 0) & ~state.ended)[:, 0]
        column = jnp.arange(state.sequences.shape[1])
        sequences = jnp.where(column == index[:, None] + 1, token, state.sequences)
        # A row with more EOS than its prompt has generated one.
        ends = jnp.sum(sequences == self.eos_id, axis=1) > state.prompt_ends
        ends |= index >= state.limit - 1
        return state.replace(
            step=state.step + 1,
            cur_index=index + 1,
            sequences=sequences,
            cache=as_container(cache, state.cache),
            cur_token=token,
            ended=state.ended | ends[:, None] | (token == BROKEN),
            rng=choice.rng,
            log_prob=state.log_prob + jnp.where(counted, choice.log_probs, 0.0),
            drawn=state.drawn + (counted & choice.is_drawn),
        )


def begin(
    inputs: Int[Array, "batch length"],
    cache: Cache,
    eos_id: int,
    num_decodes: int,
    rng: Shaped[Array, "..."],
    limit: Int[Array, " batch"],
    cache_offset: int,
    initial_index: Int[Array, " batch"] | None,
) -> SamplingLoopState:
    """Returns the state before the first step.

    Args:
        rng: key of the run, or a key for each row.
        limit: length at which a row is full.
    """
    expand = functools.partial(flat_batch_beam_expand, beam_size=num_decodes)
    start, limit = expand(start_index(inputs, initial_index)), expand(limit)
    sequences = jnp.pad(inputs, ((0, 0), (0, _EXTRA_COLUMNS))).astype(jnp.int32)
    if initial_index is None:
        sequences = sequences.at[:, 0].set(0)
    sequences = expand(sequences)
    return SamplingLoopState(
        step=jnp.zeros((), jnp.int32),
        cur_index=start,
        sequences=sequences,
        cache=cache_map(
            functools.partial(expand, offset=cache_offset),
            cache,
            apply_to_index=initial_index is not None,
        ),
        cur_token=jnp.take_along_axis(sequences, start[:, None], axis=1),
        ended=(start >= limit)[:, None],
        rng=rng,
        log_prob=jnp.zeros(start.shape, jnp.float32),
        drawn=jnp.zeros_like(start),
        limit=limit,
        prompt_ends=jnp.sum(sequences == eos_id, axis=1),
    )


def run(
    sampler: Sampler, state: SamplingLoopState, num_decodes: int
) -> tuple[Int[Array, "batch decodes length"], Float[Array, "batch decodes"]]:
    """Decodes until all rows have ended.

    Returns tokens without BOS, 0 after EOS, and log probabilities of the drawn tokens,
    both sorted ascending by the latter. Outside of compiled programs, a broken row is a
    UserError.
    """
    state = lax.while_loop(lambda state: ~jnp.all(state.ended), sampler.step, state)
    if sampler.before_step is not None:
        state = sampler.before_step(state)
    batch = state.log_prob.shape[0] // num_decodes
    decodes = unflatten_beam_dim(state.tokens, batch, num_decodes)
    log_prob = unflatten_beam_dim(state.log_prob, batch, num_decodes)
    check_decodes(decodes)
    order = jnp.argsort(log_prob, axis=1, stable=True)
    return (
        jnp.take_along_axis(decodes, order[..., None], axis=1),
        jnp.take_along_axis(log_prob, order, axis=1),
    )
