"""Decode functions, and the operations on their states, for gin files and user code."""

import functools

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from t5x.search import beam
from t5x.search.beam import brevity_penalty
from t5x.search.decode_state import (
    NEG_INF,
    NEG_INF_VALUE,
    Cache,
    DecodingState,
    SamplingLoopState,
    TokensToLogits,
    add_beam_dim,
    cache_gather_beams,
    cache_map,
    flat_batch_beam_expand,
    flatten_beam_dim,
    gather_beams,
    gather_topk_beams,
    rows_alone,
    share_history,
    start_index,
    top_k_two_stage,
    unflatten_beam_dim,
)
from t5x.search.temperature_sample import (
    MIN_TEMPERATURE,
    LogitCallbackFn,
    StateCallbackFn,
    temperature_sample,
)

__all__ = [
    "MIN_TEMPERATURE",
    "NEG_INF",
    "NEG_INF_VALUE",
    "BeamState",
    "DecodingState",
    "LogitCallbackFn",
    "SamplingLoopState",
    "StateCallbackFn",
    "add_beam_dim",
    "beam_init",
    "beam_search",
    "brevity_penalty",
    "cache_gather_beams",
    "cache_map",
    "flat_batch_beam_expand",
    "flatten_beam_dim",
    "gather_beams",
    "gather_topk_beams",
    "share_history",
    "temperature_sample",
    "top_k_two_stage",
    "unflatten_beam_dim",
]


class BeamState(flax.struct.PyTreeNode):
    """State of a beam search of your own; see `beam_init`.

    Beams are sorted ascending: the best is last.

    Attributes:
        cur_index: scalar, position in `live_seqs` of the token to feed.
        live_logprobs: [batch, beams] log probabilities of the unfinished beams.
        finished_scores: [batch, beams] length-normalized scores of finished hypotheses.
        live_seqs: [batch, beams, length + 1].
        finished_seqs: [batch, beams, length + 1].
        finished_flags: [batch, beams], False while the slot is empty.
        cache: nested mapping of arrays that lead with [batch, beams].
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
