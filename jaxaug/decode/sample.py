"""Sampling with warpers: one loop for pure, greedy, top-k, top-p, and bottom-k."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped
from t5x.search.decode_state import (
    BROKEN,
    DecodingState,
    TokensToLogits,
    cache_map,
    check_decodes,
    flat_batch_beam_expand,
    match_container,
    prompt_lengths,
    start_index,
    unflatten_beam_dim,
    usable,
)

from jaxaug.decode import contract
from jaxaug.decode.warpers import Warper, WarpState, apply

# Models give what they forbid a logit of -1e7 or less: so far below the largest one.
_FORBIDDEN = -5.0e6


class SampleState(flax.struct.PyTreeNode):
    """State of the loop; `rows` is batch * num_decodes.

    Attributes:
        index: [rows] position of the token to feed.
        tokens: [rows, length + 1]; column 0 is BOS.
        generated: [rows] number of tokens drawn, without those that the prompt or the
            model forced.
        ended: [rows] whether the row is complete.
        log_prob: [rows] log probability of the drawn tokens.
        limit: [rows] length at which a row is full.
        row_keys: [rows] keys of the draws.
        cache: nested mapping of arrays.
    """

    index: Int[Array, " rows"]
    tokens: Int[Array, "rows length_1"]
    generated: Int[Array, " rows"]
    ended: Bool[Array, " rows"]
    log_prob: Float[Array, " rows"]
    limit: Int[Array, " rows"]
    row_keys: Shaped[Array, "rows ..."]
    cache: Any


def draw(
    row_keys: Shaped[Array, "rows ..."], logits: Float[Array, "rows vocab"]
) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
    """Draws one token per row from softmax(logits) with the key of the row.

    The cumulative distribution is inverted in two stages: first a block of about
    sqrt(vocab) tokens is drawn, then a token of the block. This takes two uniform
    numbers per row. Gumbel noise takes one per token, which costs as much as a small
    model. Two stages are also more precise than one running sum over all tokens.

    Args:
        row_keys: random key of each row.
        logits: logits of the next token.

    Returns:
        Tokens, and their natural log probabilities.
    """
    rows, vocab = logits.shape
    width = math.isqrt(vocab - 1) + 1
    largest = jnp.max(logits, axis=-1, keepdims=True)
    weights = jnp.exp(logits - largest)
    weights = jnp.pad(weights, ((0, 0), (0, width * -(-vocab // width) - vocab)))
    weights = weights.reshape(rows, -1, width)
    uniform = jax.vmap(lambda key: jax.random.uniform(key, (2,)))(row_keys)

    blocks = jnp.sum(weights, axis=-1)
    block = _invert(blocks, uniform[:, 0])
    within = jnp.take_along_axis(weights, block[:, None, None], axis=1)[:, 0]
    token = block * width + _invert(within, uniform[:, 1])
    chosen = jnp.take_along_axis(logits, token[:, None], axis=1) - largest
    return token, chosen[:, 0] - jnp.log(jnp.sum(blocks, axis=-1))


def _invert(
    weights: Float[Array, "rows n"], uniform: Float[Array, " rows"]
) -> Int[Array, " rows"]:
    """Returns an index drawn in proportion to the weights; never one of weight 0."""
    mass = jnp.cumsum(weights, axis=-1)
    positive = weights > 0
    reached = positive & (mass > (uniform * mass[:, -1])[:, None])
    # Rounding may leave nothing beyond the last mark.
    last = weights.shape[-1] - 1 - jnp.argmax(positive[:, ::-1], axis=-1)
    index = jnp.where(jnp.any(reached, axis=-1), jnp.argmax(reached, axis=-1), last)
    return index.astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Steps:
    """Constants of all steps of a run; per-row values are in `SampleState`.

    Attributes:
        tokens_to_logits: one decoder step on all rows.
        warpers: warpers of the logits, applied in order.
        eos_id: token that ends a row.
        rescale: whether log probabilities refer to the warped distribution; otherwise
            they refer to the model's.
    """

    tokens_to_logits: TokensToLogits
    warpers: Sequence[Warper]
    eos_id: int
    rescale: bool = True

    def step(self, state: SampleState) -> SampleState:
        """Returns the state after one step, which draws the next token of each row."""
        logits, cache = self.tokens_to_logits(
            DecodingState(
                cur_index=state.index,
                sequences=state.tokens[:, :-1],
                cur_token=jnp.take_along_axis(
                    state.tokens, state.index[:, None], axis=1
                ),
                cache=state.cache,
            )
        )
        drawn, log_prob, is_choice = self._choose(logits.astype(jnp.float32), state)

        # Full rows stay in the last column while others continue.
        after = jnp.minimum(state.index + 1, state.tokens.shape[1] - 1)
        forced = jnp.take_along_axis(state.tokens, after[:, None], axis=1)[:, 0]
        free = (forced == 0) & ~state.ended
        token = jnp.where(free, drawn, forced)
        here = jnp.arange(state.tokens.shape[1]) == after[:, None]
        return state.replace(
            index=after,
            tokens=jnp.where(here & free[:, None], token[:, None], state.tokens),
            generated=state.generated + (free & is_choice),
            ended=state.ended | (free & self._is_last(token)) | (after >= state.limit),
            log_prob=state.log_prob + jnp.where(free, log_prob, 0.0),
            cache=match_container(cache, state.cache),
        )

    def _is_last(self, token: Int[Array, " rows"]) -> Bool[Array, " rows"]:
        return (token == self.eos_id) | (token == BROKEN)

    def _choose(
        self, logits: Float[Array, "rows vocab"], state: SampleState
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"], Bool[Array, " rows"]]:
        """Returns tokens, log probabilities, and whether the model allows several.

        In a row without a valid token, the token is `BROKEN` and the log probability is
        NaN.
        """
        whole = usable(logits)
        # To the warpers what the model forbids is removed already.
        least = jnp.max(logits, axis=-1, keepdims=True) + _FORBIDDEN
        possible = logits > least
        logits = jnp.where(possible, logits, jnp.finfo(logits.dtype).min)
        known = WarpState(
            step=state.generated, sequences=state.tokens[:, 1:], lengths=state.index
        )
        warped = apply(self.warpers, logits, known)
        token, log_prob = draw(
            contract.fold_rows(state.row_keys, state.generated), warped
        )
        if not self.rescale:
            chosen = jnp.take_along_axis(logits, token[:, None], axis=1)[:, 0]
            log_prob = chosen - jax.nn.logsumexp(logits, axis=-1)
        # Very low temperatures may take finite logits to infinity.
        whole &= ~jnp.isnan(log_prob)
        return (
            jnp.where(whole, token, BROKEN),
            jnp.where(whole, log_prob, jnp.nan),
            jnp.sum(possible, axis=-1) > 1,
        )


def begin(
    inputs: Int[Array, "batch length"],
    cache: Any,
    *,
    num_decodes: int,
    key: Array,
    identities: Shaped[Array, " batch"],
    max_decode_steps: int | None,
    cache_offset: int,
    initial_index: Int[Array, " batch"] | None,
) -> SampleState:
    """Returns the state before the first step.

    Args:
        inputs: see `sample`, also for the arguments that are not listed here.
        key: key of the run.
        identities: number that identifies each input; the key of a row is made of
            `key`, this number, and the number of the decode.

    Raises:
        UserError: `max_decode_steps` is out of range.
    """
    start = start_index(inputs, initial_index)
    limit = contract.length_limits(
        inputs, prompt_lengths(inputs, start), max_decode_steps
    )
    expand = functools.partial(flat_batch_beam_expand, beam_size=num_decodes)
    start, limit = expand(start), expand(limit)
    decode_numbers = jnp.tile(jnp.arange(num_decodes), inputs.shape[0])
    tokens = jnp.pad(inputs, ((0, 0), (0, 1))).astype(jnp.int32)
    if initial_index is None:
        tokens = tokens.at[:, 0].set(0)
    return SampleState(
        index=start,
        tokens=expand(tokens),
        generated=jnp.zeros_like(start),
        ended=start >= limit,
        log_prob=jnp.zeros(start.shape, jnp.float32),
        limit=limit,
        row_keys=contract.fold_rows(
            expand(contract.row_keys(key, identities)), decode_numbers
        ),
        cache=cache_map(
            functools.partial(expand, offset=cache_offset),
            cache,
            apply_to_index=initial_index is not None,
        ),
    )


def sample(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 1,
    decode_rng: Array | None = None,
    warpers: Sequence[Warper] = (),
    max_decode_steps: int | None = None,
    cache_offset: int = 0,
    initial_index: Int[Array, " batch"] | None = None,
    source: Int[Array, "batch source_length"] | None = None,
    input_ids: Int[Array, " batch"] | None = None,
    seed: int | None = None,
    rescale_log_probs: bool = True,
    embeddings: Float[Array, "vocab d"] | None = None,
) -> tuple[Int[Array, "batch decodes length"], Float[Array, "batch decodes"]]:
    """Samples `num_decodes` continuations of each row: a decode function of T5X.

    The key of a draw is made of the run's key, the identity of the input, the number of
    the decode, and the number of tokens drawn before. So the outputs of an input depend
    neither on other rows nor on the number of decodes. Equal inputs yield equal outputs
    unless `input_ids` distinguishes them.

    Args:
        inputs: tokens to force, shifted right: column 0 is BOS (0), 0 is free. Column j
            + 1 of `inputs` belongs to column j of the result.
        cache: cache of one decode per row; arrays lead with `batch` after
            `cache_offset` axes.
        tokens_to_logits: one decoder step on all batch * num_decodes rows.
        eos_id: token that ends a row, unless it is in the prompt.
        num_decodes: number of decodes per input.
        decode_rng: key of the run; None means `PRNGKey(0)`.
        warpers: warpers of the logits of every step, applied in order. An empty
            sequence is pure sampling, and `(top_k(1),)` is greedy decoding.
        max_decode_steps: maximum number of tokens after the prompt; None allows
            `length` tokens with the prompt.
        cache_offset: number of leading axes before the batch axis; 1 for scanned
            layers.
        initial_index: number of prompt tokens that the cache already holds.
        source: encoder inputs, which identify the rows.
        input_ids: numbers that identify the rows, instead of `source`.
        seed: seed of the key of the run; overrides `decode_rng` (see
            `contract.base_key`).
        rescale_log_probs: whether scores refer to the warped distribution, from which
            the tokens were drawn; greedy decodes then score 0. Otherwise scores refer
            to the distribution of the model.
        embeddings: not used; `SourceEncoderDecoderModel` passes it to all decode
            functions.

    Returns:
        Tokens without BOS, 0 after EOS, and the summed log probabilities of the drawn
        tokens, both sorted ascending by the latter: the best is last. A row whose
        logits are NaN or infinite ends there with `BROKEN` and the score NaN.

    Raises:
        UserError: `max_decode_steps` is out of range; or, outside of compiled programs,
            logits are NaN or infinite (see `check_decodes`).
    """
    del embeddings
    batch = inputs.shape[0]
    state = begin(
        inputs,
        cache,
        num_decodes=num_decodes,
        key=contract.base_key(decode_rng, seed),
        identities=contract.input_identities(inputs, source, input_ids),
        max_decode_steps=max_decode_steps,
        cache_offset=cache_offset,
        initial_index=initial_index,
    )
    steps = Steps(tokens_to_logits, warpers, eos_id, rescale_log_probs)
    state = lax.while_loop(lambda s: ~jnp.all(s.ended), steps.step, state)

    decodes = unflatten_beam_dim(state.tokens[:, 1:], batch, num_decodes)
    scores = unflatten_beam_dim(state.log_prob, batch, num_decodes)
    check_decodes(decodes)
    order = jnp.argsort(scores, axis=1, stable=True)
    return (
        jnp.take_along_axis(decodes, order[..., None], axis=1),
        jnp.take_along_axis(scores, order, axis=1),
    )
