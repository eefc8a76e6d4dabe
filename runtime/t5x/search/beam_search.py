"""Beam search with a length penalty and forced prompts."""

import dataclasses
import functools
import math
import numbers

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from t5x import checks
from t5x.errors import UserError
from t5x.search import broken
from t5x.search.decode_state import (
    NEG_INF,
    NEG_INF_VALUE,
    BeamState,
    Cache,
    DecodingState,
    TokensToLogits,
    add_beam_dim,
    best_continuations,
    cache_gather_beams,
    cache_map,
    flatten_beam_dim,
    gather_beams,
    gather_topk_beams,
    match_container,
    rows_alone,
    share_history,
    unflatten_beam_dim,
)

# Scores are log probabilities divided by penalties; this bound keeps them in float32.
_LARGEST_PENALTY = 1e30


def brevity_penalty(alpha: float, length: int | Array) -> Array:
    """Returns ((5 + length) / 6) ** alpha (Wu et al., 2016, eq. 14)."""
    return jnp.power((5.0 + length) / 6.0, alpha)


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


@dataclasses.dataclass(frozen=True)
class _Search:
    """Constants of one search; positions are relative to `start`.

    Attributes:
        forced: [batch, length + 1] token to force at a position, 0 if it is free.
        start: [batch] prompt tokens that the cache holds.
        prefilled: whether the cache holds a prompt (statically known).
        length: maximum number of tokens per decode.
    """

    tokens_to_logits: TokensToLogits
    forced: Int[Array, "batch length_1"]
    start: Int[Array, " batch"]
    prefilled: bool
    length: int
    eos_id: int
    beams: int
    alpha: float
    max_steps: int
    min_log_prob: float
    cache_offset: int

    def unfinished(self, state: BeamState) -> Bool[Array, ""]:
        """Returns whether another step is allowed and could change the result."""
        more_room = state.cur_index + jnp.min(self.start) < self.length
        # Upper bound on the final score of a live beam: log probabilities only fall,
        # and the penalty is largest at the full length, or at the next token if alpha
        # is negative.
        next_length = jnp.minimum(self.start + state.cur_index, self.length) + 1
        penalty = jnp.maximum(
            brevity_penalty(self.alpha, self.length + 1),
            brevity_penalty(self.alpha, next_length),
        )
        best_live = state.live_logprobs[:, -1] / penalty
        worst_finished = jnp.min(state.finished_scores, axis=1)
        settled = jnp.all(state.finished_flags, axis=1) & (worst_finished > best_live)
        over = settled | self._hopeless(state) | broken.rows(state)
        go_on = more_room & ~jnp.all(over)
        if self.max_steps > 0:
            go_on &= state.cur_index < self.max_steps
        return go_on

    def _hopeless(self, state: BeamState) -> Bool[Array, " batch"]:
        below = state.live_logprobs[:, -1] < self.min_log_prob
        return below & (state.cur_index > 0)

    def step(self, state: BeamState) -> BeamState:
        """Extends every live beam by one token and keeps the best."""
        logits, cache = self._extend(state)
        values, tokens, parents = self._candidates(logits, state)
        sizes = (len(parents), self.beams, parents.shape[1])
        seqs = gather_beams(state.live_seqs, parents, *sizes)
        seqs = lax.dynamic_update_slice(
            seqs, tokens[..., None], (0, 0, state.cur_index + 1)
        )
        is_end = tokens == self.eos_id

        # A filler that meets EOS is not a hypothesis and must not take a slot.
        newly_finished = is_end & (values > broken.POSSIBLE)
        lengths = self.start[:, None] + state.cur_index + 1
        scores = values / brevity_penalty(self.alpha, lengths)
        scores = jnp.where(newly_finished, scores, NEG_INF)
        both_scores = jnp.concatenate([state.finished_scores, scores], axis=1)
        both_flags = jnp.concatenate([state.finished_flags, newly_finished], axis=1)
        finished_seqs, finished_scores, finished_flags = gather_topk_beams(
            (
                jnp.concatenate([state.finished_seqs, seqs], axis=1),
                both_scores,
                both_flags,
            ),
            # With a negative alpha, scores may be below the scores of empty slots.
            jnp.where(both_flags, both_scores, -jnp.inf),
            seqs.shape[0],
            self.beams,
        )

        live_values = values + is_end * NEG_INF
        live_seqs, live_logprobs, live_parents = gather_topk_beams(
            (seqs, live_values, parents), live_values, seqs.shape[0], self.beams
        )
        new = state.replace(
            cur_index=state.cur_index + 1,
            live_logprobs=live_logprobs,
            live_seqs=live_seqs,
            finished_seqs=finished_seqs,
            finished_scores=finished_scores,
            # A broken row returns its live beams.
            finished_flags=finished_flags & ~jnp.isnan(live_logprobs[:, :1]),
            cache=cache_gather_beams(
                cache,
                live_parents,
                seqs.shape[0],
                self.beams,
                self.beams,
                offset=self.cache_offset,
            ),
        )
        # Without prefill and `min_log_prob`, all rows end together.
        may_be_over = self.prefilled or self.min_log_prob > NEG_INF_VALUE
        return self._keep_rows(state, new) if may_be_over else new

    def _extend(
        self, state: BeamState
    ) -> tuple[Float[Array, "batch beams vocab"], Cache]:
        """Returns the next float32 logits of every beam, and the new cache."""
        batch = state.live_seqs.shape[0]
        flatten = functools.partial(flatten_beam_dim, offset=self.cache_offset)
        flat_seqs = flatten_beam_dim(state.live_seqs)
        logits, flat_cache = self.tokens_to_logits(
            DecodingState(
                cur_index=state.cur_index,
                sequences=flat_seqs,
                cur_token=lax.dynamic_slice_in_dim(flat_seqs, state.cur_index, 1, 1),
                cache=cache_map(flatten, state.cache, self.prefilled),
            )
        )
        unflatten = functools.partial(
            unflatten_beam_dim,
            batch_size=batch,
            beam_size=self.beams,
            offset=self.cache_offset,
        )
        cache = cache_map(unflatten, flat_cache, self.prefilled)
        logits = unflatten_beam_dim(logits.astype(jnp.float32), batch, self.beams)
        return logits, match_container(cache, state.cache)

    def _candidates(
        self, logits: Float[Array, "batch beams vocab"], state: BeamState
    ) -> tuple[
        Float[Array, "batch twice"],
        Int[Array, "batch twice"],
        Int[Array, "batch twice"],
    ]:
        """Returns the 2 * beams best continuations: log probability, token, and parent
        beam.

        Twice the number of beams leaves enough live beams even if half of the
        candidates end with EOS. Inside the prompt all candidates but the first become
        fillers, because beams with the same prompt would be copies of each other.
        """
        twice = 2 * self.beams
        values, tokens, parents = best_continuations(logits, state.live_logprobs, twice)
        forced = lax.dynamic_slice_in_dim(self.forced, state.cur_index + 1, 1, 1)
        free = forced == 0
        only_first = jnp.full((twice,), NEG_INF_VALUE).at[0].set(0.0)
        values = jnp.where(free, values, only_first)
        tokens = jnp.where(free, tokens, forced).astype(jnp.int32)
        return broken.mark(values, tokens, parents, logits, free, state)

    def _keep_rows(self, old: BeamState, new: BeamState) -> BeamState:
        """Undoes the step in rows that are full or below `min_log_prob`.

        Rows with longer prompts are full earlier. Their result must not depend on how
        long the other rows of the batch take.
        """
        over = (self.start + old.cur_index >= self.length) | self._hopeless(old)

        def keep(name: str) -> Array:
            before, after = getattr(old, name), getattr(new, name)
            return jnp.where(over.reshape(-1, *[1] * (before.ndim - 1)), before, after)

        names = (
            "live_logprobs",
            "live_seqs",
            "finished_seqs",
            "finished_scores",
            "finished_flags",
        )
        return new.replace(**{name: keep(name) for name in names})


