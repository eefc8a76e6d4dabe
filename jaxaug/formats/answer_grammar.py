"""Answers of D3ST, T5DST, and JSON as regular languages, for constrained decoding.

Every text of a language parses without a malformed piece. Categorical slots have one of
their options or `dontcare`. In D3ST, slots are in the order of the prompt, each at most
once.
"""

import functools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from jaxaug.core.byte_machine import Machine, Part
from jaxaug.core.errors import UserError
from jaxaug.data.schema import Service, Slot
from jaxaug.formats import json_grammar, json_tools
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.json_grammar import Characters, gaps_of, spaces
from jaxaug.formats.json_tools import JSONOptions
from jaxaug.formats.records import BAR, FormatOptions, clean_value, letter
from jaxaug.formats.t5dst import T5DSTFormatter, T5DSTOptions, slot_of

ANY_VALUE = "dontcare"
_NONE = "none"
_BLACK = (0x21, 0x7E)  # Printable ASCII characters without the space.
_DIGITS = (0x30, 0x39)


class FrameSignature(NamedTuple):
    """The answers of D3ST about one service.

    Attributes:
        delimiter: delimiter between index and value.
        slots: answers of each slot; empty for a free slot.
        intents: number of intents; None if answers have only the state.
    """

    delimiter: str
    slots: tuple[tuple[str, ...], ...]
    intents: int | None


class SlotSignature(NamedTuple):
    """The answers of T5DST about one slot; empty for a free slot."""

    answers: tuple[str, ...]


def signature(options: FormatOptions, service: Service, key: str) -> Hashable:
    """Returns the properties that determine the language of an example's answers.

    Raises:
        UserError: the format has no language, or its order is not the schema's.
    """
    if not isinstance(options, D3STOptions | T5DSTOptions | JSONOptions):
        family = getattr(options, "family", type(options).__name__)
        raise UserError(
            f"constrained answers: there are none for the format {family!r}, only for "
            "d3st, t5dst, and json. Leave --constrained out."
        )
    if options.order != "schema":
        raise UserError(
            f"constrained answers: order={options.order!r}: they follow the order of "
            f"the schema. Use order='schema'."
        )
    if isinstance(options, JSONOptions):
        return key
    if isinstance(options, T5DSTOptions):
        slot = service.slot(slot_of(key))
        values = slot.possible_values if slot.is_categorical else ()
        letters = tuple(letter(place) for place in range(len(values)))
        return SlotSignature((*letters, ANY_VALUE) if letters else ())
    answers = [_of_d3st(i, slot, options) for i, slot in enumerate(service.slots)]
    intents = len(service.intents) if options.level == "dst_intent" else None
    return FrameSignature(options.delimiter, tuple(answers), intents)


def _of_d3st(index: int, slot: Slot, options: D3STOptions) -> tuple[str, ...]:
    values = slot.possible_values if slot.is_categorical else ()
    if not values:
        return ()
    is_free = not options.digit_options and all(map(str.isdigit, values))
    if is_free or options.categorical == "none":
        found = [clean_value(value, options.lowercase) for value in values]
    else:
        found = [f"{index}{letter(place)}" for place in range(len(values))]
    return tuple(dict.fromkeys((*found, ANY_VALUE)))


@functools.lru_cache(maxsize=64)
def machine(signatures: tuple[Hashable, ...]) -> Machine:
    """Returns a machine with the languages of the signatures.

    Args:
        signatures: results of `signature`, all for one format.
    """
    if isinstance(signatures[0], str):
        keys = [key for key in signatures if isinstance(key, str)]
        return json_grammar.machine([json_tools.signature(key) for key in keys])
    words = _Answers()
    return words.machine(
        *(
            words.frame(one) if isinstance(one, FrameSignature) else words.slot(one)
            for one in signatures
            if isinstance(one, FrameSignature | SlotSignature)
        )
    )


