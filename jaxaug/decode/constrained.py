"""Constrained decoding: an automaton masks the logits of any decode function.

The automaton state of a row is stored in the cache, so it moves with the beams.

An automaton is a language of bytes, compiled for a vocabulary. A state allows a token
if the machine can read its bytes and an end can still be reached. The allowed tokens of
every state are stored as bits, which a step looks up. The state after a token is found
by reading its bytes, so no table of states and tokens is needed.

An output must be complete when its length limit is reached. Each state therefore stores
the number of tokens on its shortest path to the end, and the first tokens of such
paths.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt
from t5x.decoding import DecodingState
from t5x.search.decode_state import (
    TokensToLogits,
    prompt_lengths,
    start_index,
)
from t5x.state_utils import as_container

from jaxaug.core.buckets import power_of_two
from jaxaug.core.byte_machine import DEAD, Machine
from jaxaug.core.errors import UserError
from jaxaug.decode import contract
from jaxaug.decode.sample import sample

# As models forbid a token: finite, so that sums of beams stay so.
FORBIDDEN = -1e10
_BITS = 32
_FAR = 1 << 20


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Automaton:
    """A machine with the tokens of a vocabulary, as NumPy arrays.

    The last state is the dead state, in which only EOS is allowed.

    Attributes:
        moves: [states, 256], the state after a byte.
        free: [states], row of `masks` with all allowed tokens.
        short: [states], row of `masks` with the tokens that begin a shortest path to
            the end.
        worst: [states], number of tokens to the end, EOS included, if the allowed token
            with the longest remaining path is chosen.
        shortest: [states], number of tokens on the shortest path, EOS included.
        masks: [rows, words], bits of the tokens; token 32 * i + j is bit j of column i.
        spelling: [vocab, longest], bytes of the tokens, zero-padded.
        starts: first state of each language; an array after `padded`.
    """

    moves: Int[np.ndarray, "states 256"]
    free: Int[np.ndarray, " states"]
    short: Int[np.ndarray, " states"]
    worst: Int[np.ndarray, " states"]
    shortest: Int[np.ndarray, " states"]
    masks: UInt[np.ndarray, "rows words"]
    spelling: UInt[np.ndarray, "vocab longest"]
    lengths: Int[np.ndarray, " vocab"]
    starts: tuple[int, ...] | Int[np.ndarray, " languages"]

    def padded(self) -> "Automaton":
        """Returns the automaton with states, masks, and languages padded.

        The numbers of each become powers of two. A compiled program that takes the
        automaton as an argument then serves all languages with equal padded sizes.
        """

        def longer(array: np.ndarray) -> np.ndarray:
            rows = power_of_two(len(array), 1) - len(array)
            return np.pad(array, [(0, rows)] + [(0, 0)] * (array.ndim - 1))

        return dataclasses.replace(
            self,
            moves=longer(self.moves),
            free=longer(self.free),
            short=longer(self.short),
            worst=longer(self.worst),
            shortest=longer(self.shortest),
            masks=longer(self.masks),
            starts=longer(np.array(self.starts, np.int32)),
        )

    def after(
        self, states: Int[Array, " rows"], tokens: Int[Array, " rows"]
    ) -> Int[Array, " rows"]:
        """Returns the state of each row after a token."""
        moves, spelling = jnp.asarray(self.moves), jnp.asarray(self.spelling)
        tokens = jnp.clip(tokens, 0, len(self.lengths) - 1)
        length, text = jnp.asarray(self.lengths)[tokens], spelling[tokens]

        def read(place: Array, state: Array) -> Array:
            return jnp.where(place < length, moves[state, text[:, place]], state)

        return lax.fori_loop(0, jnp.max(length), read, states)

    def mask(
        self,
        logits: Float[Array, "rows vocab"],
        states: Int[Array, " rows"],
        room: Int[Array, " rows"],
    ) -> Float[Array, "rows vocab"]:
        """Returns logits with `FORBIDDEN` for what is not allowed in `room` tokens."""
        safe = jnp.asarray(self.worst)[states] < room
        row = jnp.where(
            safe, jnp.asarray(self.free)[states], jnp.asarray(self.short)[states]
        )
        words = jnp.asarray(self.masks)[row]
        column = jnp.arange(logits.shape[-1])
        bits = jnp.take(words, column // _BITS, axis=1, mode="fill", fill_value=0)
        allowed = (bits >> (column % _BITS).astype(jnp.uint32)) & 1
        return jnp.where(allowed > 0, logits, FORBIDDEN)

    def check_room(self, room: int) -> None:
        """Refuses a language without an output of at most `room` tokens.

        Raises:
            UserError: every text of some language needs more than `room` tokens.
        """
        needed = max(int(self.shortest[start]) for start in self.starts)
        if room < needed:
            raise UserError(
                f"constrained decoding has {room} tokens for an output, but the "
                f"shortest one has {needed}: allow more (the length of the targets, or "
                "max_decode_steps)."
            )


def compiled(
    machine: Machine, spelling: Sequence[bytes | None], eos_id: int
) -> Automaton:
    """Returns the automaton of a machine for a vocabulary.

    Args:
        spelling: bytes of each token; None for a token without text, such as padding.
            Such tokens are never allowed, except EOS at an end.

    Raises:
        UserError: the vocabulary cannot write any text of a language.
    """
    end = len(machine.moves)
    moves = np.where(machine.moves == DEAD, end, machine.moves)
    moves = np.concatenate([moves, np.full((1, 256), end)]).astype(np.int32)
    lengths = np.array([len(text or b"") for text in spelling], np.int32)
    text = np.zeros((len(spelling), np.max(lengths, initial=1)), np.uint8)
    for token, one in enumerate(spelling):
        if one:
            text[token, : len(one)] = np.frombuffer(one, np.uint8)
    steps = _Steps(moves, text, lengths)
    edges = [steps.of(state) for state in range(end)]
    accepting = np.append(machine.accepting, True)
    shortest = _distances(edges, accepting)
    if impossible := [s for s in machine.starts if shortest[s] >= _FAR]:
        raise UserError(
            f"constrained decoding: the vocabulary cannot write {len(impossible)} of "
            f"{len(machine.starts)} languages, as it lacks some of their characters. "
            "Use one that knows all bytes."
        )
    words = -(-len(spelling) // _BITS)
    rows: dict[bytes, int] = {}
    free, short, worst = (np.zeros(end + 1, np.int32) for _ in range(3))
    ends = np.append(shortest, 0)  # of no state: after EOS
    for state in range(end + 1):
        tokens, after = edges[state] if state < end else _NONE
        tokens, after = tokens[ends[after] < _FAR], after[ends[after] < _FAR]
        if accepting[state]:
            tokens, after = np.append(tokens, eos_id), np.append(after, end + 1)
        left = ends[after]
        near = tokens[left == left.min(initial=_FAR)]
        free[state] = rows.setdefault(_packed(tokens, words), len(rows))
        short[state] = rows.setdefault(_packed(near, words), len(rows))
        worst[state] = 1 + left.max(initial=0)
    masks = np.stack([np.frombuffer(row, np.uint32) for row in rows])
    return Automaton(
        moves, free, short, worst, shortest, masks, text, lengths, machine.starts
    )


_NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _packed(tokens: Int[np.ndarray, " n"], words: int) -> bytes:
    allowed = np.zeros(words * _BITS, bool)
    allowed[tokens] = True
    bits = np.packbits(allowed, bitorder="little").view("<u4")
    return bits.astype(np.uint32).tobytes()


class _Steps:
    """Reads all tokens from a state, grouped by their first byte."""

    def __init__(self, moves: np.ndarray, text: np.ndarray, lengths: np.ndarray):
        self._moves, self._text, self._lengths = moves, text, lengths
        self._dead = len(moves) - 1
        written = np.flatnonzero(lengths)
        self._by_byte = [written[text[written, 0] == byte] for byte in range(256)]

    def of(self, state: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the tokens that a state can read, and the states after them."""
        known = np.flatnonzero(self._moves[state] != self._dead)
        if not len(known):
            return _NONE
        tokens = np.concatenate([self._by_byte[byte] for byte in known])
        after = self._moves[state, self._text[tokens, 0]]
        for place in range(1, self._text.shape[1]):
            longer = self._lengths[tokens] > place
            if not longer.any():
                break
            after[longer] = self._moves[
                after[longer], self._text[tokens[longer], place]
            ]
            alive = after != self._dead
            tokens, after = tokens[alive], after[alive]
        return tokens, after