def _place(
    inputs: Int[Array, "batch length"],
    generated: Int[Array, "batch beams length_1"],
    start: Int[Array, " batch"],
    length: int,
) -> Int[Array, "batch beams length"]:
    """Inserts the prefilled prompts (without BOS) before the generated tokens."""
    position = jnp.arange(length)
    source = jnp.maximum(position - start[:, None] + 1, 0)
    decodes = jnp.take_along_axis(generated, source[:, None, :], axis=2)
    prompt = jnp.pad(inputs[:, 1 : length + 1], ((0, 0), (0, length)))[:, :length]
    in_prompt = position < start[:, None]
    return jnp.where(in_prompt[:, None, :], prompt[:, None, :], decodes)


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
        tokens_to_logits: one decoder step on all batch * beams rows.
        eos_id: token that ends a hypothesis.
        num_decodes: number of beams.
        alpha: strength of the length penalty; 0 disables it, and a negative value
            favors short hypotheses.
        max_decode_len: maximum length of the result; `inputs.shape[1]` if None.
        max_decode_step: maximum number of steps if positive.
        min_log_prob: stop a row once none of its live beams has a higher log
            probability.
        decode_rng: unused: the search is deterministic.
        cache_offset: leading axes before the batch axis, 1 for scanned layers.
        initial_index: [batch] number of prompt tokens that the cache already holds;
            decoding starts from the token at that column of `inputs`.

    Returns:
        Tokens without BOS, 0 after EOS, and scores, both sorted ascending by score.
        Empty slots hold zeros and a score of -1e7, or the score of the worst hypothesis
        if it is lower. A row ends with token -1 (`t5x.search.broken.BROKEN`) and score
        NaN if its logits are NaN or +inf, or if no beam has a logit above -inf.

    Raises:
        UserError: `alpha` is not a number, or its penalty overflows float32; or,
            outside of compiled programs, a row is broken.
    """
    del decode_rng
    # Callers may pass zeros without a type.
    inputs = jnp.asarray(inputs, jnp.int32)
    batch = inputs.shape[0]
    length = inputs.shape[1] if max_decode_len is None else max_decode_len
    _check_alpha(alpha, length)
    prefilled = initial_index is not None
    start = jnp.zeros((batch,), jnp.int32)
    if initial_index is not None:
        start = jnp.asarray(initial_index, jnp.int32)
    # Position `length` is the last one written, and it is free unless forced.
    forced = jnp.pad(inputs, ((0, 0), (0, length + 1)))
    columns = start[:, None] + jnp.arange(length + 1)
    forced = jnp.take_along_axis(forced, columns, axis=1)
    live_seqs = None
    if prefilled:
        live_seqs = jnp.zeros((batch, num_decodes, length + 1), jnp.int32)
        live_seqs = live_seqs.at[:, :, 0].set(forced[:, :1])
    search = _Search(
        tokens_to_logits=tokens_to_logits,
        forced=forced,
        start=start,
        prefilled=prefilled,
        length=length,
        eos_id=eos_id,
        beams=num_decodes,
        alpha=alpha,
        max_steps=max_decode_step,
        min_log_prob=min_log_prob,
        cache_offset=cache_offset,
    )
    cache = share_history(cache, num_decodes)
    state = beam_init(
        batch, num_decodes, length + 1, cache, cache_offset, live_seqs, start
    )
    state = lax.while_loop(search.unfinished, search.step, state)

    any_finished = jnp.any(state.finished_flags, axis=1, keepdims=True)
    seqs = jnp.where(any_finished[..., None], state.finished_seqs, state.live_seqs)
    # The lowest score may be below the score of empty slots, which are sorted first.
    worst = jnp.min(state.finished_scores, axis=1, keepdims=True)
    finished_scores = jnp.where(state.finished_flags, state.finished_scores, worst)
    scores = jnp.where(any_finished, finished_scores, state.live_logprobs)
    decodes = _place(inputs, seqs, start, length)
    broken.check_decodes(decodes)
    return decodes, scores


def _check_alpha(alpha: float, length: int) -> None:
    """Refuses numbers whose penalty is 0 or infinite in float32; accepts arrays."""
    if not isinstance(alpha, (numbers.Real, str)):
        return
    checks.number("beam_search.alpha", alpha, -math.inf)
    most = math.log(_LARGEST_PENALTY) / math.log((6 + max(length, 1)) / 6)
    if abs(alpha) > most:
        raise UserError(
            f"beam_search.alpha = {alpha!r}: the length penalty of {length} tokens "
            "leaves float32. Give a number from "
            f"{-most:.1f} to {most:.1f}; 0 is no penalty."
        )
