"""Sampling with temperature, top-k and top-p, and forced prompts."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x import binary_search, checks
from t5x.errors import UserError
from t5x.search.decode_state import (
    BROKEN,
    WOULD_ROWS_BE_ALONE,
    Cache,
    DecodingState,
    SamplingLoopState,
    TokensToLogits,
    cache_map,
    check_decodes,
    flat_batch_beam_expand,
    match_container,
    rows_alone_if_asked,
    unflatten_beam_dim,
    usable,
)

# Dividing by such a small temperature loses all precision, so argmax is used instead.
MIN_TEMPERATURE = np.array(1e-4)
# Columns of `SamplingLoopState.sequences` beyond the input length: BOS shifts all
# tokens right by one, and full rows write into the last column.
_EXTRA_COLUMNS = 2

StateCallbackFn = Callable[[SamplingLoopState], SamplingLoopState]
LogitCallbackFn = Callable[[Float[Array, "rows vocab"], SamplingLoopState], Array]


def _is_traced(value: object) -> bool:
    return isinstance(value, jax.core.Tracer)


@dataclasses.dataclass(frozen=True)
class _TokenChoice:
    """Chooses tokens from logits.

    Attributes:
        temperature: [] or [rows].
        topk, topp: 0 switches them off; may be traced.
        rescale: whether log probabilities come from the sampled distribution (True) or
            from the model (False).
        greedy: whether it is statically known that nothing is drawn; then the threshold
            search is skipped.
    """

    temperature: Float[Array, "*rows"]
    topk: int | Int[Array, ""]
    topp: float | Float[Array, ""]
    rescale: bool
    greedy: bool

    def __call__(
        self, logits: Float[Array, "rows vocab"], rng: Array
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
        """Returns tokens and log probabilities; `BROKEN` and NaN if there is none."""
        token, log_prob = self._choose(logits, rng)
        whole = usable(logits) & ~jnp.isnan(log_prob)
        return jnp.where(whole, token, BROKEN), jnp.where(whole, log_prob, jnp.nan)

    def _choose(
        self, logits: Float[Array, "rows vocab"], rng: Array
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
        if self.greedy:
            return self._greedy(logits)
        if self.temperature.ndim == 0:
            return lax.cond(
                self.temperature > MIN_TEMPERATURE,
                lambda: self._sample(logits, rng),
                lambda: self._greedy(logits),
            )
        return jax.tree.map(
            functools.partial(jnp.where, self.temperature > MIN_TEMPERATURE),
            self._sample(logits, rng),
            self._greedy(logits),
        )

    def _greedy(
        self, logits: Float[Array, "rows vocab"]
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
        token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        if self.rescale:
            return token, jnp.zeros(token.shape, jnp.float32)
        return token, _log_prob(logits, token)

    def _sample(
        self, logits: Float[Array, "rows vocab"], rng: Array
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
        temperature = self.temperature
        if temperature.ndim:
            temperature = temperature[:, None]
        scaled = logits / jnp.maximum(temperature, MIN_TEMPERATURE)
        scaled = self._mask(scaled)
        token = jax.random.categorical(rng, scaled).astype(jnp.int32)
        return token, _log_prob(scaled if self.rescale else logits, token)

    def _mask(self, scaled: Float[Array, "rows vocab"]) -> Float[Array, "rows vocab"]:
        masks: tuple[tuple[Callable, Any], ...] = (
            (binary_search.topk_mask, self.topk),
            (binary_search.topp_mask, self.topp),
        )
        # At low temperatures even kept logits may lie far below -1e7.
        removed = float(jnp.finfo(scaled.dtype).min)
        for mask, amount in masks:
            if _is_traced(amount):
                scaled = lax.cond(
                    amount > 0,
                    lambda x, mask=mask, amount=amount: mask(x, amount, removed),
                    lambda x: x,
                    scaled,
                )
            elif amount:
                scaled = mask(scaled, amount, removed)
        return scaled


def _draws_nothing(temperature: Any, topk: Any) -> bool:
    """Returns whether every token is statically known to be the most probable one."""
    if not _is_traced(topk) and topk == 1:
        return True
    if _is_traced(temperature):
        return False
    return bool(np.all(np.asarray(temperature) <= MIN_TEMPERATURE))


def _log_prob(
    logits: Float[Array, "rows vocab"], token: Int[Array, " rows"]
) -> Float[Array, " rows"]:
    log_probs = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probs, token[:, None], axis=-1)
    return picked[:, 0].astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class _Sampler:
    """One sampling loop; `limit` is the length of a row, [] or [rows]."""

    tokens_to_logits: TokensToLogits
    choose: _TokenChoice
    eos_id: int
    prompt_eos_count: Int[Array, "rows 1"]
    limit: int | Int[Array, " rows"]
    state_callback_fn: StateCallbackFn | None
    logit_callback_fn: LogitCallbackFn | None

    def unfinished(self, state: SamplingLoopState) -> Bool[Array, ""]:
        return ~jnp.all(state.ended)

    def step(self, state: SamplingLoopState) -> SamplingLoopState:
        """Feeds the current tokens and writes the next ones."""
        if self.state_callback_fn is not None:
            state = self.state_callback_fn(state)
        rng_now, rng_next = jax.random.split(state.rng)
        logits, cache = self.tokens_to_logits(
            DecodingState(
                cur_index=state.cur_index,
                sequences=state.sequences[:, :-_EXTRA_COLUMNS],
                cur_token=state.cur_token,
                cache=state.cache,
            )
        )
        if self.logit_callback_fn is not None:
            logits = self.logit_callback_fn(logits, state)
        token, log_prob = self.choose(logits, rng_now)

        # Full rows stay at their limit while others continue.
        index = jnp.minimum(state.cur_index, self.limit)
        forced = jnp.take_along_axis(state.sequences, index[:, None] + 1, axis=1)
        free = forced == 0
        next_token = jnp.where(free, token[:, None], forced)
        next_token = jnp.where(state.ended, 0, next_token)
        counted = (free & ~state.ended)[:, 0]

        column = jnp.arange(state.sequences.shape[1])
        sequences = jnp.where(column == index[:, None] + 1, next_token, state.sequences)
        # A row with more EOS than its prompt has generated one.
        eos_count = jnp.sum(sequences == self.eos_id, axis=1, keepdims=True)
        over = (index >= self.limit - 1)[:, None] | (next_token == BROKEN)
        return state.replace(
            step=state.step + 1,
            cur_index=index + 1,
            sequences=sequences,
            cache=match_container(cache, state.cache),
            cur_token=next_token,
            ended=state.ended | (eos_count > self.prompt_eos_count) | over,
            rng=rng_next,
            log_prob=state.log_prob + jnp.where(counted, log_prob, 0.0),
        )

    def run(
        self,
        sequences: Int[Array, "rows length_2"],
        cache: Cache,
        rng: Array,
        index: Int[Array, " rows"],
    ) -> SamplingLoopState:
        rows = sequences.shape[0]
        state = SamplingLoopState(
            step=jnp.zeros((), jnp.int32),
            cur_index=index,
            sequences=sequences,
            cache=cache,
            cur_token=jnp.take_along_axis(sequences, index[:, None], axis=1),
            ended=jnp.zeros((rows, 1), jnp.bool_),
            rng=rng,
            log_prob=jnp.zeros((rows,), jnp.float32),
        )
        state = lax.while_loop(self.unfinished, self.step, state)
        return (
            state if self.state_callback_fn is None else self.state_callback_fn(state)
        )


def _length_limit(
    inputs: Int[Array, "batch length"],
    max_decode_steps: int | Int[Array, ""] | None,
    hard_limit: int | None,
) -> int | Int[Array, " batch"]:
    """Returns the row length limit: the prompt plus `max_decode_steps`."""
    length = inputs.shape[1]
    if max_decode_steps is None:
        return length
    if hard_limit is not None:
        smaller = jnp.minimum if _is_traced(max_decode_steps) else min
        max_decode_steps = smaller(max_decode_steps, hard_limit)
    if not _is_traced(max_decode_steps) and max_decode_steps > length:
        raise ValueError(
            "Cannot decode more steps than the sequence length: max_decode_steps is "
            f"{max_decode_steps}, the inputs have {length} columns."
        )
    return jnp.minimum(length, jnp.sum(inputs != 0, axis=1) + max_decode_steps)


@rows_alone_if_asked
def temperature_sample(
    inputs: Int[Array, "batch length"],
    cache: Cache,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    decode_rng: Array | None = None,
    num_decodes: int = 1,
    temperature: float | Float[Array, "*batch"] = 1.0,
    topk: int = 1,
    topp: float = 0.0,
    cache_offset: int = 0,
    initial_index: Int[Array, " batch"] | None = None,
    max_decode_steps: int | Int[Array, ""] | None = None,
    max_decode_steps_hard_limit: int | None = None,
    rescale_log_probs: bool = True,
    state_callback_fn: StateCallbackFn | None = None,
    logit_callback_fn: LogitCallbackFn | None = None,
) -> tuple[Int[Array, "batch decodes length"], Float[Array, "batch decodes"]]:
    """Samples `num_decodes` continuations of each row of `inputs`.

    Each step splits the key in two, samples with the first half, and keeps the second.
    The default `topk=1` is greedy at any temperature; pass `topk=0` for plain sampling.
    After a generated EOS (one more than in the prompt) a row emits 0. The loop ends
    when every row has ended.

    For `rows_alone_if_asked` it answers True if all tokens are the most probable ones
    and there is no callback.

    With a temperature per row, the rows draw independent noise (T5X draws the same
    noise for all). A traced `topp` of 0 disables the mask.

    Args:
        inputs: tokens to force, shifted right: column 0 is BOS (0), 0 is free. Column j
            + 1 of `inputs` belongs to column j of the result.
        cache: cache with one row per input; leaves lead with `batch` after
            `cache_offset` axes.
        tokens_to_logits: one decoder step on all batch * num_decodes rows.
        eos_id: token that ends a row.
        decode_rng: key; `jax.random.PRNGKey(0)` if None.
        num_decodes: decodes per row.
        temperature: divides the logits, [] or [batch]; at most 1e-4 selects the argmax.
        topk: sample among the k most probable tokens; 0 means all.
        topp: sample among the most probable tokens of this mass; 0 means all.
        cache_offset: leading axes before the batch axis, 1 for scanned layers.
        initial_index: [batch] position to start from, if the cache holds the prompt;
            `cache_index` then has a batch axis.
        max_decode_steps: number of tokens after the prompt, at most `length`.
        max_decode_steps_hard_limit: upper bound of `max_decode_steps`.
        rescale_log_probs: whether log probabilities are computed after temperature and
            masks (greedy decodes then have 0) or from the plain logits.
        state_callback_fn: maps the state before every step and after the last.
        logit_callback_fn: maps the logits before a token is chosen.

    Returns:
        Tokens without BOS and log probabilities of the sampled tokens, both sorted
        ascending by log probability. A row ends with token -1
        (`t5x.search.decode_state.BROKEN`) and score NaN if its logits are NaN or +inf,
        or all -inf.

    Raises:
        UserError: `topk` and `topp` are both in use, or one of them or the temperature
            is out of range; or, outside of compiled programs, a row is broken.
        ValueError: `max_decode_steps` exceeds the length.
    """
    # The values of arrays, traced or not, are not checked.
    if isinstance(topk, (int, float, str)):
        topk = checks.whole_number("temperature_sample.topk", topk, least=0)
    if isinstance(topp, (int, float, str)):
        checks.number("temperature_sample.topp", topp, below=1 + 1e-6)
    if isinstance(temperature, (int, float, str)):
        checks.number("temperature_sample.temperature", temperature)
    if not (_is_traced(topp) or _is_traced(topk)) and topp and topk:
        raise UserError(
            "At most one of `topp` or `topk` may be non-zero: got "
            f"topp={topp}, topk={topk} (topk is 1 unless it is given)."
        )
    greedy = _draws_nothing(temperature, topk)
    if tokens_to_logits is WOULD_ROWS_BE_ALONE:
        own_code = state_callback_fn is not None or logit_callback_fn is not None
        return greedy and not own_code  # type: ignore[return-value]
    batch = inputs.shape[0]
    limit = _length_limit(inputs, max_decode_steps, max_decode_steps_hard_limit)
    index = jnp.zeros((batch,), jnp.int32)
    sequences = jnp.pad(inputs, ((0, 0), (0, _EXTRA_COLUMNS)))
    if initial_index is None:
        sequences = sequences.at[:, 0].set(0)
    else:
        index = jnp.asarray(initial_index, jnp.int32)
    temperature = jnp.asarray(temperature)
    if num_decodes > 1:
        expand = functools.partial(flat_batch_beam_expand, beam_size=num_decodes)
        cache = cache_map(
            functools.partial(expand, offset=cache_offset),
            cache,
            apply_to_index=initial_index is not None,
        )
        sequences, index = expand(sequences), expand(index)
        limit = limit if isinstance(limit, int) else expand(limit)
        temperature = expand(temperature) if temperature.ndim else temperature
    sampler = _Sampler(
        tokens_to_logits=tokens_to_logits,
        choose=_TokenChoice(temperature, topk, topp, rescale_log_probs, greedy),
        eos_id=eos_id,
        prompt_eos_count=jnp.sum(sequences == eos_id, axis=1, keepdims=True),
        limit=limit,
        state_callback_fn=state_callback_fn,
        logit_callback_fn=logit_callback_fn,
    )
    rng = jax.random.PRNGKey(0) if decode_rng is None else decode_rng
    state = sampler.run(sequences, cache, rng, index)

    decodes = unflatten_beam_dim(state.sequences[:, 1:-1], batch, num_decodes)
    log_prob = unflatten_beam_dim(state.log_prob, batch, num_decodes)
    check_decodes(decodes)
    order = jnp.argsort(log_prob, axis=1)
    return (
        jnp.take_along_axis(decodes, order[..., None], axis=1),
        jnp.take_along_axis(log_prob, order, axis=1),
    )
