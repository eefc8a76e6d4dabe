"""Languages of bytes, compared with a list of all their texts."""

import itertools

from jaxaug.core.byte_machine import Parts


def texts_of(machine, start, alphabet, longest):
    return {
        bytes(text)
        for length in range(longest + 1)
        for text in itertools.product(alphabet, repeat=length)
        if machine.accepts(bytes(text), start)
    }


def test_every_text_and_no_other():
    words = Parts()
    first, last = words.literal(b"")
    words.move(first, ord("c"), ord("d"), first)  # any number of them
    language = words.sequence(
        words.choice([words.literal(b"a"), words.literal(b"ab")]), (first, last)
    )
    machine = words.machine(language, words.literal(b"b"))
    expected = {
        begin + bytes(rest)
        for begin in (b"a", b"ab")
        for length in range(4)
        for rest in itertools.product(b"cd", repeat=length)
        if len(begin) + length <= 4
    }
    assert texts_of(machine, 0, b"abcd", 4) == expected
    assert texts_of(machine, 1, b"abcd", 3) == {b"b"}
