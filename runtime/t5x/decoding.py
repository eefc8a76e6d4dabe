"""Decode functions, and the operations on their states, for gin files and user code."""
# ruff: noqa: F401

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x import binary_search, checks
from t5x.errors import UserError
from t5x.search import beam, sampling
from t5x.search.beam import brevity_penalty
from t5x.search.decode_state import (
    NEG_INF,
    NEG_INF_VALUE,
    WOULD_ROWS_BE_ALONE,
    Cache,
    DecodingState,
    TokensToLogits,
    add_beam_dim,
    cache_gather_beams,
    cache_map,
    flat_batch_beam_expand,
    flatten_beam_dim,
    gather_beams,
    gather_topk_beams,
    rows_alone,
    rows_alone_if_asked,
    share_history,
    start_index,
    top_k_two_stage,
    unflatten_beam_dim,
    usable,
)
from t5x.search.sampling import SamplingLoopState

# Dividing by such a small temperature loses all precision, so argmax is used instead.
MIN_TEMPERATURE = np.array(1e-4)

StateCallbackFn = Callable[[SamplingLoopState], SamplingLoopState]
LogitCallbackFn = Callable[[Float[Array, "rows vocab"], SamplingLoopState], Array]


class BeamState(flax.struct.PyTreeNode):
    """State of a beam search of your own, sorted ascending; see `beam_init`.

    Attributes:
        cur_index: scalar, position in `live_seqs` of the token to feed.
        finished_scores: [batch, beams] length-normalized scores of finished hypotheses.
        finished_flags: [batch, beams], False while the slot is empty.
        initial_index: [batch] number of prompt tokens that the cache already holds.
    """

    cur_index: Int[Array, ""]
    live_logprobs: Float[Array, "batch beams"]
    finished_scores: Float[Array, "batch beams"]
    live_seqs: Int[Array, "batch beams length_1"]
    finished_seqs: Int[Array, "batch beams length_1"]
    finished_flags: Bool[Array, "batch beams"]
    cache: Cache
    initial_index: Int[Array, " batch"] | None


def beam_init(
    batch_size: int,
    beam_size: int,
    max_decode_len: int,
    cache: Cache,
    offset: int = 0,
    live_seqs: Int[Array, "batch beams length"] | None = None,
    initial_index: Int[Array, " batch"] | None = None,
) -> BeamState:
    """Returns the state before the first step: one live beam per row, none finished.

    With `live_seqs` the prompt is already in the cache. Its `cache_index` then has a
    batch axis and is expanded as well.
    """
    shape = (batch_size, beam_size)
    empty_seqs = jnp.zeros((*shape, max_decode_len), jnp.int32)
    live_logprobs = jnp.full(shape, NEG_INF_VALUE, jnp.float32).at[:, 0].set(0.0)
    return BeamState(
        cur_index=jnp.array(0, jnp.int32),
        live_logprobs=live_logprobs,
        finished_scores=jnp.full(shape, NEG_INF_VALUE, jnp.float32),
        live_seqs=empty_seqs if live_seqs is None else live_seqs,
        finished_seqs=empty_seqs,
        finished_flags=jnp.zeros(shape, jnp.bool_),
        cache=cache_map(
            functools.partial(add_beam_dim, beam_size=beam_size, offset=offset),
            cache,
            apply_to_index=live_seqs is not None,
        ),
        initial_index=initial_index,
    )