class _Answers(Characters):
    """Parts of answers; their words are separated by single spaces."""

    def frame(self, about: FrameSignature) -> Part:
        """Returns a whole answer of D3ST."""
        bar = f" {BAR} ".encode()
        items = []
        for index, answers in enumerate(about.slots):
            begin = self.literal(f" {index}{about.delimiter}".encode())
            if answers:
                value = self._listed(answers, bar)
            else:
                value = self._words(BAR, about.delimiter)
            items.append(self.sequence(begin, self._blank(), value))
        parts = [self._blank(), self.literal(b"[states]"), self._in_order(items)]
        if about.intents is not None:
            parts += [
                self.literal(b" [intents]"),
                self._optional([f" i{n}" for n in range(about.intents)]),
                self.literal(b" [req_slots]"),
                self._repeated([f" {n}" for n in range(len(about.slots))]),
            ]
        return self.sequence(*parts)

    def slot(self, about: SlotSignature) -> Part:
        """Returns a whole answer of T5DST."""
        bar = T5DSTFormatter.bar
        if about.answers:
            listed = self._listed(about.answers, f" {bar} ".encode())
            found = self.choice([self.literal(_NONE.encode()), listed])
        else:
            found = self._words(bar)
        return self.sequence(self._blank(), found)

    def _blank(self) -> Part:
        """Returns at most one space, which pieces have and texts lack.

        The first piece of a SentencePiece text starts with a space. In the project's
        vocabularies an index is also followed by one (`feed.vocabulary.SET_BEHIND`).
        """
        return self._optional([" "])

    def _optional(self, texts: Sequence[str]) -> Part:
        return self.choice(self.literal(text.encode()) for text in ("", *texts))

    def _repeated(self, texts: Sequence[str]) -> Part:
        """Returns any number of the texts."""
        first, last = self._optional(texts)
        self.join(last, first)
        return first, last

    def _in_order(self, parts: Sequence[Part]) -> Part:
        """Returns some of the parts in their order, each at most once."""
        first, last = self.state(), self.state()
        self.join(first, last)
        for number, (start, end) in enumerate(parts):
            self.join(first, start)
            self.join(end, last)
            for later, _ in parts[number + 1 :]:
                self.join(end, later)
        return first, last

    def _listed(self, answers: Sequence[str], bar: bytes) -> Part:
        """Returns one or more of the answers."""
        first, last = self.choice(self.literal(text.encode()) for text in answers)
        begin, end = self.literal(bar)
        self.join(last, begin)
        self.join(end, first)
        return first, last

    def _words(self, bar: str, delimiter: str = "") -> Part:
        """Returns one or more values of words that are neither bars nor D3ST marks.

        Args:
            delimiter: delimiter of D3ST, or empty. With it, only the first word of a
                value may be an index with delimiter, and no word starts with the
                bracket of a mark.
        """
        reserved = {ord(bar[0]), ord("[")} if delimiter else {ord(bar[0])}
        begin, inside, gap, last = (self.state() for _ in range(4))
        tails = self.tails(inside)
        digits = set(range(_DIGITS[0], _DIGITS[1] + 1))
        word = gaps_of(*_BLACK, reserved)
        self.characters(begin, word, tails, spaces())
        self.characters(inside, [_BLACK], tails, spaces())
        self.move(inside, 0x20, 0x20, gap)
        self.join(inside, last)
        self.characters(
            gap, gaps_of(*_BLACK, reserved | digits if delimiter else reserved), tails,
            spaces(),
        )  # fmt: skip
        if delimiter:
            number = self.state()
            self.move(gap, *_DIGITS, number)
            self.move(number, *_DIGITS, number)
            others = gaps_of(*_BLACK, digits | {delimiter.encode()[0]})
            self.characters(number, others, tails, spaces())
            self.move(number, 0x20, 0x20, gap)
            self.join(number, last)
        first_of_bar, end_of_bar = self.literal(f"{bar} ".encode())
        self.join(gap, first_of_bar)
        self.join(end_of_bar, begin)
        return begin, last
