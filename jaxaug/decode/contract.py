"""Parts of the T5X decode contract that sampling and beam search share.

A decode function gets `inputs` [batch, length]. Column 0 is BOS, 0 is a free position,
and column j + 1 of `inputs` belongs to column j of the result. With
`initial_index` the cache already holds that many tokens of the prompt.

Random keys depend on an input, not on its position in the batch.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped, UInt32

from jaxaug.core.errors import UserError


def length_limits(
    inputs: Int[Array, "batch length"],
    prompts: Int[Array, " batch"],
    max_decode_steps: int | None,
) -> Int[Array, " batch"]:
    """Returns the maximum number of tokens of each row, prompt included.

    Args:
        max_decode_steps: maximum number of tokens after the prompt; None allows
            `length` tokens with the prompt.

    Raises:
        UserError: `max_decode_steps` is not between 1 and the length.
    """
    length = inputs.shape[1]
    if max_decode_steps is None:
        return jnp.full_like(prompts, length)
    if not 1 <= max_decode_steps <= length:
        raise UserError(
            f"max_decode_steps is {max_decode_steps}, but must lie between 1 and the "
            f"length of the decoder inputs, {length}: change it or the targets' length"
        )
    return jnp.minimum(length, prompts + max_decode_steps)


def base_key(decode_rng: Array | None, seed: int | None) -> Array:
    """Returns the key of a decoding run: made of `seed` if given, else `decode_rng`.

    Without both it is `PRNGKey(0)`. The programs of T5X pass another `decode_rng` with
    every batch. There, only a seed makes outputs independent of the batch size.
    """
    if seed is not None:
        return jax.random.PRNGKey(seed)
    return jax.random.PRNGKey(0) if decode_rng is None else decode_rng


def input_identities(
    inputs: Int[Array, "batch length"],
    source: Int[Array, "batch source_length"] | None = None,
    input_ids: Int[Array, " batch"] | None = None,
) -> UInt32[Array, " batch"]:
    """Returns a number that identifies each row, independent of its position.

    It is `input_ids` if given, else a hash of the row of `source`, else a hash of the
    prompt in `inputs`. A row without source and prompt is identified by its position.
    """
    if input_ids is not None:
        return jnp.asarray(input_ids).astype(jnp.uint32)
    if source is not None:
        return hash_rows(source)
    place = jnp.arange(inputs.shape[0], dtype=jnp.uint32)
    return jnp.where(jnp.any(inputs != 0, axis=1), hash_rows(inputs), place)


def hash_rows(tokens: Int[Array, "batch length"]) -> UInt32[Array, " batch"]:
    """Hashes the tokens and their columns; padding (0) does not count."""
    tokens = tokens.astype(jnp.uint32)
    column = jnp.arange(1, tokens.shape[1] + 1, dtype=jnp.uint32)
    mixed = _mix(tokens ^ _mix(column * jnp.uint32(0x9E3779B9)))
    return _mix(jnp.sum(jnp.where(tokens == 0, 0, mixed), axis=1, dtype=jnp.uint32))


def _mix(x: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """Returns the finalizer of MurmurHash3: each input bit affects each output bit."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def row_keys(key: Array, numbers: Int[Array, " rows"]) -> Shaped[Array, "rows ..."]:
    """Returns one key per row: `key` with the row's number folded in."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers)


def fold_rows(
    keys: Shaped[Array, "rows ..."], numbers: Int[Array, " rows"]
) -> Shaped[Array, "rows ..."]:
    """Returns the key of each row with the row's number folded in."""
    return jax.vmap(jax.random.fold_in)(keys, numbers)
