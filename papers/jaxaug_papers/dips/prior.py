"""Decoding for models with a latent vector, with one random vector per output.

Such a model stores the vectors of its rows in the cache, in leaves called `latent`
[rows, n]. They are the mean of the prior, a standard normal distribution, until a
decode function replaces them.
"""

import functools
from collections.abc import Sequence
from typing import Any

import flax
import jax
import jax.numpy as jnp
from flax import traverse_util
from jaxtyping import Array, Float, Int
from t5x.decoding import DecodingState, flat_batch_beam_expand
from t5x.search.decode_state import TokensToLogits
from t5x.state_utils import as_container

from jaxaug.core.errors import UserError
from jaxaug.decode import contract, sample, warpers

LEAF = "latent"
_DRAW = 0x1A7E  # Folded into the key of a row; the words use another stream.


def decode(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 1,
    decode_rng: Array | None = None,
    spread: float = 1.0,
    chain: Sequence[warpers.Warper] | None = None,
    source: Int[Array, "batch source_length"] | None = None,
    input_ids: Int[Array, " batch"] | None = None,
    seed: int | None = None,
    **others: Any,
) -> tuple[Int[Array, "batch decodes length"], Float[Array, "batch decodes"]]:
    """Decodes `num_decodes` texts per row, each with a random vector; for T5X.

    The outputs of an input depend neither on the other rows of the batch nor on
    `num_decodes`. See `sample.sample` for the other arguments.

    Args:
        spread: standard deviation of the vectors; 0 uses the mean.
        chain: warpers for sampling the words; None takes the most probable words.

    Returns:
        The tokens, and their log probabilities given the vector, in ascending order of
        log probability.
    """
    flat = traverse_util.flatten_dict(flax.core.unfreeze(cache))
    sizes = {path: leaf.shape[-1] for path, leaf in flat.items() if path[-1] == LEAF}
    if not sizes:
        raise UserError(
            "sampler 'prior' draws a latent vector for each output, and this model has "
            "none. Name a model of configs/paraphrase_vae_svg.gin, or take another "
            "sampler."
        )
    base = contract.base_key(decode_rng, seed)
    rows = contract.row_keys(base, contract.input_identities(inputs, source, input_ids))
    numbers = jnp.tile(jnp.arange(num_decodes), inputs.shape[0])
    rows = contract.fold_rows(flat_batch_beam_expand(rows, num_decodes), numbers)
    rows = contract.fold_rows(rows, jnp.full_like(numbers, _DRAW))
    drawn = {
        path: spread * jax.vmap(lambda key, n=n: jax.random.normal(key, (n,)))(rows)
        for path, n in sizes.items()
    }

    def to_logits(state: DecodingState) -> Any:
        flat = traverse_util.flatten_dict(flax.core.unfreeze(state.cache))
        mine = traverse_util.unflatten_dict(flat | drawn)
        mine = as_container(mine, state.cache)
        return tokens_to_logits(state.replace(cache=mine))

    return sample.sample(
        inputs=inputs,
        cache=cache,
        tokens_to_logits=to_logits,
        eos_id=eos_id,
        num_decodes=num_decodes,
        decode_rng=decode_rng,
        warpers=(warpers.top_k(1),) if chain is None else chain,
        source=source,
        input_ids=input_ids,
        seed=seed,
        rescale_log_probs=False,
        **others,
    )


def sampler(*, spread: float = 1.0, temperature: float = 0.0) -> Any:
    """Returns the decode function of the sampler `prior` with these options."""
    chain = (warpers.temperature(temperature),) if temperature else None
    return functools.partial(decode, spread=spread, chain=chain)
