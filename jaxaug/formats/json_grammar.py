"""The answers of `json_tools` as a regular language of bytes, for constrained decoding.

What is in the language parses without a malformed piece: JSON as `json_tools` writes it,
slots in the order of the prompt and each once, values of categorical slots among the
possible ones (or `dontcare`), free values with at least one character that is no space.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from jaxaug.core.byte_machine import Machine, Part, Parts
from jaxaug.formats.json_tools import Signature, dumped

_ANY_VALUE = "dontcare"
_TAIL = (0x80, 0xBF)  # bytes of a character after its first one
# First bytes of characters of UTF-8 -> ranges of the others. No surrogates, nothing
# above U+10FFFF, no longer forms of shorter characters.
_UTF8: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0xC2, 0xDF), _TAIL),
    ((0xE0, 0xE0), (0xA0, 0xBF), _TAIL),
    ((0xE1, 0xEC), _TAIL, _TAIL),
    ((0xED, 0xED), (0x80, 0x9F), _TAIL),
    ((0xEE, 0xEF), _TAIL, _TAIL),
    ((0xF0, 0xF0), (0x90, 0xBF), _TAIL, _TAIL),
    ((0xF1, 0xF3), _TAIL, _TAIL, _TAIL),
    ((0xF4, 0xF4), (0x80, 0x8F), _TAIL, _TAIL),
)
# Characters without a control, a quote and a backslash; with and without the space.
_PLAIN = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))
_BLACK = ((0x21, 0x21), (0x23, 0x5B), (0x5D, 0x7F))


def machine(signatures: Sequence[Signature]) -> Machine:
    """The language of each signature, and as the last one that of any of them."""
    words = _Words()
    languages = [words.call(signature) for signature in signatures]
    return words.machine(*languages, words.choice(languages))


class _Words(Parts):
    """Parts of JSON."""

    def call(self, signature: Signature) -> Part:
        """A whole answer."""
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
        """One of the texts, as a string of JSON."""
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
        """Some of the parts in their order, each at most once, between brackets."""
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
        """A value, or an array of them."""
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
        """A string that is not only white space."""
        opening, first = self.literal(b'"')
        inside, last = self.literal(b'"')
        # The states with that many bytes of a character to go.
        tails = [inside, self.state(), self.state(), self.state()]
        for after, before in pairwise(tails):
            self.move(before, *_TAIL, after)
        escape = self.state()
        for character in b'"\\/':
            self.move(escape, character, character, inside)
        for at, plain, without in (
            (first, _BLACK, _spaces()),
            (inside, _PLAIN, frozenset()),
        ):
            self.move(at, 0x5C, 0x5C, escape)
            for low, high in plain:
                self.move(at, low, high, inside)
            for ranges in _UTF8:
                texts = {text for text in without if len(text) == len(ranges)}
                self._wide(at, ranges, tails, texts)
        return opening, last

    def _wide(
        self,
        at: int,
        ranges: Sequence[tuple[int, int]],
        tails: Sequence[int],
        without: Iterable[bytes],
    ) -> None:
        """Moves over characters of several bytes, but for those given, to tails[0]."""
        (low, high), rest = ranges[0], ranges[1:]
        held = {text[0] for text in without if low <= text[0] <= high}
        usual = all(one == _TAIL for one in rest)
        if gaps := _gaps(low, high, held):
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


def _gaps(low: int, high: int, held: Iterable[int]) -> list[tuple[int, int]]:
    """The ranges that are left of one."""
    marks = [low - 1, *sorted(held), high + 1]
    return [(a + 1, b - 1) for a, b in pairwise(marks) if a + 1 <= b - 1]


@cache
def _spaces() -> frozenset[bytes]:
    """White space of several bytes, as `str.split` knows it."""
    return frozenset(
        chr(code).encode() for code in range(0x80, 0x10000) if chr(code).isspace()
    )
