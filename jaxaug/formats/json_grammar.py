"""Answers of `json_tools` as a regular byte language, for constrained decoding.

Every text of the language parses without a malformed piece. It is JSON as `json_tools`
writes it, with slots in the order of the prompt, each at most once. Categorical slots
have possible values (or `dontcare`). Free values have at least one non-space character.
"""

from collections.abc import Iterable, Sequence

from jaxaug.core.byte_machine import Machine, Part
from jaxaug.formats.characters import Characters, spaces
from jaxaug.formats.json_tools import Signature, dumped

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