@rows_alone
def beam_search(
    inputs: Int[Array, "batch length"],
    cache: Cache,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 4,
    alpha: float = 0.6,
    max_decode_len: int | None = None,
    max_decode_step: int = -1,
    min_log_prob: float = NEG_INF_VALUE,
    decode_rng: Array | None = None,
    cache_offset: int = 0,
    initial_index: Int[Array, " batch"] | None = None,
) -> tuple[Int[Array, "batch beams length"], Float[Array, "batch beams"]]:
    """Runs beam search over the continuations of `inputs`.

    The search keeps `num_decodes` live and `num_decodes` finished hypotheses per row. A
    hypothesis is finished at EOS and scores log p / ((5 + tokens) / 6) ** alpha, where
    the tokens include prompt and EOS. The search stops at the length limit, or when no
    live beam of any row can beat the worst finished one. A row without finished
    hypotheses returns its live beams and their plain log probabilities.

    It corrects three errors of other implementations of this interface. An impossible
    continuation (a filler beam or a masked token) that ends with EOS does not count as
    finished. A prompt that fills all of `inputs` is not extended by a repetition of its
    last token. A row that has reached the length limit or `min_log_prob` keeps its
    result while others continue.

    Args:
        inputs: tokens to force, shifted right: column 0 is BOS (0), 0 is free. Column j
            + 1 of `inputs` belongs to column j of the result.
        cache: cache with one row per input; leaves lead with `batch` after
            `cache_offset` axes.
        eos_id: token that ends a hypothesis.
        alpha: strength of the length penalty; 0 disables it, and a negative value
            favors short hypotheses.
        max_decode_len: maximum length of the result; `inputs.shape[1]` if None.
        max_decode_step: maximum number of steps if positive.
        cache_offset: leading axes before the batch axis, 1 for scanned layers.
        initial_index: [batch] number of prompt tokens that the cache already holds;
            decoding starts from the token at that column of `inputs`.

    Returns:
        The results of `t5x.search.beam.run`.

    Raises:
        UserError: `alpha` is not a number, or its penalty overflows float32; or,
            outside of compiled programs, a row is broken.
    """
    del decode_rng
    # Callers may pass zeros without a type.
    inputs = jnp.asarray(inputs, jnp.int32)
    length = inputs.shape[1] if max_decode_len is None else max_decode_len
    beam.check_alpha("beam_search.alpha", alpha, length)
    limit = jnp.full((inputs.shape[0],), length, jnp.int32)
    if max_decode_step > 0:
        limit = jnp.minimum(limit, start_index(inputs, initial_index) + max_decode_step)
    return beam.run(
        inputs,
        cache,
        tokens_to_logits,
        eos_id,
        num_decodes,
        limit=limit,
        length=length,
        alpha=alpha,
        min_log_prob=min_log_prob,
        prompt_ends=True,
        cache_offset=cache_offset,
        initial_index=initial_index,
    )


def _is_traced(value: object) -> bool:
    return isinstance(value, jax.core.Tracer)


@dataclasses.dataclass(frozen=True)
class _TokenChoice:
    """Chooses tokens from logits.

    `greedy` says that statically nothing is drawn; then the threshold search is
    skipped.
    """

    temperature: Float[Array, "*rows"]
    topk: int | Int[Array, ""]
    topp: float | Float[Array, ""]
    rescale: bool
    greedy: bool
    callback: LogitCallbackFn | None

    def __call__(
        self, logits: Float[Array, "rows vocab"], state: SamplingLoopState
    ) -> sampling.Choice:
        if self.callback is not None:
            logits = self.callback(logits, state)
        rng_now, rng_next = jax.random.split(state.rng)
        token, log_prob = self._choose(logits, rng_now)
        log_prob = jnp.where(usable(logits), log_prob, jnp.nan)
        return sampling.Choice(token, log_prob, rng_next)

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


def _length_limit(
    inputs: Int[Array, "batch length"],
    max_decode_steps: int | Int[Array, ""] | None,
    hard_limit: int | None,
) -> Int[Array, " batch"]:
    """Returns the row length limit: the prompt plus `max_decode_steps`."""
    length = inputs.shape[1]
    if max_decode_steps is None:
        return jnp.full(inputs.shape[:1], length, jnp.int32)
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
        inputs: see `beam_search`, also for the arguments that are not listed here.
        decode_rng: key; `jax.random.PRNGKey(0)` if None.
        num_decodes: decodes per row.
        temperature: divides the logits, [] or [batch]; at most 1e-4 selects the argmax.
        topk: sample among the k most probable tokens; 0 means all.
        topp: sample among the most probable tokens of this mass; 0 means all.
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
    temperature = jnp.asarray(temperature)
    if temperature.ndim:
        temperature = flat_batch_beam_expand(temperature, num_decodes)
    choose = _TokenChoice(
        temperature, topk, topp, rescale_log_probs, greedy, logit_callback_fn
    )
    state = sampling.begin(
        inputs,
        cache,
        eos_id,
        num_decodes,
        jax.random.PRNGKey(0) if decode_rng is None else decode_rng,
        _length_limit(inputs, max_decode_steps, max_decode_steps_hard_limit),
        cache_offset,
        initial_index,
    )
    sampler = sampling.Sampler(tokens_to_logits, choose, eos_id, state_callback_fn)
    return sampling.run(sampler, state, num_decodes)
