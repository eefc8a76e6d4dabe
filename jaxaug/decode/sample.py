"""Sampling with warpers: pure, greedy, top-k, top-p, bottom-k are the same loop."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped
from t5x.decoding import (
    DecodingState,
    cache_map,
    flat_batch_beam_expand,
    unflatten_beam_dim,
)

from jaxaug.decode import contract, keys
from jaxaug.decode.warpers import Warper, WarpState, apply

# Models give what they forbid a logit of -1e7 or less: so far below the largest one.
_FORBIDDEN = -5.0e6
TokensToLogits = Callable[[DecodingState], tuple[Float[Array, "rows vocab"], Any]]


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
    """Draws a token of each row from softmax(logits) with the row's own key.

    Inverts the cumulative distribution in two stages, first a block of about
    sqrt(vocab) tokens and then a token of it, each with its own uniform number: two
    numbers a row instead of one for every token (Gumbel noise costs as much as a small
    model), and more precise than one running sum over all tokens.

    Returns:
        Tokens, and their log probabilities.
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
    """Index drawn in proportion to the weights; never one of weight 0."""
    mass = jnp.cumsum(weights, axis=-1)
    positive = weights > 0
    reached = positive & (mass > (uniform * mass[:, -1])[:, None])
    # Rounding may leave nothing beyond the last mark.
    last = weights.shape[-1] - 1 - jnp.argmax(positive[:, ::-1], axis=-1)
    index = jnp.where(jnp.any(reached, axis=-1), jnp.argmax(reached, axis=-1), last)
    return index.astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Steps:
    """Constants of all steps of a run; the state holds what belongs to a row.

    Attributes:
        tokens_to_logits: one decoder step on all rows.
        warpers: applied in order to the logits.
        eos_id: token that ends a row.
        rescale: whether log probabilities refer to the warped distribution.
    """

    tokens_to_logits: TokensToLogits
    warpers: Sequence[Warper]
    eos_id: int
    rescale: bool = True

    def step(self, state: SampleState) -> SampleState:
        """Feeds the current tokens and writes the next ones."""
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
            cache=contract.match_container(cache, state.cache),
        )

    def _is_last(self, token: Int[Array, " rows"]) -> Bool[Array, " rows"]:
        return (token == self.eos_id) | (token == contract.BROKEN)

    def _choose(
        self, logits: Float[Array, "rows vocab"], state: SampleState
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"], Bool[Array, " rows"]]:
        """Tokens, their log probabilities, and whether the model left a choice.

        Where there is no token it is `BROKEN`, its log probability NaN.
        """
        whole = contract.all_finite(logits)
        # To the warpers what the model forbids is removed already.
        least = jnp.max(logits, axis=-1, keepdims=True) + _FORBIDDEN
        possible = logits > least
        logits = jnp.where(possible, logits, jnp.finfo(logits.dtype).min)
        known = WarpState(
            step=state.generated, sequences=state.tokens[:, 1:], lengths=state.index
        )
        warped = apply(self.warpers, logits, known)
        token, log_prob = draw(keys.fold_rows(state.row_keys, state.generated), warped)
        if not self.rescale:
            chosen = jnp.take_along_axis(logits, token[:, None], axis=1)[:, 0]
            log_prob = chosen - jax.nn.logsumexp(logits, axis=-1)
        # Very low temperatures may take finite logits to infinity.
        whole &= ~jnp.isnan(log_prob)
        return (
            jnp.where(whole, token, contract.BROKEN),
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
    """The state before the first step; see `sample` for what is not listed.

    Args:
        key: of the run.
        identities: of the inputs; the keys of a row are made of both.

    Raises:
        UserError: `max_decode_steps` is out of range.
    """
    start = contract.start_index(inputs, initial_index)
    limit = contract.length_limits(
        inputs, contract.prompt_lengths(inputs, start), max_decode_steps
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
        row_keys=keys.fold_rows(expand(keys.row_keys(key, identities)), decode_numbers),
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
        cache: cache of one decode a row; leaves lead with `batch` after `cache_offset`
            axes.
        tokens_to_logits: one decoder step on all batch * num_decodes rows.
        eos_id: token that ends a row; one in the prompt does not.
        num_decodes: decodes a row.
        decode_rng: key of the run; `PRNGKey(0)` if None.
        warpers: applied in order to the logits of every step; none is pure sampling,
            `(top_k(1),)` is greedy.
        max_decode_steps: largest number of tokens after the prompt.
        cache_offset: leading axes before the batch axis, 1 for scanned layers.
        initial_index: number of prompt tokens that the cache already holds.
        source: encoder inputs; identify the rows.
        input_ids: identify the rows, and override `source`.
        seed: of the key of the run; overrides `decode_rng` (see `keys.base_key`).
        rescale_log_probs: whether scores refer to the warped distribution, from which
            the tokens were drawn (greedy decodes then score 0), or to the model's.
        embeddings: not used; `SourceEncoderDecoderModel` passes it to all decode
            functions.

    Returns:
        Tokens without BOS, 0 after EOS, and the summed log probabilities of the drawn
        tokens, both sorted ascending by the latter: the best is last. A row whose
        logits are NaN or infinite ends there with `contract.BROKEN` and the score NaN.

    Raises:
        UserError: `max_decode_steps` is out of range; or, outside of compiled programs,
            logits are NaN or infinite (see `contract.check_decodes`).
    """
    del embeddings
    batch = inputs.shape[0]
    state = begin(
        inputs,
        cache,
        num_decodes=num_decodes,
        key=keys.base_key(decode_rng, seed),
        identities=keys.input_identities(inputs, source, input_ids),
        max_decode_steps=max_decode_steps,
        cache_offset=cache_offset,
        initial_index=initial_index,
    )
    steps = Steps(tokens_to_logits, warpers, eos_id, rescale_log_probs)
    state = lax.while_loop(lambda s: ~jnp.all(s.ended), steps.step, state)

    decodes = unflatten_beam_dim(state.tokens[:, 1:], batch, num_decodes)
    scores = unflatten_beam_dim(state.log_prob, batch, num_decodes)
    contract.check_decodes(decodes)
    order = jnp.argsort(scores, axis=1, stable=True)
    return (
        jnp.take_along_axis(decodes, order[..., None], axis=1),
        jnp.take_along_axis(scores, order, axis=1),
    )
