"""Places in JSON texts, compared with a brute-force reading of the same texts."""

import json
import random

import pytest

from jaxaug.core import json_places

_TEXT = """[
  {"name": "a \\"quoted\\", {odd} [text]:", "values": [1, -2.5e3,
    {"deep": null}, []], "empty": {}},
  {"é\\u00e9": true}
]
"""


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ((), (1, 1)),
        ((0,), (2, 3)),
        ((0, "name"), (2, 4)),
        ((0, "values"), (2, 43)),
        ((0, "values", 1), (2, 57)),
        ((0, "values", 2, "deep"), (3, 6)),
        ((0, "values", 3), (3, 21)),
        ((0, "empty"), (3, 26)),
        ((1, "éé"), (4, 4)),
        # The place of a missing value is where it should be.
        ((1, "no", 3), (4, 3)),
        ((0, "values", 9), (2, 43)),
        ((7,), (1, 1)),
    ],
)
def test_places(keys, place):
    assert json_places.places(_TEXT, [keys]) == {keys: place}


def _drawn(rng, depth):
    kind = rng.choice("olsn" if depth else "sn")
    if kind == "o":
        return {_word(rng): _drawn(rng, depth - 1) for _ in range(rng.randrange(4))}
    if kind == "l":
        return [_drawn(rng, depth - 1) for _ in range(rng.randrange(4))]
    return _word(rng) if kind == "s" else rng.choice([None, True, 1.5, -3])


def _word(rng):
    return "".join(rng.choices('ab"\\{}[]:, \n\u00e9', k=4))


def _keys(value, keys=()):
    yield keys
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else pairs:
        yield from _keys(item, (*keys, key))


def test_values_of_random_texts_are_found_in_place():
    rng = random.Random(0)
    decoder = json.JSONDecoder()
    for indent in [None, 1] * 40:
        value = _drawn(rng, 4)
        text = json.dumps(value, indent=indent, ensure_ascii=False)
        found = list(json_places.offsets(text))
        assert [keys for keys, _ in found] == list(_keys(value))
        for keys, offset in found:
            expected = value
            for key in keys:
                expected = expected[key]
            begun, end = decoder.raw_decode(text, offset)
            if keys and isinstance(keys[-1], str):  # A member starts with its name.
                assert begun == keys[-1]
                start = text.index(":", end) + 1
                begun, _ = decoder.raw_decode(text, start + (text[start] == " "))
            assert begun == expected


def test_repeated_name():
    assert json_places.repeated_name('[{"a": 1},\n {"a": 2, "a": 3}]') == (2, 11)
    assert json_places.repeated_name('[{"a": 1}, {"a": {"a": 3}}]') is None