def _distances(
    edges: Sequence[tuple[np.ndarray, np.ndarray]], accepting: Bool[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """Returns the number of tokens to the end of each state, with EOS, or `_FAR`."""
    after = [np.unique(found) for _, found in edges]
    before = np.repeat(np.arange(len(after)), [len(found) for found in after])
    reached = np.concatenate(after) if after else np.zeros(0, np.int64)
    distances = np.where(accepting, 1, _FAR)
    while True:
        shorter = distances.copy()
        np.minimum.at(shorter, before, distances[reached] + 1)
        if (shorter == distances).all():
            return np.minimum(distances, _FAR).astype(np.int32)
        distances = shorter


_MODEL, _STATE, _PROMPT, _LIMIT = "model", "state", "prompt", "limit"


class Heads(NamedTuple):
    """First tokens of prompts, zero-padded, which determine the language of a row."""

    tokens: Int[np.ndarray, "languages columns"]
    lengths: Int[np.ndarray, " languages"]

    def find(self, prompts: Int[Array, "batch length"]) -> Int[Array, " batch"]:
        """Returns the index of the head of each row, or the number of heads."""
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
        eos_id: token that ends the texts of the automaton.
        automaton: automaton of the languages. As an argument of a compiled program it
            serves all languages of equal sizes (see `Automaton.padded`).
        heads: first tokens of the prompts of the languages 0, 1, ... A row has the
            language of its head. A row without a known head, such as a prompt that was
            cut on the left, has the last language. The head is at the beginning of
            `source` if that is given, else after BOS in `inputs`.
        languages: index of each row's language; overrides `heads`. Without `languages`
            and `heads`, all rows have the last language.
        decode_fn: decode function to restrict.

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

    def restricted(state: DecodingState) -> tuple[Float[Array, "rows vocab"], Any]:
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
            _MODEL: as_container(model_cache, state.cache[_MODEL]),
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
