"""Answers of `json_tools` as a regular byte language, for constrained decoding.

Every text of the language parses without a malformed piece. It is JSON as `json_tools`
writes it, with slots in the order of the prompt, each at most once. Categorical slots
have possible values (or `dontcare`). Free values have at least one non-space character.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from jaxaug.core.byte_machine import Machine, Part, Parts
from jaxaug.formats.json_tools import Signature, dumped

TAIL = (0x80, 0xBF)
"""Range of the bytes of a character after its first one."""
# Maps first bytes of UTF-8 characters to ranges of the other bytes. It excludes
# surrogates, code points above U+10FFFF, and overlong forms.
_UTF8: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0xC2, 0xDF), TAIL),
    ((0xE0, 0xE0), (0xA0, 0xBF), TAIL),
    ((0xE1, 0xEC), TAIL, TAIL),
    ((0xED, 0xED), (0x80, 0x9F), TAIL),
    ((0xEE, 0xEF), TAIL, TAIL),
    ((0xF0, 0xF0), (0x90, 0xBF), TAIL, TAIL),
    ((0xF1, 0xF3), TAIL, TAIL, TAIL),
    ((0xF4, 0xF4), (0x80, 0x8F), TAIL, TAIL),
)


class Characters(Parts):
    """Parts with moves over whole characters."""

    def tails(self, inside: int) -> list[int]:
        """Returns the states with 0, 1, 2, and 3 bytes left; the first is `inside`."""
        found = [inside, self.state(), self.state(), self.state()]
        for after, before in pairwise(found):
            self.move(before, *TAIL, after)
        return found

    def characters(
        self,
        at: int,
        ascii_ranges: Iterable[tuple[int, int]],
        tails: Sequence[int],
        without: Iterable[bytes] = (),
    ) -> None:
        """Moves over one character from a state.

        Args:
            at: state before the character.
            ascii_ranges: first and last of the permitted bytes below 0x80.
            tails: states after the first byte; see `tails`.
            without: multi-byte characters that are not permitted.
        """
        for low, high in ascii_ranges:
            self.move(at, low, high, tails[0])
        for ranges in _UTF8:
            texts = {text for text in without if len(text) == len(ranges)}
            self._wide(at, ranges, tails, texts)

    def _wide(
        self,
        at: int,
        ranges: Sequence[tuple[int, int]],
        tails: Sequence[int],
        without: Iterable[bytes],
    ) -> None:
        """Moves over multi-byte characters, except for some, to tails[0]."""
        (low, high), rest = ranges[0], ranges[1:]
        held = {text[0] for text in without if low <= text[0] <= high}
        usual = all(one == TAIL for one in rest)
        if gaps := gaps_of(low, high, held):
            after = tails[len(rest)] if usual else self.state()
            for gap in gaps:
                self.move(at, *gap, after)
            if not usual:
                self._wide(after, rest, tails, ())
        for byte in sorted(held) if rest else ():
            after = self.state()
            self.move(at, byte, byte, after)
            shorter = {text[1:] for text in without if text[0] == byte}
            self._wide(after, rest, tails, shorter)


def gaps_of(low: int, high: int, held: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the ranges that remain of a range without some numbers."""
    marks = [low - 1, *sorted(held), high + 1]
    return [(a + 1, b - 1) for a, b in pairwise(marks) if a + 1 <= b - 1]


@cache
def spaces() -> frozenset[bytes]:
    """Returns the multi-byte white space of `str.split`."""
    return frozenset(
        chr(code).encode() for code in range(0x80, 0x10000) if chr(code).isspace()
    )


_ANY_VALUE = "dontcare"
# Characters except controls, quotes, and backslashes; with and without the space.
_PLAIN = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))
_BLACK = ((0x21, 0x21), (0x23, 0x5B), (0x5D, 0x7F))


def machine(signatures: Sequence[Signature]) -> Machine:
    """Returns the language of each signature and, last, their union."""
    words = _Words()
    languages = [words.call(signature) for signature in signatures]
    return words.machine(*languages, words.choice(languages))


class _Words(Characters):
    """Parts of JSON."""

    def call(self, signature: Signature) -> Part:
        """Returns a whole answer."""
        names = self.texts(signature.names)
        parts = [
            self.literal(b'{"name": '),
            names,
            self.literal(b', "arguments": '),
            self._arguments(signature),
        ]
        if signature.requested:
            parts += [
                self.literal(b', "requested": '),
                self._requested(list(signature.slots)),
            ]
        end = self.literal(b"}")
        return self.sequence(*parts, end)

    def texts(self, texts: Iterable[str]) -> Part:
        """Returns one of the texts, as a JSON string."""
        return self.choice(self.literal(dumped(text).encode()) for text in texts)

    def _arguments(self, signature: Signature) -> Part:
        pairs = [
            self.sequence(
                self.literal(f"{dumped(name)}: ".encode()),
                self._one_or_more(options),
            )
            for name, options in signature.slots.items()
        ]
        return self._in_order(pairs, b"{", b"}")

    def _requested(self, names: Sequence[str]) -> Part:
        return self._in_order([self.texts([name]) for name in names], b"[", b"]")

    def _in_order(self, parts: Sequence[Part], opening: bytes, closing: bytes) -> Part:
        """Returns some of the parts in order, each at most once, between brackets."""
        first, begun = self.literal(opening)
        ending, last = self.literal(closing)
        self.join(begun, ending)
        for index, (start, end) in enumerate(parts):
            self.join(begun, start)
            self.join(end, ending)
            comma, after = self.literal(b", ")
            if index + 1 < len(parts):
                self.join(end, comma)
            for later, _ in parts[index + 1 :]:
                self.join(after, later)
        return first, last

    def _one_or_more(self, options: Sequence[str]) -> Part:
        """Returns a value, or an array of values."""
        alone, inside = self._value(options), self._value(options)
        array, more = self.literal(b"["), self.literal(b", ")
        self.join(array[1], inside[0])
        self.join(inside[1], more[0])
        self.join(more[1], inside[0])
        return self.choice([alone, (array[0], self._then(inside, b"]"))])

    def _then(self, part: Part, text: bytes) -> int:
        return self.sequence(part, self.literal(text))[1]

    def _value(self, options: Sequence[str]) -> Part:
        if options:
            return self.texts(dict.fromkeys((*options, _ANY_VALUE)))
        return self._free_text()

    def _free_text(self) -> Part:
        """Returns a string that is not only white space."""
        opening, first = self.literal(b'"')
        inside, last = self.literal(b'"')
        tails = self.tails(inside)
        escape = self.state()
        for character in b'"\\/':
            self.move(escape, character, character, inside)
        for at, plain, without in (
            (first, _BLACK, spaces()),
            (inside, _PLAIN, frozenset()),
        ):
            self.move(at, 0x5C, 0x5C, escape)
            self.characters(at, plain, tails, without)
        return opening, last
