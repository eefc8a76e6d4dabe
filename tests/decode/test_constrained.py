"""Constrained decoding: outputs are complete and in the language for any model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decode_kit import random_table, table_cache, table_model
from t5x import decoding

from jaxaug.core.byte_machine import Parts
from jaxaug.core.errors import UserError
from jaxaug.decode import beam, constrained
from jaxaug.formats import json_grammar
from jaxaug.formats.json_tools import Parsed, dumped, parse, signature
from tests.support import grids

EOS = 1
KEYS = [
    dumped([[name], {"city": [], "kind": ["Music", "Team Sports"]}, False, True])
    for name in ("Events_1", "Events_12")
]
KEYS.append(dumped([["Buy", "NONE"], {"day": [], "seats": ["1", "2"]}, True, True]))
# Pad, EOS, all bytes, and pieces that cross boundaries of the JSON syntax.
PIECES = (
    '": "', '", "', '"}}', '{"name": "Events_1', "Events", '", "arguments": {', "ity",
    '"kind": "', "usic", "m", '"city": ["', "é", "\u3000a", ' "NONE"', "[]}", "2\"}",
)  # fmt: skip
SPELLING = [
    None,
    None,
    *(bytes([b]) for b in range(256)),
    *(p.encode() for p in PIECES),
]
MACHINE = json_grammar.machine([signature(key) for key in KEYS])
AUTOMATON = constrained.compiled(MACHINE, SPELLING, EOS)
VOCAB = 320  # more columns than tokens


def text_of(decode):
    tokens = [int(t) for t in decode]
    ended = EOS in tokens
    tokens = tokens[: tokens.index(EOS)] if ended else tokens
    return b"".join(SPELLING[t] for t in tokens), ended


@functools.partial(jax.jit, static_argnames=("length", "decodes", "search"))
def decoded(table, languages, key, length, decodes=1, search=None):
    inputs = jnp.zeros((languages.shape[0], length), jnp.int32)
    cache = {"hidden": jnp.arange(languages.shape[0]) % 211}
    chosen = {} if search is None else {"decode_fn": search}
    if search is None:
        chosen |= {"input_ids": jnp.arange(languages.shape[0]), "decode_rng": key}
    return constrained.search(
        inputs, cache, table_model(table), EOS, decodes, automaton=AUTOMATON,
        languages=languages, **chosen,
    )  # fmt: skip


def check(decode, key):
    text, ended = text_of(decode)
    assert ended, text
    parsed = parse(text.decode(), key)
    assert parsed.malformed == 0, text
    return parsed


@pytest.mark.parametrize(
    ("length", "scale"), grids.first(1, [(40, 4.0), (72, 0.0), (36, 1.0)])
)
def test_random_outputs_parse_as_states(length, scale):
    """Lengths with ample room, and with hardly any."""
    assert AUTOMATON.shortest[list(AUTOMATON.starts)].max() <= 36
    outputs, states, rows = set(), set(), 850
    for seed in range(4):
        table = random_table(seed, scale, VOCAB)
        table[:, EOS] += 2.0
        languages = np.arange(rows) % len(KEYS)
        decodes, scores = decoded(table, languages, jax.random.PRNGKey(seed), length)
        assert np.isfinite(scores).all()
        for row, decode in enumerate(np.asarray(decodes)[:, -1]):
            parsed = check(decode, KEYS[row % len(KEYS)])
            states.add(str(parsed.slot_values))
            outputs.add(tuple(decode))
    assert len(outputs) > 1000 and len(states) > (20 if length > 36 else 0)


def test_a_sure_model_keeps_its_answer():
    """The mask allows every spelling of a text in the language."""
    answer = (
        '{"name": "Events_1", "arguments": {"city": ["oslo", "é"], "kind": "music"}}'
    )
    rng = np.random.default_rng(0)
    rest, tokens = answer.encode(), []
    while rest:
        fits = [t for t, s in enumerate(SPELLING) if s and rest.startswith(s)]
        tokens.append(int(rng.choice(fits)))
        rest = rest[len(SPELLING[tokens[-1]]) :]
    script = jax.nn.one_hot(jnp.asarray([[*tokens, EOS] + [0] * 80]), VOCAB) * 50.0

    def model(state):
        return script[:, state.cur_index[0]], state.cache

    decodes, _ = constrained.search(
        jnp.zeros((1, 100), jnp.int32), {}, model, EOS, automaton=AUTOMATON
    )
    assert text_of(decodes[0, 0]) == (answer.encode(), True)


@pytest.mark.parametrize(
    "search",
    [
        functools.partial(beam.search, alpha=0.0),
        decoding.beam_search,
        functools.partial(decoding.temperature_sample, decode_rng=jax.random.PRNGKey(0),
         temperature=1.0, topk=0),
    ],
    ids=["beam", "beam of T5X", "sampling of T5X"],
)  # fmt: skip
def test_any_decode_function_may_do_the_search(search):
    languages = np.arange(6) % len(KEYS)
    table = random_table(7, 3.0, VOCAB)
    decodes, _ = decoded(table, languages, jax.random.PRNGKey(0), 60, 3, search)
    for row in range(6):
        texts = {text_of(one)[0] for one in np.asarray(decodes)[row]}
        assert len(texts) > 1
        for one in np.asarray(decodes)[row]:
            check(one, KEYS[row % len(KEYS)])


def test_masks_equal_reading_every_token():
    """Masks equal a byte-wise walk through the machine if there is ample room."""
    rng = np.random.default_rng(1)
    states = rng.choice(len(MACHINE.moves), 60, replace=False)
    masked = AUTOMATON.mask(
        jnp.zeros((60, VOCAB)), jnp.asarray(states), jnp.full(60, 10**6)
    )
    pairs, expected = [], []
    for state, row in zip(states, np.asarray(masked), strict=True):
        allowed = {EOS} if MACHINE.accepting[state] else set()
        for token, text in enumerate(SPELLING):
            at = state
            for byte in text or b"":
                at = MACHINE.moves[at, byte] if at >= 0 else -1
            if text and at >= 0:
                allowed.add(token)
                pairs.append((state, token))
                expected.append(at)
        assert set(np.flatnonzero(row == 0)) == allowed
    after = AUTOMATON.after(*jnp.asarray(pairs).T)
    assert after.tolist() == expected


def test_rows_find_their_language_by_the_head_of_their_prompt():
    heads = constrained.Heads(
        np.array([[5, 6, 0], [5, 7, 8]], np.int32), np.array([2, 3], np.int32)
    )
    prompts = jnp.asarray([[5, 7, 8, 9], [5, 6, 8, 9], [5, 7, 9, 9], [6, 5, 6, 0]])
    assert heads.find(prompts).tolist() == [1, 0, 2, 2]
    # A decoder-only model has BOS before the prompt, and BOS is in the cache.
    inputs = np.zeros((2, 60), np.int32)
    inputs[:, 1:4] = [[5, 7, 8], [5, 6, 9]]
    start = jnp.asarray([3, 3])
    decodes, _ = constrained.search(
        jnp.asarray(inputs), table_cache(inputs, [3, 3]),
        table_model(random_table(0, 1.0, VOCAB)), EOS, automaton=AUTOMATON, heads=heads,
        initial_index=start, max_decode_steps=40,
    )  # fmt: skip
    for decode, key in zip(np.asarray(decodes)[:, 0], (KEYS[1], KEYS[0]), strict=True):
        assert check(decode[3:], key) != Parsed({}, malformed=1)
        assert text_of(decode[3:])[0].count(b'Events_1"') == (key == KEYS[0])


def test_vocabularies_that_cannot_write_an_answer():
    with pytest.raises(UserError, match="has 9 tokens for an output, but the shortest"):
        decoded(random_table(0, 1.0, VOCAB), np.zeros(1, int), jax.random.PRNGKey(0), 9)
    words = Parts()
    machine = words.machine(words.literal(b"ab"), words.literal(b"a"))
    with pytest.raises(UserError, match="cannot write 1 of 2 languages"):
        constrained.compiled(machine, [None, None, b"a"], EOS)
