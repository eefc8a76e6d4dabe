"""Constrained decoding: an automaton masks the logits of any decode function.

The automaton state of a row is stored in the cache, so it moves with the beams.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from t5x.decoding import DecodingState
from t5x.search.decode_state import (
    TokensToLogits,
    match_container,
    prompt_lengths,
    start_index,
)

from jaxaug.decode import contract
from jaxaug.decode.automaton import Automaton
from jaxaug.decode.sample import sample

_MODEL, _STATE, _PROMPT, _LIMIT = "model", "state", "prompt", "limit"


class Heads(NamedTuple):
    """First tokens of prompts, which determine the language of a row.

    Attributes:
        tokens: [languages, columns], zero-padded.
        lengths: [languages], number of tokens of each head.
    """

    tokens: Int[np.ndarray, "languages columns"]
    lengths: Int[np.ndarray, " languages"]

    def find(self, prompts: Int[Array, "batch length"]) -> Int[Array, " batch"]:
        """Returns the index of the head that begins each row.

        For a row without a known head it is the number of heads.
        """
        columns = min(self.tokens.shape[1], prompts.shape[1])
        heads, lengths = jnp.asarray(self.tokens), jnp.asarray(self.lengths)
        inside = jnp.arange(columns) < lengths[:, None]
        same = (prompts[:, None, :columns] == heads[:, :columns]) | ~inside
        found = jnp.all(same, axis=-1) & (lengths <= prompts.shape[1])
        return jnp.where(
            jnp.any(found, axis=1), jnp.argmax(found, axis=1), len(self.lengths)
        )


def search(
    inputs: Int[Array, "batch length"],
    cache: Any,
    tokens_to_logits: TokensToLogits,
    eos_id: int,
    num_decodes: int = 1,
    *,
    automaton: Automaton,
    heads: Heads | None = None,
    languages: Int[Array, " batch"] | None = None,
    decode_fn: Callable[..., Any] = sample,
    max_decode_steps: int | None = None,
    cache_offset: int = 0,
    initial_index: Int[Array, " batch"] | None = None,
    source: Int[Array, "batch source_length"] | None = None,
    **others: Any,
) -> Any:
    """Runs a decode function with outputs restricted to languages.

    It is a decode function of T5X itself. Tokens that are not allowed get the logit
    `FORBIDDEN`. Every output is a complete text of the language, provided that the
    shortest text of the language fits (`Automaton.check_room`).

    Args:
        inputs: see `sample.sample`; the forced tokens are the prompt, which is not part
            of the language.
        cache: see `sample.sample`.
        tokens_to_logits: see `sample.sample`.
        eos_id: token that ends the texts of the automaton.
        num_decodes: see `sample.sample`.
        automaton: automaton of the languages. As an argument of a compiled program it
            serves all languages of equal sizes (see `Automaton.padded`).
        heads: first tokens of the prompts of the languages 0, 1, ... A row has the
            language of its head. A row without a known head, such as a prompt that was
            cut on the left, has the last language. The head is at the beginning of
            `source` if that is given, else after BOS in `inputs`.
        languages: index of each row's language; overrides `heads`. Without `languages`
            and `heads`, all rows have the last language.
        decode_fn: decode function to restrict.
        max_decode_steps: see `sample.sample`.
        cache_offset: see `sample.sample`.
        initial_index: see `sample.sample`.
        source: see `sample.sample`.
        others: further arguments of `decode_fn`.

    Returns:
        The result of `decode_fn`.

    Raises:
        UserError: no output fits into `max_decode_steps`, or `decode_fn` raises it.
    """
    if not isinstance(automaton.shortest, jax.Array):  # Else the caller checks it.
        automaton.check_room(max_decode_steps or inputs.shape[1])
    start = start_index(inputs, initial_index)
    prompt = prompt_lengths(inputs, start)
    limit = contract.length_limits(inputs, prompt, max_decode_steps)
    if languages is None:
        last = jnp.full(inputs.shape[0], len(automaton.starts) - 1)
        begun = inputs[:, 1:] if source is None else source
        languages = last if heads is None else heads.find(begun)
    states = jnp.asarray(automaton.starts, jnp.int32)[languages]
    lead = (1,) * cache_offset
    known = {_STATE: states, _PROMPT: prompt, _LIMIT: limit}
    joined = {
        _MODEL: cache,
        **{name: leaf.reshape(*lead, -1) for name, leaf in known.items()},
    }

    def restricted(
        state: DecodingState,
    ) -> tuple[Float[Array, "rows vocab"], Any]:
        held = {name: state.cache[name].reshape(-1) for name in known}
        logits, model_cache = tokens_to_logits(state.replace(cache=state.cache[_MODEL]))
        drawn = state.cur_index > held[_PROMPT]
        after = automaton.after(held[_STATE], state.cur_token[:, 0])
        states = jnp.where(drawn, after, held[_STATE])
        room = held[_LIMIT] - state.cur_index
        masked = automaton.mask(logits.astype(jnp.float32), states, room)
        # NaN and infinity stay visible, also in forbidden places.
        masked = jnp.where(jnp.isfinite(logits), masked, logits)
        new = {
            **state.cache,
            _MODEL: match_container(model_cache, state.cache[_MODEL]),
            _STATE: states.reshape(state.cache[_STATE].shape),
        }
        return masked, new

    # Not every decode function has all of these.
    given = {
        "max_decode_steps": max_decode_steps,
        "initial_index": initial_index,
        "source": source,
    }
    others |= {name: value for name, value in given.items() if value is not None}
    return decode_fn(
        inputs=inputs,
        cache=joined,
        tokens_to_logits=restricted,
        eos_id=eos_id,
        num_decodes=num_decodes,
        cache_offset=cache_offset,
        **others,
    )
