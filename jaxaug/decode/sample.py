"""Sampling with warpers: one loop for pure, greedy, top-k, top-p, and bottom-k."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped
from t5x.search import sampling
from t5x.search.candidates import IMPOSSIBLE
from t5x.search.decode_state import (
    TokensToLogits,
    flat_batch_beam_expand,
    prompt_lengths,
    start_index,
    usable,
)

from jaxaug.decode import contract
from jaxaug.decode.warpers import Warper, WarpState, apply


def draw(
    row_keys: Shaped[Array, "rows ..."], logits: Float[Array, "rows vocab"]
) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
    """Draws one token per row from softmax(logits) with the key of the row.

    The cumulative distribution is inverted in two stages: first a block of about
    sqrt(vocab) tokens is drawn, then a token of the block. This takes two uniform
    numbers per row. Gumbel noise takes one per token, which costs as much as a small
    model. Two stages are also more precise than one running sum over all tokens.

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


def sampler(
    tokens_to_logits: TokensToLogits,
    warpers: Sequence[Warper],
    eos_id: int,
    rescale: bool = True,
) -> sampling.Sampler:
    """Returns the steps of a run; scores are of the model unless `rescale`."""

    def choose(
        logits: Float[Array, "rows vocab"], state: sampling.SamplingLoopState
    ) -> sampling.Choice:
        logits = logits.astype(jnp.float32)
        whole = usable(logits)
        # To the warpers what the model forbids is removed already.
        possible = logits > jnp.max(logits, axis=-1, keepdims=True) + IMPOSSIBLE
        logits = jnp.where(possible, logits, jnp.finfo(logits.dtype).min)
        known = WarpState(
            step=state.drawn, sequences=state.tokens, lengths=state.cur_index
        )
        warped = apply(warpers, logits, known)
        token, log_prob = draw(contract.fold_rows(state.rng, state.drawn), warped)
        if not rescale:
            chosen = jnp.take_along_axis(logits, token[:, None], axis=1)[:, 0]
            log_prob = chosen - jax.nn.logsumexp(logits, axis=-1)
        # Very low temperatures may take finite logits to infinity.
        log_prob = jnp.where(whole, log_prob, jnp.nan)
        is_drawn = jnp.sum(possible, axis=-1) > 1
        return sampling.Choice(token, log_prob, state.rng, is_drawn)

    return sampling.Sampler(tokens_to_logits, choose, eos_id)


def begin(
    inputs: Int[Array, "batch length"],
    cache: Any,
    eos_id: int,
    *,
    num_decodes: int,
    key: Array,
    identities: Shaped[Array, " batch"],
    max_decode_steps: int | None,
    cache_offset: int,
    initial_index: Int[Array, " batch"] | None,
) -> sampling.SamplingLoopState:
    """Returns the state before the first step.

    Args:
        inputs: see `sample`, also for the arguments that are not listed here.
        identities: number that identifies each input; the key of a row is made of
            `key`, this number, and the number of the decode.

    Raises:
        UserError: `max_decode_steps` is out of range.
    """
    prompts = prompt_lengths(inputs, start_index(inputs, initial_index))
    row_keys = flat_batch_beam_expand(contract.row_keys(key, identities), num_decodes)
    numbers = jnp.tile(jnp.arange(num_decodes), inputs.shape[0])
    return sampling.begin(
        inputs,
        cache,
        eos_id,
        num_decodes,
        contract.fold_rows(row_keys, numbers),
        contract.length_limits(inputs, prompts, max_decode_steps),
        cache_offset,
        initial_index,
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

    Returns:
        Tokens without BOS, 0 after EOS, and the summed log probabilities of the drawn
        tokens, both sorted ascending by the latter: the best is last. A row whose
        logits are NaN or infinite ends there with `BROKEN` and the score NaN.

    Raises:
        UserError: `max_decode_steps` is out of range; or, outside of compiled programs,
            logits are NaN or infinite (see `check_decodes`).
    """
    del embeddings
    state = begin(
        inputs,
        cache,
        eos_id,
        num_decodes=num_decodes,
        key=contract.base_key(decode_rng, seed),
        identities=contract.input_identities(inputs, source, input_ids),
        max_decode_steps=max_decode_steps,
        cache_offset=cache_offset,
        initial_index=initial_index,
    )
    steps = sampler(tokens_to_logits, warpers, eos_id, rescale_log_probs)
    return sampling.run(steps, state, num_decodes)
