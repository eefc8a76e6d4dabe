"""T5DST: one question per slot (Lee et al., 2021; prompt of Coca et al., 2023).

  [user] i want to see a concert [slot] type of event a) music b) sports   ->   a

The answer is the value, the letter of an option, or `none` for a slot that the state
does not fill. Several values are joined by ` || `, as in the authors' program. Unlike
in the paper's variants, neither service nor slot is named; only the description
identifies the slot.
"""

import abc
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxaug.core.text import clean
from jaxaug.data.dialogue import State
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.formats.arguments import Order
from jaxaug.formats.records import (
    BAR,
    Answered,
    FrameRandom,
    Parsed,
    SchemaFormatter,
    clean_value,
    join_values,
    letter,
    read_option,
    split_values,
)

Prompts = Callable[[Slot, Sequence[str]], tuple[str, str]]

_NONE = "none"


class OneSlot:
    """Mixin of options whose examples ask for one slot each."""

    __slots__ = ()

    per_slot: ClassVar[bool] = True

    @property
    def answers_intents(self) -> bool:
        """False, because it asks for one slot at a time."""
        return False

    def parse(self, text: str, key: str) -> Parsed:
        """See `parse` of this module."""
        return parse(text, key)


class T5DSTOptions(Order, OneSlot):
    """Options of T5DST text."""

    family: ClassVar[str] = "t5dst"
    version: ClassVar[int] = 2

    def formatter(self, schema: Schema) -> "T5DSTFormatter":
        """Returns a formatter of dialogues under a schema."""
        return T5DSTFormatter(schema, self)


class PerSlotFormatter(SchemaFormatter):
    """Formatter with an example per slot of a frame; subclasses define the question.

    Attributes:
        bar: separator of several values of a slot.
    """

    bar: ClassVar[str] = BAR

    @abc.abstractmethod
    def prompts(self, service: Service) -> Prompts:
        """Returns (slot, ordered options) -> texts before and after the dialogue."""

    def prepared(self, service: Service) -> "_Questions":
        """See `SchemaFormatter`."""
        prompts, lowercase = self.prompts(service), self._options.lowercase
        known = {
            slot.name: _Question(
                slot,
                slot.possible_values if slot.is_categorical else (),
                lowercase,
                prompts,
                self.bar,
            )
            for slot in service.slots
        }
        return _Questions(known, self._options.order == "schema")


class T5DSTFormatter(PerSlotFormatter):
    """Asks by the description of a slot, after the dialogue."""

    bar: ClassVar[str] = "||"

    def prompts(self, service: Service) -> Prompts:
        """See `PerSlotFormatter`."""
        lowercase = self._options.lowercase

        def prompt(slot: Slot, options: Sequence[str]) -> tuple[str, str]:
            texts = (clean(value, lowercase) for value in options)
            listed = (f" {letter(i)}) {text}" for i, text in enumerate(texts))
            return "", f" [slot] {clean(slot.description, lowercase)}{''.join(listed)}"

        return prompt


class _Question:
    """The question about one slot, with its options in one order."""

    def __init__(
        self,
        slot: Slot,
        options: Sequence[str],
        lowercase: bool,
        prompts: Prompts,
        bar: str,
    ):
        self.slot = slot
        self._lowercase, self._prompts, self._bar = lowercase, prompts, bar
        self._letters = {value: letter(i) for i, value in enumerate(options)}
        self.before, self.behind = prompts(slot, options)
        fields: dict[str, Any] = {"slot": slot.name, "options": options}
        if bar != BAR:
            fields["bar"] = bar
        self.key = json.dumps(fields, separators=(",", ":"))

    def shuffled(self, rng: FrameRandom) -> "_Question":
        """Returns the same question with its options in an order drawn from `rng`."""
        options = list(self._letters)
        if not options:
            return self
        rng.shuffle(options)
        return _Question(self.slot, options, self._lowercase, self._prompts, self._bar)

    def answer(self, values: Sequence[str]) -> str:
        """Returns the target for the annotated values."""
        if not values:
            return _NONE
        answers = (
            self._letters.get(value) or clean_value(value, self._lowercase)
            for value in values
        )
        return join_values(answers, self._bar)


@dataclass(frozen=True, slots=True)
class _Questions:
    """The questions about a service, by slot; see `records.Prompt`."""

    known: Mapping[str, _Question]
    is_fixed: bool

    def examples(
        self, state: State, context: str, rng: FrameRandom
    ) -> Iterable[Answered]:
        asked = list(self.known.values())
        if not self.is_fixed:
            rng.shuffle(asked)
            asked = [question.shuffled(rng) for question in asked]
        for one in asked:
            values = state.slot_values.get(one.slot.name, ())
            yield f"{one.before}{context}{one.behind}", one.answer(values), one.key


@functools.lru_cache(maxsize=4096)
def _read_key(key: str) -> tuple[str, list[str], str]:
    data = json.loads(key)
    return data["slot"], data["options"], data.get("bar", BAR)


def slot_of(key: str) -> str:
    """Returns the name of the slot that an example asks for."""
    return _read_key(key)[0]


def parse(text: str, key: str) -> Parsed:
    """Parses the answer for one slot, given the key of its example.

    `slot_values` of the result has this slot, or nothing if the answer is `none`. It
    inverts the formatter up to letter case and spaces. No value may contain the
    formatter's bar between spaces, and no unlisted value of a categorical slot may look
    like a letter. Empty answers, empty values, and invalid letters are skipped and
    counted.
    """
    name, options, bar = _read_key(key)
    text = " ".join(text.split())
    if text.lower() == _NONE:  # An option called "None" is answered by its letter.
        return Parsed({})
    values = []
    malformed = 0
    for piece in split_values(text, bar):
        value = read_option(piece, options)
        if value:
            values.append(value)
        else:
            malformed += 1
    return Parsed({name: tuple(values)} if values else {}, malformed=malformed)
