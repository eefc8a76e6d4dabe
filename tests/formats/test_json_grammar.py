"""The language of answers: all written texts, and only readable texts."""

import os
import random

import numpy as np
import pytest

from jaxaug.core.byte_machine import DEAD
from jaxaug.data import sgd
from jaxaug.formats import json_grammar
from jaxaug.formats.json_tools import JSONFormatter, JSONOptions, parse, signature
from jaxaug_papers import minisgd
from tests.formats.test_json_tools import INTENTS, SERVICE, example

KEYS = (example({}).key, example({}, INTENTS).key)
MACHINE = json_grammar.machine([signature(key) for key in KEYS])


def drawn(start, rng):
    """Returns a random text of a language: bytes until an end, which comes soon."""
    state, text = MACHINE.starts[start], bytearray()
    while not MACHINE.accepting[state]:
        known = np.flatnonzero(MACHINE.moves[state] != DEAD).tolist()
        ends = [b for b in b'"}]' if b in known]
        byte = rng.choice(ends) if ends and rng.random() < 0.3 else rng.choice(known)
        text.append(byte)
        state = MACHINE.moves[state, byte]
    return bytes(text)


@pytest.mark.parametrize("start", [0, 1])
def test_every_text_of_the_language_is_a_state(start):
    rng = random.Random(start)
    seen = set()
    options = {s.name: s.possible_values for s in SERVICE.slots if s.is_categorical}
    for _ in range(200):
        text = drawn(start, rng)
        assert MACHINE.accepts(text, 2)  # in any of the languages
        parsed = parse(text.decode(), KEYS[start])
        assert parsed.malformed == 0, text
        for slot, values in parsed.slot_values.items():
            seen.add(slot)
            if slot in options:
                assert {*values} <= {*options[slot], "dontcare"}
    assert seen == {slot.name for slot in SERVICE.slots}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"city": ""}',
        '{"city": " a"}',
        '{"city": "\u3000a"}',
        '{"city": "\u00a0"}',
        '{"city": "a\n"}',
        '{"city": "a", "city": "b"}',
        '{"kind": "music", "city": "a"}',
        '{"kind": "opera"}',
        '{"town": "a"}',
        '{"city": "a",}',
        '{"city": []}',
    ],
)
def test_texts_outside_the_language(arguments):
    def text(inner):
        return f'{{"name": "Events_1", "arguments": {inner}}}'.encode()

    assert not MACHINE.accepts(text(arguments))
    assert MACHINE.accepts(text('{"city": "a\u3000\u00a0 \u20ac\U0001f600\\"\\\\"}'))
    assert MACHINE.accepts(text('{"city": ["\u00a3a", "b"], "kind": "dontcare"}'))
    assert not MACHINE.accepts(text('{"city": "a"}').replace(b"a", b"\xed\xa0\x80"))


def targets_outside(folder, options, limit):
    """Returns the targets outside the language, and the number of all targets."""
    formatter = JSONFormatter(sgd.read_schema_of(folder, "test"), options)
    found = (
        one for d in sgd.read_dialogues(folder, "test") for one in formatter.dialogue(d)
    )
    examples = [one for one, _ in zip(found, range(limit), strict=False)]
    keys = list(dict.fromkeys(one.key for one in examples))
    machine = json_grammar.machine([signature(key) for key in keys])
    outside = [
        one.targets
        for one in examples
        if not machine.accepts(one.targets.encode(), keys.index(one.key))
    ]
    return outside, len(examples)


def test_targets_of_minisgd_are_in_the_language(tmp_path):
    folder = tmp_path / "data"
    minisgd.write(folder, train_dialogues=4, dev_dialogues=2, test_dialogues=20)
    outside, count = targets_outside(folder, JSONOptions(level="dst_intent"), 10**6)
    assert count > 40 and outside == []


@pytest.mark.skipif(
    "JAXAUG_REAL_DATA" not in os.environ, reason="needs SGD in $JAXAUG_REAL_DATA"
)
def test_targets_of_sgd_are_in_the_language():
    folder = os.environ["JAXAUG_REAL_DATA"] + "/sgd"
    assert targets_outside(folder, JSONOptions(), 3000) == ([], 3000)
