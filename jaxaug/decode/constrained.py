"""Decoding in a language: any decode function, with an automaton before the logits.

The state of a row lies in the cache, so that it goes with beams that change places.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from t5x.decoding import DecodingState

from jaxaug.decode import contract
from jaxaug.decode.automaton import Automaton
from jaxaug.decode.sample import TokensToLogits, sample

_MODEL, _STATE, _PROMPT, _LIMIT = "model", "state", "prompt", "limit"


class Heads(NamedTuple):
    """The first tokens of prompts, by which a row finds its language.

    Attributes:
        tokens: [languages, columns], 0 where a head is shorter.
        lengths: [languages].
    """

    tokens: Int[np.ndarray, "languages columns"]
    lengths: Int[np.ndarray, " languages"]

    def find(self, prompts: Int[Array, "batch length"]) -> Int[Array, " batch"]:
        """Returns the head with which each row begins; the number of heads for none."""
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
    """Any decode function of T5X, restricted to languages: a decode function itself.

    Only allowed tokens have a probability. An output is always a whole text of the
    language, provided that its shortest text fits (`Automaton.check_room`).

    Args:
        inputs: see `sample`; forced tokens are the prompt and not part of the language.
        cache: see there.
        tokens_to_logits: see there.
        eos_id: token with which texts of the automaton end.
        num_decodes: see there.
        automaton: the languages. As an argument of a compiled program it serves all
            languages of equal sizes (see `Automaton.padded`).
        heads: of the prompts, one for each of the first languages. A row has the
            language of its head, and the last one without a known head (a prompt that
            was cut on the left). Heads are looked for in `source` if it is given, else
            behind BOS in `inputs`.
        languages: number of each row's language; overrides `heads`. Without both all
            rows have the last one.
        decode_fn: does the search.
        max_decode_steps: see there.
        cache_offset: see there.
        initial_index: see there.
        source: see there.
        others: passed on.

    Raises:
        UserError: no output fits into `max_decode_steps`, or what `decode_fn` raises.
    """
    if not isinstance(automaton.shortest, jax.Array):  # Else the caller checks it.
        automaton.check_room(max_decode_steps or inputs.shape[1])
    start = contract.start_index(inputs, initial_index)
    prompt = contract.prompt_lengths(inputs, start)
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
            _MODEL: contract.match_container(model_cache, state.cache[_MODEL]),
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
